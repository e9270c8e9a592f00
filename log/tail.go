package log

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/segment"
)

const (
	chunkBytes    = 64 << 10
	maxTailChunks = 16       // of one log
	maxTailRound  = 16 << 10 // what is written in larger pieces is cheap to read from the file
	markBytes     = 4 << 10  // distance of the marks in a chunk
)

// A chunk is memory for recently written batches. Bytes below n do not change while anybody holds a
// reference, so readers take no lock.
type chunk struct {
	refs  atomic.Int32 // the tail that owns it and whoever reads it; 0: free
	use   atomic.Int64 // counts the times it was taken into use; changes only while refs is 0
	owned atomic.Bool  // the reference of the tail is still there
	n     atomic.Int32
	buf   []byte
	marks [chunkBytes / markBytes]mark
}

// A mark is the first batch that begins in its part of a chunk.
type mark struct {
	from int64        // offset after the batch before it: whoever wants that or more can begin here; written before pos
	pos  atomic.Int32 // its position + 1; 0: none yet
}

// chunkUse is one use of a chunk.
type chunkUse struct {
	*chunk
	id int64
}

// acquire adds a reference; false if the chunk is used for something else by now.
func (u chunkUse) acquire(p *tailPool) bool {
	for {
		n := u.refs.Load()
		if n == 0 {
			return false
		}
		if u.refs.CompareAndSwap(n, n+1) {
			break
		}
	}
	if u.use.Load() == u.id {
		return true
	}
	p.release(u.chunk)
	return false
}

// A tailPool is the chunks of a directory, at most max of them. The oldest in use is taken away
// from its log when another is needed.
type tailPool struct {
	max int

	mu    sync.Mutex // guards the fields below
	made  int
	free  []*chunk
	inUse []chunkUse // oldest first
}

func newTailPool(bytes int64) *tailPool { return &tailPool{max: int(max(bytes, 0) / chunkBytes)} }

// get returns a chunk that the caller owns; ok is false if there is none: all are being read just
// now.
func (p *tailPool) get() (u chunkUse, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.takeLocked()
	if c == nil {
		return u, false
	}
	u = chunkUse{c, c.use.Add(1)}
	c.n.Store(0)
	for i := range c.marks {
		c.marks[i].pos.Store(0)
	}
	c.owned.Store(true)
	c.refs.Store(1)
	p.inUse = append(p.inUse, u)
	if len(p.inUse) > 2*p.max { // uses that ended early
		p.inUse = slices.DeleteFunc(p.inUse, func(u chunkUse) bool { return u.use.Load() != u.id || !u.owned.Load() })
	}
	return u, true
}

func (p *tailPool) takeLocked() *chunk {
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		return c
	}
	if p.made < p.max {
		p.made++
		return &chunk{buf: make([]byte, chunkBytes)}
	}
	for len(p.inUse) > 0 {
		u := p.inUse[0]
		p.inUse = slices.Delete(p.inUse, 0, 1)
		if u.use.Load() == u.id && u.owned.CompareAndSwap(true, false) && u.refs.Add(-1) == 0 {
			return u.chunk
		} // else its log gave it up before, or whoever reads it puts it back
	}
	return nil
}

// release drops a reference.
func (p *tailPool) release(c *chunk) {
	if c.refs.Add(-1) > 0 {
		return
	}
	p.mu.Lock()
	p.free = append(p.free, c)
	p.mu.Unlock()
}

// drop gives up the reference of the tail that owned the chunk.
func (p *tailPool) drop(u chunkUse) {
	if u.use.Load() == u.id && u.owned.CompareAndSwap(true, false) {
		p.release(u.chunk)
	}
}

// A tail is the most recently written bytes of a log, in memory, for those who read at its end; it
// is kept only while somebody does. The log's writer changes it, reading takes no lock. The zero
// tail is empty.
type tail struct {
	pool    *tailPool
	wanted  atomic.Bool // somebody read at the end since the last chunk was begun
	entries atomic.Pointer[[]tailEntry]
}

// A tailEntry is a chunk with what was written from offset from on. Entries are contiguous.
type tailEntry struct {
	chunkUse
	from int64
}

// keep says that somebody reads at the end.
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

// reset forgets everything: what is written next does not follow on it, or is not kept. For the
// writer.
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

// leave forgets everything if any of it lies below offset. For the writer.
func (t *tail) leave(offset int64) {
	if es := t.list(); len(es) > 0 && es[0].from < offset {
		t.reset()
	}
}

// inUse reports whether push may do anything. For the writer.
func (t *tail) inUse() bool { return t.wanted.Load() || t.entries.Load() != nil }

// push keeps what was written behind offset from: p holds the given batches. A large p, or nil,
// ends what was kept. For the writer.
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

// begin adds a chunk, acquired; none if nobody wants it or there is no memory.
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

// fill appends batches to the chunk, which must have room.
func (c *chunk) fill(from int64, p []byte, batches []segment.BatchInfo) {
	n := int(c.n.Load())
	for pos, i := n, 0; i < len(batches); i++ {
		if m := &c.marks[pos/markBytes]; m.pos.Load() == 0 {
			m.from = from
			m.pos.Store(int32(pos) + 1)
		}
		pos += batches[i].Size
		from = batches[i].LastOffset + 1
	}
	c.n.Store(int32(n + copy(c.buf[n:], p)))
}

// read appends batches to dst: from the one that holds offset from on, none at or above upTo, about
// maxBytes but at least one. ok is false if the tail does not have that one, or not any more.
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

// copyTo appends what read asks for, dst[start:] being there already; more says that the next chunk
// may have some too.
func (c *chunk) copyTo(dst []byte, start int, from int64, maxBytes int, upTo int64) (out []byte, more bool) {
	n := int(c.n.Load())
	pos := 0
	if len(dst) == start {
		for i := (n - 1) / markBytes; i > 0; i-- {
			m := &c.marks[i]
			if at := int(m.pos.Load()) - 1; at >= 0 && at < n && m.from <= from {
				pos = at
				break
			}
		}
	}
	first, room := -1, maxBytes-(len(dst)-start)
	for pos < n {
		base, next, size := batchExtent(c.buf[pos:n])
		if base >= upTo {
			break
		}
		if first < 0 && next > from {
			first = pos
		}
		if first >= 0 && pos+size-first > room && (pos > first || len(dst) > start) {
			break
		}
		pos += size
	}
	if first >= 0 {
		dst = append(dst, c.buf[first:pos]...)
	}
	return dst, pos == n && len(dst)-start < maxBytes
}
