package producer

import "sync"

// freeBatches are batches for reuse. A sync.Pool alone would drop them, with the memory that they
// have grown to, every other garbage collection, and collections are as frequent as readers in the
// same process allocate.
//
// Batches with much more memory than Config.BatchBytes are separate. Otherwise all batches would
// have as much memory as the largest, after a while, and there may be one for each partition.
type freeBatches struct {
	small, large freeList

	mu    sync.Mutex // guards the fields below, and the lists
	bytes int        // memory of the batches in both lists
}

type freeList struct {
	list []*batch
	more sync.Pool // of *batch: beyond maxFreeBytes
}

// maxFreeBytes bounds the memory of unused batches across garbage collections.
const maxFreeBytes = 2 << 20

// get returns a batch of a list, nil if there is none.
func (f *freeBatches) get(l *freeList) *batch {
	f.mu.Lock()
	n := len(l.list)
	if n == 0 {
		f.mu.Unlock()
		b, _ := l.more.Get().(*batch)
		return b
	}
	defer f.mu.Unlock()
	b := l.list[n-1]
	l.list[n-1] = nil
	l.list = l.list[:n-1]
	f.bytes -= b.footprint
	return b
}

func (f *freeBatches) put(l *freeList, b *batch) {
	f.mu.Lock()
	keep := f.bytes+b.footprint <= maxFreeBytes
	if keep {
		l.list = append(l.list, b)
		f.bytes += b.footprint
	}
	f.mu.Unlock()
	if !keep {
		l.more.Put(b)
	}
}
