package producer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// memory bounds the bytes of records that are accepted and not settled. Callers without free memory
// wait in line.
type memory struct {
	limit   int64
	used    atomic.Int64
	waiting atomic.Int32 // length of line; written under mu

	mu     sync.Mutex // guards the fields below
	line   []*claimant
	closed bool
}

type claimant struct {
	n     int64
	ready chan struct{} // closed when the bytes are granted, or the producer closes
	given bool
}

// tryAcquire takes n bytes if there is room and no caller waits in line.
func (m *memory) tryAcquire(n int64) bool {
	if m.waiting.Load() > 0 {
		return false
	}
	if m.used.Add(n) <= m.limit {
		return true
	}
	m.release(n) // not just Add(-n): a caller that saw the bytes taken may have lined up
	return false
}

// acquire waits for n bytes, at most for limit; NoWait does not wait.
func (m *memory) acquire(ctx context.Context, n int64, limit time.Duration) error {
	c := &claimant{n: n, ready: make(chan struct{})}
	m.mu.Lock()
	if m.closed { // the line is no longer served
		m.mu.Unlock()
		return ErrClosed
	}
	if limit < 0 {
		m.mu.Unlock()
		return fmt.Errorf("%w: %d bytes are buffered and %d more do not fit", ErrTimeout, m.used.Load(), n)
	}
	m.line = append(m.line, c)
	m.waiting.Store(int32(len(m.line)))
	m.grantLocked() // bytes that were released before waiting was stored
	given := c.given
	m.mu.Unlock()
	if given {
		return nil
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	var err error
	select {
	case <-c.ready:
		if !m.withdraw(c) {
			return nil
		}
		return ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = fmt.Errorf("%w after %v: %d bytes are buffered and %d more do not fit", ErrTimeout, limit, m.used.Load(), n)
	}
	if !m.withdraw(c) {
		m.release(n) // granted in the meantime
	}
	return err
}

// withdraw removes c from the line. It returns false if c already has its bytes.
func (m *memory) withdraw(c *claimant) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.given {
		return false
	}
	if i := slices.Index(m.line, c); i >= 0 {
		m.line = slices.Delete(m.line, i, i+1)
	}
	m.waiting.Store(int32(len(m.line)))
	m.grantLocked() // a smaller claim may have stood behind
	return true
}

// release returns n bytes.
func (m *memory) release(n int64) {
	m.used.Add(-n)
	if m.waiting.Load() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grantLocked()
}

// grantLocked serves the head of the line while there is room.
func (m *memory) grantLocked() {
	for len(m.line) > 0 {
		c := m.line[0]
		if m.used.Add(c.n) > m.limit {
			m.used.Add(-c.n) // all of this under mu; a tryAcquire that saw it fails and lines up
			return
		}
		c.given = true
		close(c.ready)
		m.line = slices.Delete(m.line, 0, 1)
		m.waiting.Store(int32(len(m.line)))
	}
}

// close ends every wait with ErrClosed.
func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, c := range m.line {
		close(c.ready)
	}
	m.line = nil
	m.waiting.Store(0)
}
