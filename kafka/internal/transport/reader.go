package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrMalformed closes a connection: what comes after cannot be trusted.
	ErrMalformed = errors.New("kafka: malformed request")
	// ErrDraining ends reading: the requests that were read are answered, and no more.
	ErrDraining = errors.New("kafka: the connection is draining")
)

// Next reads the next request. Its memory is taken as bytes come, whatever size is announced. It
// waits while the client has maxHeld bytes of unanswered requests, and then until nothing has come,
// nor been answered, for Limits.Idle. An error ends the connection.
func (c *Conn) Next() (*Request, error) {
	if err := c.awaitRoom(); err != nil {
		return nil, err
	}
	if c.trusted.Load() {
		c.first = time.Time{}
	}
	for quiet := time.Now(); ; {
		deadline := c.first
		if deadline.IsZero() {
			deadline = quiet.Add(c.limits.Idle)
		}
		if c.Draining() {
			return nil, ErrDraining
		}
		err := c.in.wait(deadline)
		if err == nil {
			break
		}
		active := c.lastActive()
		if !isTimeout(err) || !c.first.IsZero() || !active.After(quiet) {
			return nil, err
		}
		quiet = active
	}
	if c.first.IsZero() && len(c.in.ahead) < 4 {
		c.ReadBy(time.Now().Add(c.limits.WholeRequest))
	}
	head, err := c.in.peek(6)
	if err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head)))
	key := int16(binary.BigEndian.Uint16(head[4:]))
	if limit := c.largest(key); size < minFrame || size > limit {
		return nil, fmt.Errorf("%w: size %d, at most %d are allowed for API %d", ErrMalformed, size, limit, key)
	}
	c.in.skip(4)
	if c.first.IsZero() && len(c.in.ahead) < size {
		c.ReadBy(time.Now().Add(c.limits.WholeRequest))
	}
	return c.body(size)
}

// Token reads a size, and that many bytes, at most limit: what comes of SASL without a request
// around it. It must be there when the first request must or, where that was, within
// Limits.WholeRequest.
func (c *Conn) Token(limit int) (*Request, error) {
	if err := c.awaitRoom(); err != nil {
		return nil, err
	}
	deadline := c.first
	if deadline.IsZero() {
		deadline = time.Now().Add(c.limits.WholeRequest)
	}
	if err := c.in.wait(deadline); err != nil {
		return nil, err
	}
	head, err := c.in.peek(4)
	if err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head)))
	if size < 0 || size > limit {
		return nil, fmt.Errorf("%w: a token of %d bytes, at most %d are allowed", ErrMalformed, size, limit)
	}
	c.in.skip(4)
	return c.body(size)
}

// body reads the bytes of a request, in steps of which each is at most three times what has come.
func (c *Conn) body(size int) (*Request, error) {
	m := c.memory
	r := &Request{conn: c, Bytes: m.requests.take(size)}
	if cap(r.Bytes) < size {
		r.Bytes = m.requests.make(min(size, firstStep))
	}
	for len(r.Bytes) < size {
		step := min(size-len(r.Bytes), max(firstStep, 3*len(r.Bytes)))
		if err := m.Budget.TakeWithin(c.ctx, step, c.limits.WholeRequest); err != nil {
			r.Drop()
			return nil, err
		}
		r.charged += step
		if need := len(r.Bytes) + step; need > cap(r.Bytes) {
			grown := m.requests.take(need)
			if cap(grown) < need {
				grown = m.requests.make(need)
			}
			grown = append(grown, r.Bytes...)
			m.requests.keep(r.Bytes)
			r.Bytes = grown
		}
		at := len(r.Bytes)
		r.Bytes = r.Bytes[:at+step]
		if err := c.in.readFull(r.Bytes[at:]); err != nil {
			r.Drop()
			return nil, err
		}
	}
	return r, nil
}
