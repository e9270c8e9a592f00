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
	// maxFetchBuffer bounds one buffer that fetches use again.
	maxFetchBuffer = 4 << 20
	// maxFreeBuffers bounds the buffers that a consumer keeps for its next fetches: one for the
	// fetch to come, one because a batch of the fetch before it is mostly released a little later.
	maxFreeBuffers = 2
	// maxFreeSlices bounds the slices of records that a consumer keeps, each of MaxPollRecords at
	// most: a poll takes from a few partitions.
	maxFreeSlices = 4
	// bufferShare is how much of a buffer a fetch has to fill for the next one to get a buffer. A
	// few bytes would keep all of it until their batch is released.
	bufferShare = 4
)

// A recycler has the memory of released batches ready for the next fetches and polls. It hands out
// nothing before the first Release: who keeps batches gets memory that is garbage collected.
type recycler struct {
	releases atomic.Bool // the application has released a batch. Set once, by Release
	last     int         // bytes that the last fetch brought. The polling goroutine's

	mu      sync.Mutex // guards the fields below; a leaf, held for a few instructions
	buffers [][]byte
	slices  [][]record.Record
}

// A fetchBuffer is the memory of one fetch. References are held by the fetch while it is under way,
// by each chunk that aliases it, and by each partition of a batch that does. The last one to be
// dropped makes it free. A reference that is never dropped (a batch that is not released, a chunk
// that a seek overtook, records handed out by value) leaves it to the garbage collector.
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

// share adds a reference for the bytes that were fetched of one partition, if they alias b.
func (b *fetchBuffer) share(fp *partition.FetchedPartition) *fetchBuffer {
	if b == nil || len(fp.Bytes) == 0 {
		return nil
	}
	p, q := fp.Bytes[:cap(fp.Bytes)], b.buf[:cap(b.buf)]
	if &p[len(p)-1] != &q[len(q)-1] {
		return nil // it had no room
	}
	b.refs.Add(1)
	return b
}

// buffer returns memory for a fetch of that many partitions, referenced once; nil: the fetch is to
// make its own.
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
		n = 1 << bits.Len(uint(n)) // so that it fits next time, too
	}
	return make([]record.Record, 0, n)
}

// release takes back the records of one partition. keeps says that they refer to memory that the
// recycler keeps anyway; else they are cleared, so that what they refer to is collected.
func (m *recycler) release(rs []record.Record, keeps bool) {
	if !keeps || poisoned {
		clear(rs)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.slices) == maxFreeSlices {
		m.slices = append(m.slices[:0], m.slices[1:]...) // the oldest: those of now fit better
	}
	m.slices = append(m.slices, rs)
}
