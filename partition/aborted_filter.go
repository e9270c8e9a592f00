package partition

import (
	"container/heap"

	"github.com/stratalog/strata/record"
)

// An AbortedFilter selects the batches of a fetch that a read-committed reader must skip: batches
// of aborted transactions, and control batches. The zero value is the filter of a fetch without
// aborted transactions. It is not safe for concurrent use. Kafka: CompletedFetch.
type AbortedFilter struct {
	aborted abortedHeap
	pids    map[int64]bool // producers whose batches are aborted, from here on
}

// NewAbortedFilter returns the filter of a fetch with the given FetchedPartition.Aborted, which it
// does not retain.
func NewAbortedFilter(aborted []AbortedTxn) (f AbortedFilter) {
	if len(aborted) > 0 {
		f.aborted = append(f.aborted, aborted...)
		heap.Init(&f.aborted)
		f.pids = map[int64]bool{}
	}
	return f
}

// Hides reports whether the reader must skip a batch. It must be called in order for each batch
// that ends at or after the offset of the fetch.
func (f *AbortedFilter) Hides(b *record.Batch) bool {
	if f.pids != nil && b.HasProducerID() {
		for len(f.aborted) > 0 && f.aborted[0].FirstOffset <= b.LastOffset() {
			f.pids[heap.Pop(&f.aborted).(AbortedTxn).ProducerID] = true
		}
	}
	if b.IsControl() {
		if kind, _, err := b.Control(); err == nil && kind == record.ControlAbort {
			delete(f.pids, b.ProducerID)
		}
		return true
	}
	return b.IsTransactional() && f.pids[b.ProducerID]
}

// abortedHeap is a heap of transactions by first offset.
type abortedHeap []AbortedTxn

func (h abortedHeap) Len() int           { return len(h) }
func (h abortedHeap) Less(i, j int) bool { return h[i].FirstOffset < h[j].FirstOffset }
func (h abortedHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *abortedHeap) Push(x any)        { *h = append(*h, x.(AbortedTxn)) }
func (h *abortedHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
