package transport

import "math/bits"

const (
	leastFetchBuffer = leastStocked // readers of smaller responses get a new buffer
	mostFetchBuffer  = 16 << 20
	keptFetchBytes   = 32 << 20 // of unused buffers
)

// FetchBuffers is memory for large fetch responses. Allocating megabytes for each would be most of
// the collector's work.
type FetchBuffers struct{ stock }

// Take returns an empty buffer with a capacity of at most most, for a reader whose last response
// had n bytes. It returns nil if n is small.
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

// Keep takes an unused buffer that Take has returned.
func (f *FetchBuffers) Keep(b []byte) {
	if cap(b) > 0 {
		f.stock.keep(b, keptFetchBytes)
	}
}
