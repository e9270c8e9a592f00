package log

import (
	"slices"
	"sync/atomic"

	"github.com/stratalog/strata/internal/segment"
)

const (
	chunkBytes    = 64 << 10
	maxTailChunks = 16       // of one log
	maxTailRound  = 16 << 10 // data written in larger pieces is cheap to read from the file
	markBytes     = 4 << 10  // distance of the marks in a chunk
)

// A tail has the most recently written bytes of a log in memory, for readers at its end. It is kept
// only while there are such readers. The log's writer changes it, reading takes no lock. The zero
// tail is empty.
type tail struct {
	pool    *tailPool
	wanted  atomic.Bool // there was a read at the end since the last chunk was begun
	entries atomic.Pointer[[]tailEntry]
}

// A tailEntry is a chunk with the data written from offset from on. Entries are contiguous.
type tailEntry struct {
	chunkUse
	from int64
}

// keep records that there is a reader at the end.
func (t *tail) keep() {
	if !t.wanted.Load() {
		t.wanted.Store(true)
	}
}

func (t *tail) list() []tailEntry {
	if p := t.entries.Load(); p != nil {
		return *p
	}
	return nil
}

// reset empties the tail: the next data does not follow its content, or is not kept. Only the
// writer may call it.
func (t *tail) reset() {
	es := t.list()
	if len(es) == 0 {
		return
	}
	t.entries.Store(nil)
	for _, e := range es {
		t.pool.drop(e.chunkUse)
	}
}

// leave empties the tail if any of it lies below offset. Only the writer may call it.
func (t *tail) leave(offset int64) {
	if es := t.list(); len(es) > 0 && es[0].from < offset {
		t.reset()
	}
}

// inUse reports whether push may do anything. For the writer.
func (t *tail) inUse() bool { return t.wanted.Load() || t.entries.Load() != nil }

// push keeps the data written after offset from: p has the given batches. A large p, or nil,
// empties the tail. Only the writer may call it.
func (t *tail) push(pool *tailPool, from int64, p []byte, batches []segment.BatchInfo) {
	if !t.inUse() {
		return
	}
	es, size := t.list(), len(p)
	if size > maxTailRound || size == 0 {
		t.reset()
		return
	}
	if t.pool == nil {
		t.pool = pool // before the first entry, so readers see it
	}
	var last chunkUse
	if n := len(es); n > 0 {
		last = es[n-1].chunkUse
	}
	if last.chunk == nil || !last.acquire(pool) {
		last.chunk = nil
	} else if int(last.n.Load())+size > chunkBytes {
		t.pool.release(last.chunk)
		last.chunk = nil
	}
	if last.chunk == nil {
		if last = t.begin(from); last.chunk == nil {
			return
		}
	}
	last.fill(from, p, batches)
	t.pool.release(last.chunk)
}

// begin adds a chunk, acquired; none if there is no reader or no memory.
func (t *tail) begin(from int64) chunkUse {
	if !t.wanted.Swap(false) {
		t.reset()
		return chunkUse{}
	}
	u, ok := t.pool.get()
	if !ok || !u.acquire(t.pool) {
		t.reset()
		return chunkUse{}
	}
	old := t.list()
	n := max(0, len(old)+1-maxTailChunks)
	for n < len(old) && old[n].use.Load() != old[n].id { // taken away
		n++
	}
	now := append(slices.Clone(old[n:]), tailEntry{u, from})
	t.entries.Store(&now)
	for _, e := range old[:n] {
		t.pool.drop(e.chunkUse)
	}
	return u
}

// read appends batches to dst, starting with the batch that contains offset from, none at or above
// upTo, about maxBytes but at least one. ok is false if the tail does not have that batch.
func (t *tail) read(dst []byte, from int64, maxBytes int, upTo int64) (out []byte, ok bool) {
	es := t.list()
	i := len(es) - 1
	for i >= 0 && es[i].from > from {
		i--
	}
	if i < 0 {
		return dst, false
	}
	start := len(dst)
	for more := true; more && i < len(es); i++ {
		e := es[i]
		if !e.acquire(t.pool) {
			break
		}
		dst, more = e.copyTo(dst, start, from, maxBytes, upTo)
		t.pool.release(e.chunk)
	}
	return dst, len(dst) > start
}
