package transport

import (
	"slices"
	"sync"

	"github.com/stratalog/strata/internal/uncleared"
)

// leastStocked is the size from which buffers are kept in a stock.
const leastStocked = 64 << 10

// A stock keeps large unused buffers, as many as were in use at once. A sync.Pool would keep some
// for each processor and size, which other processors could not use. The collector would also let
// garbage grow to the size of the memory in use.
type stock struct {
	mu   sync.Mutex // guards the fields below; a leaf, held for a few instructions
	free [][]byte   // empty; the most recently used last
	held int        // sum of their capacities
}

// take returns the smallest buffer with room for size bytes and a capacity of at most most,
// emptied; nil if there is none.
func (s *stock) take(size, most int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := -1
	for i, b := range slices.Backward(s.free) {
		if c := cap(b); c >= size && c <= most && (best < 0 || c < cap(s.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return s.removeLocked(best)
}

// replace returns a new empty buffer with room for size bytes, not cleared. It drops smaller
// buffers: otherwise the stock would keep a buffer of each size for users whose needs vary.
func (s *stock) replace(size int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for dropped, i := 0, 0; dropped < size && i < len(s.free); {
		if cap(s.free[i]) < size {
			dropped += cap(s.removeLocked(i))
		} else {
			i++
		}
	}
	return uncleared.Bytes(size)
}

func (s *stock) removeLocked(i int) []byte {
	b := s.free[i]
	s.free = slices.Delete(s.free, i, i+1)
	s.held -= cap(b)
	return b
}

// keep takes an unused buffer. It drops the least recently used ones, to keep at most most bytes.
func (s *stock) keep(b []byte, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, b[:0])
	s.held += cap(b)
	for s.held > most {
		s.removeLocked(0)
	}
}
