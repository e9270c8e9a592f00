package producer

import "sync"

// freeBatches are batches for reuse. A sync.Pool alone would drop them, with the memory that they
// have grown to, every other garbage collection, and collections are as frequent as readers in the
// same process allocate.
type freeBatches struct {
	more sync.Pool // of *batch: beyond maxFreeBytes

	mu    sync.Mutex // guards the fields below
	list  []*batch
	bytes int // of their memory
}

// maxFreeBytes bounds the memory of unused batches across garbage collections.
const maxFreeBytes = 2 << 20

// get returns nil if there is none.
func (f *freeBatches) get() *batch {
	f.mu.Lock()
	n := len(f.list)
	if n == 0 {
		f.mu.Unlock()
		b, _ := f.more.Get().(*batch)
		return b
	}
	defer f.mu.Unlock()
	b := f.list[n-1]
	f.list[n-1] = nil
	f.list = f.list[:n-1]
	f.bytes -= b.footprint
	return b
}

func (f *freeBatches) put(b *batch) {
	f.mu.Lock()
	keep := f.bytes+b.footprint <= maxFreeBytes
	if keep {
		f.list = append(f.list, b)
		f.bytes += b.footprint
	}
	f.mu.Unlock()
	if !keep {
		f.more.Put(b)
	}
}
