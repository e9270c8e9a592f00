package kafka

import (
	"time"

	"github.com/stratalog/strata/kafka/internal/transport"
)

// Limits bound what clients can take. A zero field means its default.
type Limits struct {
	// RequestBytes bounds a request; default 100 MiB. Kafka: socket.request.max.bytes. Requests
	// other than produce may also not be larger decoded than InFlightBytes: their limit is that
	// divided by the bytes of memory that a byte of the request can take, about 1 to 5 MiB.
	RequestBytes  int
	Connections   int // at a time; default 10,000. Kafka: max.connections
	InFlightBytes int // of requests and responses over all connections; default 256 MiB, and as much again for
	// what is being decoded. Kafka: queued.max.request.bytes
	FirstRequest time.Duration // until a new connection has sent a request, and has authenticated; default 10 s
	WholeRequest time.Duration // from a request's first byte to its last; default 30 s
	Idle         time.Duration // between requests; default 10 min. Kafka: connections.max.idle.ms
	SlowReader   time.Duration // a client takes nothing of a response that waits for it; default 30 s
}

func (l Limits) withDefaults() Limits {
	set := func(p *int, n int) {
		if *p <= 0 {
			*p = n
		}
	}
	wait := func(p *time.Duration, d time.Duration) {
		if *p <= 0 {
			*p = d
		}
	}
	set(&l.RequestBytes, 100<<20)
	set(&l.Connections, 10_000)
	set(&l.InFlightBytes, 256<<20)
	l.InFlightBytes = max(l.InFlightBytes, 2*l.RequestBytes) // one request must fit, and its answer
	wait(&l.FirstRequest, 10*time.Second)
	wait(&l.WholeRequest, 30*time.Second)
	wait(&l.Idle, 10*time.Minute)
	wait(&l.SlowReader, 30*time.Second)
	return l
}

// times are those that bound a connection.
func (l Limits) times() transport.Limits {
	return transport.Limits{FirstRequest: l.FirstRequest, WholeRequest: l.WholeRequest, Idle: l.Idle, SlowReader: l.SlowReader}
}
