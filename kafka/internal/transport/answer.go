package transport

import (
	"io"
	"net"
	"slices"
	"time"
)

// An Answer is the response to a request, with the memory to return once it is written.
type Answer struct {
	Pieces  [][]byte // the size comes first; the first piece is returned to KeepBuffer. nil: no response
	Charged int      // bytes taken for it by Conn.Take, TakeSome and Charge; the rest of Pieces is charged
	Fetched []byte   // buffer of its records, returned to Memory.Fetched
	Recycle bool     // the request's buffer may be reused afterwards
	End     End
}

// An End is the effect of an Answer on the connection.
type End uint8

const (
	GoOn      End = iota
	EndAfter      // the connection is closed after the answer
	EndBefore     // the connection is closed instead of the answer, after those before it
)

// maxWrite is the most bytes written at a time. Each such write must end within Limits.SlowReader.
const maxWrite = 1 << 20

// A Writer selects the goroutine that writes ready answers, which can block.
type Writer uint8

const (
	Caller  Writer = iota // the goroutine that calls Answer
	Another               // a new one
)

// complete marks a request done and has ready answers written.
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

// send writes responses: small ones together, and the pieces of large ones without copying them.
// Each step of at most maxWrite bytes has its own deadline.
func (c *Conn) send(answered []*Request) error {
	var pieces net.Buffers
	size, begun := 0, false
	flush := func() error {
		now := time.Now()
		if !begun {
			begun = true
			c.begins(now)
		}
		c.nc.SetWriteDeadline(c.readerBy(now))
		err := c.writePieces(pieces)
		if size == maxWrite { // there may be more
			c.moves(size)
		}
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

// release returns the memory of a request and its answer. Buffers are kept before their bytes are
// free, so that the next take finds them.
func (r *Request) release() {
	m := r.conn.memory
	if len(r.answer.Pieces) > 0 {
		KeepBuffer(r.answer.Pieces[0])
	}
	if r.answer.Recycle {
		m.requests.keep(r.Bytes)
	}
	m.Fetched.Keep(r.answer.Fetched)
	c := r.conn
	c.held.Add(-int64(r.held))
	if r.budget == m.Guests {
		c.give(m.Guests, r.charged)
		r.charged = 0
	}
	c.Give(r.answer.Charged + r.charged)
	r.Bytes, r.answer, r.charged, r.held = nil, Answer{}, 0, 0
}

// takeDoneLocked removes the done requests from the queue of a closed connection. The caller
// releases them: each is released once, by Close, by the writer, or by the call that completed it.
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

// A MessageWriter is a connection with a better way to send several pieces, such as a connection
// with TLS.
type MessageWriter interface {
	// WritePieces writes pieces one after the other.
	WritePieces(net.Buffers) error
}

// writePieces writes one or more responses, in one vectored write unless c.nc is a MessageWriter.
func (c *Conn) writePieces(pieces net.Buffers) error {
	if w, ok := c.nc.(MessageWriter); ok {
		return w.WritePieces(pieces)
	}
	_, err := pieces.WriteTo(c.nc)
	return err
}
