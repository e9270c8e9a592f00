package consumer

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/internal/uncleared"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

const (
	// maxFetchBuffer bounds the size of a reused fetch buffer.
	maxFetchBuffer = 4 << 20
	// maxFreeBuffers bounds the buffers kept for coming fetches: one for the next fetch, and one
	// because a batch of the previous fetch is usually released a little later.
	maxFreeBuffers = 2
	// maxFreeSlices bounds the kept slices of records, each of at most MaxPollRecords: a poll takes
	// records of few partitions.
	maxFreeSlices = 4
	// bufferShare: a fetch must fill this fraction of a buffer for the next one to get a buffer.
	// Otherwise a few bytes would occupy a whole buffer until their batch is released.
	bufferShare = 4
)

// A recycler keeps the memory of released batches for the next fetches and polls. Before the first
// Release it returns no memory: an application that does not release batches gets garbage-collected
// memory.
type recycler struct {
	releases atomic.Bool // the application has released a batch. Set once, by Release
	last     int         // bytes of the last fetch. The polling goroutine's

	mu      sync.Mutex // guards the fields below; a leaf, held for a few instructions
	buffers [][]byte
	slices  [][]record.Record
}

// A fetchBuffer is the memory of one fetch. References are held by the active fetch, by each chunk
// that aliases it, and by each partition of a batch that does. It becomes free with its last
// reference. If a reference is never dropped (a batch is not released, a seek overtook a chunk,
// records were handed out by value), the garbage collector frees it.
type fetchBuffer struct {
	refs atomic.Int32
	buf  []byte
	home *recycler
}

// drop gives up a reference. The receiver may be nil.
func (b *fetchBuffer) drop() {
	if b == nil || b.refs.Add(-1) > 0 {
		return
	}
	poison(b.buf)
	m := b.home
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.buffers) < maxFreeBuffers {
		m.buffers = append(m.buffers, b.buf)
	}
}

// share adds a reference for the bytes fetched for one partition, if they alias b.
func (b *fetchBuffer) share(fp *partition.FetchedPartition) *fetchBuffer {
	if b == nil || len(fp.Bytes) == 0 {
		return nil
	}
	p, q := fp.Bytes[:cap(fp.Bytes)], b.buf[:cap(b.buf)]
	if &p[len(p)-1] != &q[len(q)-1] {
		return nil // it had no capacity
	}
	b.refs.Add(1)
	return b
}

// buffer returns memory for a fetch of that many partitions, referenced once; nil: the fetch
// allocates its own.
func (m *recycler) buffer(partitions, partitionBytes, maxBytes int) *fetchBuffer {
	if !m.releases.Load() || partitionBytes > maxFetchBuffer {
		return nil
	}
	size := min(partitions*partitionBytes, maxBytes, maxFetchBuffer)
	if m.last < size/bufferShare {
		return nil
	}
	b := &fetchBuffer{home: m}
	b.refs.Store(1)
	m.mu.Lock()
	if n := len(m.buffers); n > 0 {
		b.buf, m.buffers = m.buffers[n-1][:0], m.buffers[:n-1]
	}
	m.mu.Unlock()
	if cap(b.buf) < size {
		b.buf = uncleared.Bytes(size)
	}
	return b
}

// records returns an empty slice with room for n records.
func (m *recycler) records(n int) []record.Record {
	if m.releases.Load() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i := len(m.slices) - 1; i >= 0; i-- {
			if rs := m.slices[i]; cap(rs) >= n {
				m.slices[i] = m.slices[len(m.slices)-1]
				m.slices = m.slices[:len(m.slices)-1]
				return rs[:0]
			}
		}
		n = 1 << bits.Len(uint(n)) // so that it fits the next time, too
	}
	return make([]record.Record, 0, n)
}

// release takes back the records of one partition. keeps is true if they refer to memory that the
// recycler keeps anyway; otherwise they are cleared, so that this memory is collected.
func (m *recycler) release(rs []record.Record, keeps bool) {
	if !keeps || poisoned {
		clear(rs)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.slices) == maxFreeSlices {
		m.slices = append(m.slices[:0], m.slices[1:]...) // the oldest: newer ones fit better
	}
	m.slices = append(m.slices, rs)
}
