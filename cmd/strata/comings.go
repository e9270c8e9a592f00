package main

import (
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// comings reports when a broker becomes unreachable and when it is back, once for each outage.
type comings struct {
	say func(format string, args ...any)

	mu   sync.Mutex      // guards away and the output: hooks are called by several goroutines
	away map[string]bool // by address
}

var _ kgo.HookBrokerConnect = (*comings)(nil)

// OnBrokerConnect implements kgo.HookBrokerConnect. The end of a connection is not reported,
// because either side closes idle connections. A failed attempt to connect again is.
func (c *comings) OnBrokerConnect(b kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	addr := addressOf(b)
	switch {
	case err != nil && !c.away[addr]:
		c.setLocked(addr, true)
		c.say("no broker at %s (%v); trying again", addr, err)
	case err == nil && c.away[addr]:
		c.setLocked(addr, false)
		c.say("the broker at %s is back", addr)
	}
}

func (c *comings) setLocked(addr string, away bool) {
	if c.away == nil {
		c.away = map[string]bool{}
	}
	c.away[addr] = away
}

func addressOf(b kgo.BrokerMetadata) string {
	return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
}
