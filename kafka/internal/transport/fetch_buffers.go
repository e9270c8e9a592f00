package transport

import "math/bits"

const (
	leastFetchBuffer = leastStocked // readers that get less at a time get a fresh one
	mostFetchBuffer  = 16 << 20
	keptFetchBytes   = 32 << 20 // of buffers that nobody uses
)

// FetchBuffers is memory for the answers to those who read much: megabytes at a time, which would
// be most of what the collector has to deal with.
type FetchBuffers struct{ stock }

// Take returns an empty buffer for somebody who got n bytes the last time, no larger than most; nil
// if that is not much.
func (f *FetchBuffers) Take(n, most int) []byte {
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

// Keep takes back what Take returned.
func (f *FetchBuffers) Keep(b []byte) {
	if cap(b) > 0 {
		f.stock.keep(b, keptFetchBytes)
	}
}
