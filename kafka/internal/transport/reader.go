package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrMalformed closes a connection: the start of the next request is unknown.
	ErrMalformed = errors.New("kafka: malformed request")
	// ErrDraining ends reading: the requests that were read are answered, and no more.
	ErrDraining = errors.New("kafka: the connection is draining")
)

// Next reads the next request. It takes memory as bytes arrive, whatever size is announced. While
// the client has maxHeld bytes of unanswered requests, it waits. After that it waits for at most
// Limits.Idle since the last byte or response. An error ends the connection.
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

// Token reads a size and that many bytes, at most limit. They are a SASL token without a request
// around it. It must arrive by the deadline of the first request or, after that, within
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

// body reads the bytes of a request, in steps of at most three times the bytes read so far.
func (c *Conn) body(size int) (*Request, error) {
	m := c.memory
	r := &Request{conn: c, Bytes: m.requests.take(size), budget: c.budget()}
	extra := overhead // charged with the first step
	if r.budget == m.Guests {
		extra = 0
	}
	whole := len(c.in.ahead) >= size
	if !whole {
		c.begins(time.Now())
		c.receiving.Store(true)
		defer c.receiving.Store(false)
	}
	c.part = 0
	for len(r.Bytes) < size {
		step := min(size-len(r.Bytes), max(leastStep, len(c.in.ahead), 3*(len(r.Bytes)+len(c.in.ahead))))
		if r.budget != m.Guests || size > ownBytes {
			if err := c.takeStep(r, step+extra); err != nil {
				r.Drop()
				return nil, err
			}
		}
		extra = 0
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

// takeStep charges n bytes of r before they are read.
func (c *Conn) takeStep(r *Request, n int) error {
	by := c.ownerOf(r.budget)
	if !r.budget.try(&take{n: n, by: by, request: true}) {
		c.waits(true)
		err := r.budget.takeRequest(c.waiting, c.take(n, by), c.limits.WholeRequest)
		c.waits(false)
		if err != nil {
			return err
		}
		c.begins(time.Now())
	}
	r.charged += n
	c.charged.Add(int64(n))
	return nil
}
