package transport

import (
	"errors"
	"net"
	"time"
)

const (
	inputBytes = 16 << 10    // bytes that are read ahead of a connection
	napTime    = time.Second // idle time after which the input buffer is returned
)

// input reads ahead of a connection. It returns its buffer when the connection is idle, so that
// idle connections use little memory.
type input struct {
	conn  *Conn
	buf   []byte // nil if it was returned
	small [8]byte
	ahead []byte // bytes read and not yet used, in buf or in small
}

// wait waits until there are bytes to use, at most until the deadline.
func (in *input) wait(deadline time.Time) error {
	if len(in.ahead) > 0 {
		return nil
	}
	if in.buf != nil {
		nap := time.Now().Add(napTime)
		if nap.After(deadline) {
			nap = deadline
		}
		in.conn.ReadBy(nap)
		err := in.fill(in.buf)
		if !isTimeout(err) || nap.Equal(deadline) {
			return err
		}
		KeepBuffer(in.buf)
		in.buf = nil
	}
	in.conn.ReadBy(deadline)
	return in.fill(in.small[:])
}

// fill reads once into b. No byte of b may be in use.
func (in *input) fill(b []byte) error {
	for {
		n, err := in.conn.nc.Read(b)
		in.ahead = b[:n]
		if n > 0 || err != nil {
			if n > 0 {
				err = nil // a permanent error is returned by the next read, too
			}
			return err
		}
	}
}

// peek returns the next n bytes, at most inputBytes, without using them up.
func (in *input) peek(n int) ([]byte, error) {
	for len(in.ahead) < n {
		if in.buf == nil {
			if in.buf = TakeBuffer(inputBytes); cap(in.buf) < inputBytes {
				in.buf = NewBuffer(inputBytes)
			}
			in.buf = in.buf[:inputBytes]
		}
		have := copy(in.buf, in.ahead)
		m, err := in.conn.nc.Read(in.buf[have:])
		in.ahead = in.buf[:have+m]
		if err != nil && len(in.ahead) < n {
			return nil, err
		}
	}
	return in.ahead[:n], nil
}

// skip uses up n peeked bytes.
func (in *input) skip(n int) { in.ahead = in.ahead[n:] }

// readFull fills b, directly from the connection after the bytes that were read ahead.
func (in *input) readFull(b []byte) error {
	n := copy(b, in.ahead)
	in.ahead = in.ahead[n:]
	b = b[n:]
	for len(b) > 0 {
		n := 0
		if len(b) < inputBytes && in.buf != nil { // this may also read some of the next bytes
			if err := in.fill(in.buf); err != nil {
				return err
			}
			n = copy(b, in.ahead)
			in.ahead = in.ahead[n:]
		} else {
			var err error
			if n, err = in.conn.nc.Read(b); n == 0 && err != nil {
				return err
			}
		}
		in.conn.moves(n)
		in.conn.arrived(n)
		b = b[n:]
	}
	return nil
}

// close returns the buffer.
func (in *input) close() {
	KeepBuffer(in.buf)
	in.buf, in.ahead = nil, nil
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}
