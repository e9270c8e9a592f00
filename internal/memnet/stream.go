package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// BufferSize bounds the bytes in transit in one direction. A writer waits for more room.
const BufferSize = 256 << 10

// A stream is one direction of a connection.
type stream struct {
	mu         sync.Mutex // guards the fields below; never held while waiting
	changed    sync.Cond  // reader and writer never both wait: a buffer is not both empty and full
	buf        []byte     // buf[off:] is in transit
	off        int
	readClosed bool
	writeErr   error // error of writes after the writing end was closed; nil while it is open
	readBy     deadline
	writeBy    deadline
}

func newStream() *stream {
	s := &stream{}
	s.changed.L = &s.mu
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.readClosed:
			return 0, net.ErrClosed
		case s.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case s.off < len(s.buf):
			n := copy(p, s.buf[s.off:])
			if s.off += n; s.off == len(s.buf) {
				s.buf, s.off = s.buf[:0], 0
			}
			s.changed.Broadcast()
			return n, nil
		case s.writeErr != nil:
			return 0, io.EOF
		}
		s.changed.Wait()
	}
}

func (s *stream) write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch free := BufferSize - (len(s.buf) - s.off); {
		case s.writeErr != nil:
			return n, s.writeErr
		case s.readClosed:
			return n, syscall.EPIPE
		case s.writeBy.passed():
			return n, os.ErrDeadlineExceeded
		case len(p) == n:
			return n, nil
		case free > 0:
			k := min(free, len(p)-n)
			s.appendLocked(p[n : n+k])
			n += k
			s.changed.Broadcast()
			continue
		}
		s.changed.Wait()
	}
}

// appendLocked adds p after the bytes in transit. It moves these to the front of the buffer before
// it grows the buffer.
func (s *stream) appendLocked(p []byte) {
	if s.off > 0 && len(s.buf)+len(p) > cap(s.buf) {
		s.buf = s.buf[:copy(s.buf, s.buf[s.off:])]
		s.off = 0
	}
	s.buf = append(s.buf, p...)
}

// closeRead closes the reading end, and reports whether it was open.
func (s *stream) closeRead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.readClosed
	s.readClosed = true
	s.buf, s.off = nil, 0
	s.readBy.stop()
	s.changed.Broadcast()
	return first
}

// closeWrite closes the writing end. Later writes return err.
func (s *stream) closeWrite(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeErr != net.ErrClosed { // Close replaces the error of CloseWrite, but not the reverse
		s.writeErr = err
	}
	s.writeBy.stop()
	s.changed.Broadcast()
}

func (s *stream) setReadDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.readClosed {
		s.setLocked(&s.readBy, t)
	}
}

func (s *stream) setWriteDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeErr == nil {
		s.setLocked(&s.writeBy, t)
	}
}

// setLocked sets a deadline. It wakes waiting readers and writers now and when the deadline passes.
func (s *stream) setLocked(d *deadline, t time.Time) {
	d.stop()
	d.at, d.expired = t, false
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		var timer *time.Timer
		timer = time.AfterFunc(wait, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			d.expired = d.expired || d.timer == timer
			s.changed.Broadcast()
		})
		d.timer = timer
	}
	s.changed.Broadcast()
}

// A deadline is a point in time, with the timer that wakes the waiting goroutines.
type deadline struct {
	at    time.Time // zero: none
	timer *time.Timer
	// set when the timer has fired: the wall clock, by which at is compared, may differ slightly
	// from the monotonic clock of timers
	expired bool
}

func (d *deadline) passed() bool {
	return d.expired || !d.at.IsZero() && !time.Now().Before(d.at)
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
