package kafka

import (
	"math/bits"
	"sync"
)

const (
	leastKept = 4 << 10 // smaller and larger buffers are not kept for later
	mostKept  = 4 << 20
)

// buffers of requests, answers and connections that are used up, by the power of two that their capacity reaches. The collector takes those
// that nobody took.
var buffers [32]sync.Pool

// takeBuffer returns an empty buffer with room for size bytes and less than four times as much, of capacity 0 if there is none at hand.
func takeBuffer(size int) []byte {
	if size < leastKept || size > mostKept {
		return nil
	}
	for class := bits.Len(uint(size)) - 1; class <= bits.Len(uint(size)); class++ {
		p, _ := buffers[class].Get().(*[]byte)
		if p == nil {
			continue
		}
		if cap(*p) >= size {
			return (*p)[:0]
		}
		buffers[class].Put(p)
	}
	return nil
}

// keepBuffer takes a buffer that nobody uses any more.
func keepBuffer(b []byte) {
	if cap(b) >= leastKept && cap(b) <= mostKept {
		buffers[bits.Len(uint(cap(b)))-1].Put(&b)
	}
}
