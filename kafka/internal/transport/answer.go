package transport

import (
	"io"
	"net"
	"slices"
	"time"
)

// An Answer is what becomes of a request: what is sent, what it holds until that is written, and
// what comes after it.
type Answer struct {
	Pieces  [][]byte // with the size in front, sent one after the other; the first one goes to KeepBuffer. nil: nothing is sent
	Charged int      // bytes of the budget
	Fetched []byte   // where its records were read to, goes back to Memory.Fetched
	Recycle bool     // the request's bytes may be used again for another one afterwards
	End     End
}

// An End says whether the connection goes on.
type End uint8

const (
	GoOn      End = iota
	EndAfter      // the connection is closed after the answer
	EndBefore     // the connection is closed instead of the answer, after those before it
)

// maxWrite is how much is written at a time: what a slow client must take within Limits.SlowReader.
const maxWrite = 1 << 20

// A Writer says which goroutine writes the answers that are ready, which can block.
type Writer uint8

const (
	Caller  Writer = iota // who answers
	Another               // a new one
)

// complete marks a request done and has what is ready written.
func (c *Conn) complete(r *Request, by Writer) {
	c.mu.Lock()
	r.done = true
	c.pending--
	lead := !c.writing && !c.closed && c.queue[0] == r
	if lead {
		c.writing = true
		if by == Another {
			c.writers.Add(1)
		}
	}
	var left []*Request
	if c.closed {
		left = c.takeDoneLocked()
	}
	c.mu.Unlock()
	c.wake()
	for _, r := range left {
		r.release()
	}
	switch {
	case lead && by == Caller:
		c.write()
	case lead:
		go func() {
			defer c.writers.Done()
			c.write()
		}()
	}
}

// write writes the answers at the front of the queue until the next one is not done.
func (c *Conn) write() {
	var ready []*Request
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
			c.wake()
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
			r.release()
		}
		c.wake()
	}
}

// send writes answers: small ones together, the pieces of large ones without copying them, in steps
// that each have their time.
func (c *Conn) send(answered []*Request) error {
	var pieces net.Buffers
	size := 0
	flush := func() error {
		c.nc.SetWriteDeadline(time.Now().Add(c.limits.SlowReader))
		err := c.writePieces(pieces)
		pieces, size = pieces[:0], 0
		return err
	}
	for _, r := range answered {
		if r.answer.End == EndBefore {
			flush()
			return io.EOF
		}
		for _, p := range r.answer.Pieces {
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
		if r.answer.End == EndAfter {
			flush()
			return io.EOF
		}
	}
	if size == 0 {
		return nil
	}
	return flush()
}

// release gives back what a request and its answer hold. Memory comes back before its bytes are
// free: who may take those finds it.
func (r *Request) release() {
	m := r.conn.memory
	if len(r.answer.Pieces) > 0 {
		KeepBuffer(r.answer.Pieces[0])
	}
	if r.answer.Recycle {
		m.requests.keep(r.Bytes)
	}
	m.Fetched.Keep(r.answer.Fetched)
	r.conn.held.Add(-int64(r.charged))
	m.Budget.Give(r.answer.Charged + r.charged)
	r.Bytes, r.answer, r.charged = nil, Answer{}, 0
}

// takeDoneLocked takes the done requests out of the queue of a closed connection, for the caller to
// free. Nobody else sees them any more: each is freed once, by who closes, by the writer, or by who
// completed it.
func (c *Conn) takeDoneLocked() []*Request {
	var done []*Request
	c.queue = slices.DeleteFunc(c.queue, func(r *Request) bool {
		if r.done {
			done = append(done, r)
		}
		return r.done
	})
	return done
}

// A MessageWriter is a connection that sends several pieces better by itself, as one with TLS does.
type MessageWriter interface {
	// WritePieces writes pieces one after the other.
	WritePieces(net.Buffers) error
}

// writePieces writes an answer, or several: in one vectored write where there is nothing better.
func (c *Conn) writePieces(pieces net.Buffers) error {
	if w, ok := c.nc.(MessageWriter); ok {
		return w.WritePieces(pieces)
	}
	_, err := pieces.WriteTo(c.nc)
	return err
}
