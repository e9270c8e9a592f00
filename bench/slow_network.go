package main

import (
	"context"
	"io"
	"net"
	"time"
)

// delayed returns a dialer whose connections take roundTrip for a request and its response. All of
// it is added to the way back. The bandwidth is not limited.
func delayed(roundTrip time.Duration) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		time.Sleep(roundTrip) // the handshake
		c := &delayedConn{Conn: raw, late: make(chan arrival, 4096)}
		go c.receive(roundTrip)
		return c, nil
	}
}

// A delayedConn hands out received bytes later.
type delayedConn struct {
	net.Conn
	late chan arrival // closed after the last one
	now  arrival      // being handed out
}

type arrival struct {
	at    time.Time
	bytes []byte
	err   error
}

func (c *delayedConn) receive(delay time.Duration) {
	defer close(c.late)
	for {
		buf := make([]byte, 64<<10)
		n, err := c.Conn.Read(buf)
		c.late <- arrival{time.Now().Add(delay), buf[:n], err}
		if err != nil {
			return
		}
	}
}

// Read ignores the deadline of the connection: benchmarks do not wait for a broker that is silent.
func (c *delayedConn) Read(p []byte) (int, error) {
	for len(c.now.bytes) == 0 {
		if c.now.err != nil {
			return 0, c.now.err
		}
		var open bool
		if c.now, open = <-c.late; !open {
			return 0, io.EOF
		}
		time.Sleep(time.Until(c.now.at))
	}
	n := copy(p, c.now.bytes)
	c.now.bytes = c.now.bytes[n:]
	return n, nil
}
