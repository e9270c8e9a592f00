package memnet

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Conn is one end of a connection. It is safe for concurrent use.
type Conn struct {
	in, out       *stream
	local, remote net.Addr
}

// Pipe returns the two ends of a connection between a and b.
func Pipe(a, b net.Addr) (*Conn, *Conn) {
	ab, ba := newStream(), newStream()
	return &Conn{in: ba, out: ab, local: a, remote: b}, &Conn{in: ab, out: ba, local: b, remote: a}
}

// Read reads bytes that have arrived, and waits if there are none. After the peer's last byte it
// returns io.EOF.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.opError("read", err)
}

// Write writes all of p. It waits for the peer to read while BufferSize bytes are in transit. After
// an error the first n bytes have been sent, and the peer may have read them.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.opError("write", err)
}

// Close closes both directions. The peer reads the bytes in transit and then io.EOF; its writes
// fail.
func (c *Conn) Close() error {
	first := c.in.closeRead()
	c.out.closeWrite(net.ErrClosed)
	if !first {
		return c.opError("close", net.ErrClosed)
	}
	return nil
}

// CloseWrite closes one direction. The peer reads the bytes in transit and then io.EOF; this end
// can still read.
func (c *Conn) CloseWrite() error {
	c.out.closeWrite(syscall.EPIPE)
	return nil
}

// LocalAddr returns this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the other end's address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	c.out.setWriteDeadline(t)
	return nil
}

// SetReadDeadline makes reads, including waiting ones, fail with os.ErrDeadlineExceeded from t on.
// The zero time means no deadline.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	return nil
}

// SetWriteDeadline is SetReadDeadline for writes.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.setWriteDeadline(t)
	return nil
}

// opError wraps an error as package net does. io.EOF is not wrapped.
func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if errno, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: "mem", Source: c.local, Addr: c.remote, Err: err}
}
