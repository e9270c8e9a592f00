package transport

import "math/bits"

const (
	leastFetchBuffer = leastStocked // readers that get less at a time get a fresh one
	mostFetchBuffer  = 16 << 20
	keptFetchBytes   = 32 << 20 // of unused buffers
)

// FetchBuffers is memory for large fetch responses. At megabytes each they would be most of the
// collector's work.
type FetchBuffers struct{ stock }

// Take returns an empty buffer of at most most bytes for a reader that got n bytes the last time;
// nil if n is small.
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

// Keep takes a buffer of Take.
func (f *FetchBuffers) Keep(b []byte) {
	if cap(b) > 0 {
		f.stock.keep(b, keptFetchBytes)
	}
}
