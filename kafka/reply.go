package kafka

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reply is the place of an answer in the order of the connection.
type reply struct {
	out     [][]byte // the framed answer in pieces; the first one is a pooled buffer. nil: no answer
	frame   *frame   // the request; its bytes are used until the reply is written
	charged int      // of the server's budget, for the answer
	fetched []byte   // where its records were read to, goes back to the server's buffers
	recycle bool     // the request's bytes may be used again afterwards
	close   bool     // the connection is closed instead of an answer
	last    bool     // the connection is closed after the answer
	done    bool
}

// maxWrite is how much is written at a time: what a slow client must take within Limits.SlowReader.
const maxWrite = 1 << 20

func (c *conn) enqueue(r *reply) {
	c.held.Add(int64(r.frame.charged))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, r)
	c.pending++
}

// writes says which goroutine writes the answers that are ready, which can block.
type writes uint8

const (
	callerWrites writes = iota
	anotherWrites
)

// complete marks a reply done and has what is ready written.
func (c *conn) complete(r *reply, by writes) {
	c.mu.Lock()
	r.done = true
	c.pending--
	lead := !c.writing && !c.closed && c.queue[0] == r
	if lead {
		c.writing = true
		if by == anotherWrites {
			c.handlers.Add(1)
		}
	}
	var left []*reply
	if c.closed {
		left = c.takeDoneLocked()
	}
	c.mu.Unlock()
	select {
	case c.progress <- struct{}{}:
	default:
	}
	for _, r := range left {
		c.free(r)
	}
	switch {
	case lead && by == callerWrites:
		c.write()
	case lead:
		go func() {
			defer c.handlers.Done()
			c.write()
		}()
	}
}

// write writes the answers at the front of the queue until the next one is not done.
func (c *conn) write() {
	var ready []*reply
	for {
		c.mu.Lock()
		n := 0
		for n < len(c.queue) && c.queue[n].done {
			n++
		}
		if n == 0 {
			c.writing = false
			c.answered = time.Now()
			c.mu.Unlock()
			return
		}
		ready = append(ready[:0], c.queue[:n]...)
		left := copy(c.queue, c.queue[n:])
		clear(c.queue[left:])
		c.queue = c.queue[:left]
		closed := c.closed
		c.mu.Unlock()
		if !closed {
			if err := c.send(ready); err != nil {
				c.cancel()
				c.nc.Close() // the reader notices
				c.mu.Lock()
				c.closed = true
				ready = append(ready, c.takeDoneLocked()...)
				c.mu.Unlock()
			}
		}
		for _, r := range ready {
			c.free(r)
		}
		select {
		case c.progress <- struct{}{}:
		default:
		}
	}
}

// send writes answers: small ones together, the pieces of large ones without copying them, in steps
// that each have their time.
func (c *conn) send(replies []*reply) error {
	var pieces net.Buffers
	size := 0
	flush := func() error {
		c.nc.SetWriteDeadline(time.Now().Add(c.s.limits.SlowReader))
		err := c.writePieces(pieces)
		pieces, size = pieces[:0], 0
		return err
	}
	for _, r := range replies {
		if r.close {
			flush()
			return io.EOF
		}
		for _, p := range r.out {
			for len(p) > 0 {
				step := p[:min(len(p), maxWrite-size)]
				pieces, size = append(pieces, step), size+len(step)
				p = p[len(step):]
				if size < maxWrite {
					continue
				}
				if err := flush(); err != nil {
					return err
				}
			}
		}
		if r.last {
			flush()
			return io.EOF
		}
	}
	if size == 0 {
		return nil
	}
	return flush()
}

// free gives back what a reply holds.
func (c *conn) free(r *reply) {
	c.s.budget.give(r.charged + r.frame.charged)
	c.held.Add(-int64(r.frame.charged))
	if len(r.out) > 0 {
		keepBuffer(r.out[0])
	}
	if r.recycle {
		c.s.requests.keep(r.frame.buf)
	}
	c.s.fetched.keep(r.fetched)
	r.out, r.fetched, r.frame = nil, nil, &frame{}
	r.charged = 0
}

// takeDoneLocked takes the done replies out of the queue of a closed connection, for the caller to
// free. Nobody else sees them any more: each is freed once, by who closes, by the writer, or by who
// completed it.
func (c *conn) takeDoneLocked() []*reply {
	var done []*reply
	c.queue = slices.DeleteFunc(c.queue, func(r *reply) bool {
		if r.done {
			done = append(done, r)
		}
		return r.done
	})
	return done
}

// framed encodes an answer, in pieces that are to be written one after the other.
func framed(correlation int32, resp kmsg.Response) [][]byte {
	out := takeBuffer(4 << 10)
	if out == nil {
		out = make([]byte, 0, 512)
	}
	out = append(out, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(correlation))
	if resp.IsFlexible() && Key(resp.Key()) != ApiVersions {
		out = append(out, 0)
	}
	var pieces [][]byte
	if fetch, ok := resp.(*kmsg.FetchResponse); ok {
		pieces = appendFetch(out, fetch)
	} else {
		pieces = [][]byte{resp.AppendTo(out)}
	}
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	binary.BigEndian.PutUint32(pieces[0], uint32(size-4))
	return pieces
}
