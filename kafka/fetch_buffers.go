package kafka

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/stratalog/strata/internal/uncleared"
)

const (
	leastFetchBuffer = 64 << 10 // readers that get less at a time get a fresh one
	mostFetchBuffer  = 16 << 20
	keptFetchBytes   = 32 << 20 // of buffers that nobody uses
)

// fetchBuffers is memory for the answers to those who read much: megabytes at a time, which would be
// most of what the collector has to deal with. Its buffers are not in a sync.Pool, which a
// collection empties, and such reading brings about many.
type fetchBuffers struct {
	mu   sync.Mutex
	free [][]byte // empty; the most recently used last
	held int      // their bytes
}

// take returns an empty buffer for somebody who got n bytes the last time, no larger than most; nil
// if that is not much. It is the smallest free one with room. If there is none, a new one takes the
// place of smaller ones: one of each size would be kept for readers whose answers vary, and the
// collector lets as much garbage come together as there is memory in use.
func (f *fetchBuffers) take(n, most int) []byte {
	if n < leastFetchBuffer {
		return nil
	}
	size := min(1<<bits.Len(uint(n-1)), mostFetchBuffer)
	if size > most {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	best := -1
	for i, b := range slices.Backward(f.free) {
		if c := cap(b); c >= size && c <= most && (best < 0 || c < cap(f.free[best])) {
			best = i
		}
	}
	if best >= 0 {
		return f.removeLocked(best)
	}
	for dropped, i := 0, 0; dropped < size && i < len(f.free); {
		if cap(f.free[i]) < size {
			dropped += cap(f.removeLocked(i))
		} else {
			i++
		}
	}
	return uncleared.Bytes(size)
}

func (f *fetchBuffers) removeLocked(i int) []byte {
	b := f.free[i]
	f.free = slices.Delete(f.free, i, i+1)
	f.held -= cap(b)
	return b
}

// keep takes back what take returned. The oldest ones make room.
func (f *fetchBuffers) keep(b []byte) {
	if cap(b) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free = append(f.free, b[:0])
	f.held += cap(b)
	for f.held > keptFetchBytes {
		f.removeLocked(0)
	}
}
