package transport

import (
	"net"
	"syscall"
	"time"
)

// lookEvery is how often a connection that is not read from is checked for its client.
const lookEvery = 100 * time.Millisecond

// Gone reports whether the connection has ended. It ends the connection if the client has closed
// its own end: while a request is served nothing may read from the connection, and a client's end
// behind requests that are still unread cannot be read at all.
//
// Gone is for loops over many things: the system is called once in lookEvery. Where it does not
// report the end of a client (see hungUp), Gone returns false until the connection is read from.
func (c *Conn) Gone() bool {
	if c.ctx.Err() != nil {
		return true
	}
	now, last := time.Now().UnixNano(), c.looked.Load()
	if c.socket == nil || now-last < int64(lookEvery) || !c.looked.CompareAndSwap(last, now) || !hungUp(c.socket) {
		return false
	}
	c.cancel()
	return true
}

// socketOf returns the socket that carries nc, below TLS and the like; nil if there is none.
func socketOf(nc net.Conn) syscall.Conn {
	for {
		over, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			socket, _ := nc.(syscall.Conn)
			return socket
		}
		nc = over.NetConn()
	}
}
