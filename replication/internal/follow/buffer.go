package follow

import "sync"

// maxPooled is the maximum capacity of buffers that are reused, in bytes.
const maxPooled = 2 << 20

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// A buffer holds the fetched batches of one partition until they are appended.
type buffer struct{ data []byte }

func getBuffer() *buffer { return buffers.Get().(*buffer) }

func (b *buffer) put() {
	if cap(b.data) <= maxPooled {
		buffers.Put(b)
	}
}
