package kafka

import "math/bits"

const (
	leastFetchBuffer = leastStocked // readers that get less at a time get a fresh one
	mostFetchBuffer  = 16 << 20
	keptFetchBytes   = 32 << 20 // of buffers that nobody uses
)

// fetchBuffers is memory for the answers to those who read much: megabytes at a time, which would
// be most of what the collector has to deal with.
type fetchBuffers struct{ stock }

// take returns an empty buffer for somebody who got n bytes the last time, no larger than most; nil
// if that is not much.
func (f *fetchBuffers) take(n, most int) []byte {
	if n < leastFetchBuffer {
		return nil
	}
	size := min(1<<bits.Len(uint(n-1)), mostFetchBuffer)
	if size > most {
		return nil
	}
	if b := f.stock.take(size, most); b != nil {
		return b
	}
	return f.replace(size)
}

// keep takes back what take returned.
func (f *fetchBuffers) keep(b []byte) {
	if cap(b) > 0 {
		f.stock.keep(b, keptFetchBytes)
	}
}
