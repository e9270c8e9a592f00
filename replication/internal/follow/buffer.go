package follow

import "sync"

// maxPooled bounds the capacity of buffers that are used again.
const maxPooled = 2 << 20

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// A buffer holds what was fetched of one partition until it is appended.
type buffer struct{ data []byte }

func getBuffer() *buffer { return buffers.Get().(*buffer) }

func (b *buffer) put() {
	if cap(b.data) <= maxPooled {
		buffers.Put(b)
	}
}
