package transport

import (
	"net"
	"syscall"
	"time"
)

// lookEvery is how often a connection that is not read from is checked for its client.
const lookEvery = 100 * time.Millisecond

// Gone reports whether the connection has ended. It ends the connection if the client has closed
// its end. While a request is served the connection may not be read, and the client's end may come
// after requests that are still unread.
//
// Gone is for loops over many elements: it makes at most one system call in lookEvery. On systems
// that do not report a client's end (see hungUp), Gone returns false until the connection is read
// again.
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

// socketOf returns the socket below nc, for example below TLS; nil if there is none.
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
