package transport

import (
	"math/bits"
	"sync"

	"github.com/stratalog/strata/internal/uncleared"
)

const (
	leastKept = 4 << 10 // only buffers from leastKept to mostKept are kept for later
	mostKept  = 4 << 20

	// classBits defines the number of size classes, 1<<classBits between a power of two and the
	// next one.
	classBits = 2
	// searched is the number of classes that TakeBuffer searches: its result is less than twice as
	// large as requested.
	searched = 1 << classBits
)

// buffers are unused buffers of requests, responses and connections, by the classOf of their
// capacity. The collector may free them.
var buffers [32 << classBits]sync.Pool

// classOf returns the class whose buffers all have room for size bytes: classSize is at least
// size, and at most a quarter larger.
func classOf(size int) int {
	shift := max(bits.Len(uint(size-1))-classBits-1, 0)
	return shift<<classBits + (size-1)>>shift + 1
}

// classSize is the least capacity of the buffers of a class.
func classSize(class int) int {
	shift := max(class>>classBits-1, 0)
	return (class - shift<<classBits) << shift
}

// TakeBuffer returns an empty buffer with room for size bytes and less than twice as much. Its
// capacity is 0 if no buffer is available.
func TakeBuffer(size int) []byte {
	if size < leastKept || size > mostKept {
		return nil
	}
	for class := classOf(size); class < classOf(size)+searched; class++ {
		if p, _ := buffers[class].Get().(*[]byte); p != nil {
			return (*p)[:0]
		}
	}
	return nil
}

// NewBuffer returns an empty buffer with room for size bytes, not cleared. Its capacity is the size
// of a class. With arbitrary capacities the pool would grow to a multiple of the memory in use, of
// buffers too small for the next size.
func NewBuffer(size int) []byte {
	if size < leastKept || size > mostKept {
		return uncleared.Bytes(max(size, 1))
	}
	return uncleared.Bytes(classSize(classOf(size)))
}

// KeepBuffer takes an unused buffer.
func KeepBuffer(b []byte) {
	if cap(b) < leastKept || cap(b) > classSize(classOf(mostKept)) {
		return
	}
	class := classOf(cap(b))
	if classSize(class) > cap(b) {
		class-- // so that it has room for all sizes of the class
	}
	kept := b // &b would be allocated on entry, even for a dropped buffer
	buffers[class].Put(&kept)
}

// keptRequestBytes bounds the unused buffers of requests.
const keptRequestBytes = 16 << 20

// requestBuffers is memory for requests: large ones in a stock, small ones with all others.
type requestBuffers struct{ stock }

// take returns an empty buffer with room for size bytes and less than four times as much. Its
// capacity is 0 if no buffer is available.
func (r *requestBuffers) take(size int) []byte {
	if size < leastStocked {
		return TakeBuffer(size)
	}
	return r.stock.take(size, 4*size-1)
}

// make returns a new empty buffer with room for size bytes, which hold anything.
func (r *requestBuffers) make(size int) []byte {
	if size < leastStocked || size > mostKept {
		return NewBuffer(size)
	}
	return r.replace(classSize(classOf(size)))
}

// keep takes an unused buffer.
func (r *requestBuffers) keep(b []byte) {
	switch {
	case cap(b) < leastStocked:
		KeepBuffer(b)
	case cap(b) <= classSize(classOf(mostKept)):
		r.stock.keep(b, keptRequestBytes)
	}
}
