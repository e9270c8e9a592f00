package kafka

import (
	"math/bits"
	"slices"
	"sync"
)

const (
	leastFetchBuffer = 64 << 10 // readers that get less at a time get a fresh one
	mostFetchBuffer  = 16 << 20
	keptFetchBytes   = 32 << 20 // of buffers that nobody uses
)

// fetchBuffers is memory for the answers to those who read much: megabytes at a time, which would be most of what the collector has to deal with.
// Its buffers are not in a sync.Pool, which a collection empties, and such reading brings about many.
type fetchBuffers struct {
	mu   sync.Mutex
	free [][]byte // empty; the most recently used last
	held int      // their bytes
}

// take returns an empty buffer for somebody who got n bytes the last time, no larger than most; nil if that is not much.
func (f *fetchBuffers) take(n, most int) []byte {
	if n < leastFetchBuffer {
		return nil
	}
	size := min(1<<bits.Len(uint(n-1)), mostFetchBuffer)
	if size > most {
		return nil
	}
	f.mu.Lock()
	for i, b := range slices.Backward(f.free) {
		if cap(b) == size {
			f.free = slices.Delete(f.free, i, i+1)
			f.held -= size
			f.mu.Unlock()
			return b
		}
	}
	f.mu.Unlock()
	return make([]byte, 0, size)
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
		f.held -= cap(f.free[0])
		f.free = slices.Delete(f.free, 0, 1)
	}
}
