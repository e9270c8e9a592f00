package kafka

import (
	"runtime"
	"time"

	"github.com/stratalog/strata/kafka/internal/transport"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// Limits bound the resources that clients can use. A zero field means its default. docs/limits.md
// has the table of all bounds, with the error that a client gets at each.
type Limits struct {
	// RequestBytes bounds a request; default 100 MiB. Kafka: socket.request.max.bytes. A request
	// other than produce must also not exceed InFlightBytes when it is decoded. So its limit is
	// InFlightBytes divided by the memory that a byte of the request can take: about 1 to 5 MiB.
	RequestBytes  int
	Connections   int // connections at a time; default 10,000. Kafka: max.connections
	InFlightBytes int // bytes of requests and responses of all connections; default 256 MiB, and as much for
	// decoded requests. Kafka: queued.max.request.bytes
	FirstRequest time.Duration // time for the first request and the authentication of a new connection; default 10 s
	WholeRequest time.Duration // time for a request, or for each 64 KiB of a larger one, to arrive; default 30 s
	Idle         time.Duration // time between requests; default 10 min. Kafka: connections.max.idle.ms
	SlowReader   time.Duration // time in which a client reads no byte of a pending response; default 30 s
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
	l.InFlightBytes = max(l.InFlightBytes, 2*l.RequestBytes) // room for a request and its response
	wait(&l.FirstRequest, 10*time.Second)
	wait(&l.WholeRequest, 30*time.Second)
	wait(&l.Idle, 10*time.Minute)
	wait(&l.SlowReader, 30*time.Second)
	return l
}

// times returns the limits of a connection's waits.
func (l Limits) times() transport.Limits {
	return transport.Limits{FirstRequest: l.FirstRequest, WholeRequest: l.WholeRequest, Idle: l.Idle, SlowReader: l.SlowReader}
}

// MemoryBytes returns the memory in bytes that clients can make a broker fill with these limits:
// three times InFlightBytes (requests and responses, decoded requests, the state of coordinators),
// the requests of unauthenticated clients, decompression on this machine's processors, and
// compaction with its default memory. Not in it are sessions, waiting fetches (about 450 bytes for
// each of their partitions), about 4 kB a partition and 6 KiB a connection.
//
// A program that serves clients can add its own needs and call debug.SetMemoryLimit: else Go's
// collector lets the memory of the process grow to twice as much.
func (l Limits) MemoryBytes() int64 {
	l = l.withDefaults()
	inflated := record.DefaultMaxInflated + runtime.GOMAXPROCS(0)*record.InflatedPerProcessor
	return int64(3*l.InFlightBytes + transport.GuestBytes(l.InFlightBytes) + inflated + log.DefaultCompactionMemory)
}
