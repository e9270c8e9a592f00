package link

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Counters count the connections and requests of several clients. The zero value is ready for use.
type Counters struct {
	Connections, Connects, FailedConnects atomic.Int64
	Requests, BytesSent, BytesReceived    atomic.Int64
	Throttled                             atomic.Int64 // time that brokers have delayed requests, ns
}

var (
	_ kgo.HookBrokerConnect    = (*Counters)(nil)
	_ kgo.HookBrokerDisconnect = (*Counters)(nil)
	_ kgo.HookBrokerWrite      = (*Counters)(nil)
	_ kgo.HookBrokerRead       = (*Counters)(nil)
	_ kgo.HookBrokerThrottle   = (*Counters)(nil)
)

// OnBrokerConnect implements kgo.HookBrokerConnect. A connection whose login failed has a conn,
// too, and OnBrokerDisconnect is called for it.
func (c *Counters) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, conn net.Conn, err error) {
	if conn != nil {
		c.Connections.Add(1)
	}
	if err != nil {
		c.FailedConnects.Add(1)
	} else {
		c.Connects.Add(1)
	}
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
func (c *Counters) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { c.Connections.Add(-1) }

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (c *Counters) OnBrokerWrite(_ kgo.BrokerMetadata, _ int16, n int, _, _ time.Duration, err error) {
	if err == nil {
		c.Requests.Add(1)
	}
	c.BytesSent.Add(int64(n))
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (c *Counters) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, n int, _, _ time.Duration, _ error) {
	c.BytesReceived.Add(int64(n))
}

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (c *Counters) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	c.Throttled.Add(int64(d))
}
