package main

import (
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// comings tells when brokers go and come: once for each time that the connections to one fail.
type comings struct {
	say func(format string, args ...any)

	mu   sync.Mutex      // guards the field below, and say: hooks are called by many goroutines
	away map[string]bool // by address
}

var _ kgo.HookBrokerConnect = (*comings)(nil)

// OnBrokerConnect implements kgo.HookBrokerConnect. That a connection ends is not told: either side
// closes one that was not used for a while. That it cannot be made again is.
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
