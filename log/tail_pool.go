package log

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/internal/segment"
)

// A chunk is memory for recently written batches. It is used again and again, by one log after the
// other, and read without a lock:
//
//  1. A reader takes a reference, unless there is none: a chunk without one is free, or being given
//     to another log.
//  2. It compares use with the one that its log knows the chunk by. A chunk was only taken into use
//     again while it had no reference, so if they are equal now they stay equal until the reader
//     drops its own, and all below n is the log's. If not, the reader has a reference to the bytes
//     of another log, and drops it.
//
// 3. Bytes below n do not change while the chunk is in use: the writer fills in the bytes from n
// on,
//
//	and stores n then.
//
// The goroutine that drops the last reference, the tail's or a reader's, returns the chunk to the
// pool.
type chunk struct {
	refs atomic.Int32 // one of the tail that owns it, and one per reader; 0: free
	use  atomic.Int64 // counts the times it was taken into use; changes only while refs is 0
	// owned means that the tail's reference still exists. The goroutine that clears it drops that
	// reference.
	owned atomic.Bool
	n     atomic.Int32 // bytes of buf that are filled; stored by the log's writer
	buf   []byte
	marks [chunkBytes / markBytes]mark // of the writer; a mark is read once its pos is set
}

// A mark is the first batch that begins in its part of a chunk.
type mark struct {
	// from is the offset after the previous batch: a read from there on can begin here. Written
	// before pos.
	from int64
	pos  atomic.Int32 // its position + 1; 0: none yet
}

// chunkUse is one use of a chunk, by one log.
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
		} // else its log gave it up before, or a reader still uses it and returns it later
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

// copyTo appends batches for read, after dst[start:]; more means that the next chunk may have some
// too.
func (c *chunk) copyTo(dst []byte, start int, from int64, maxBytes int, upTo int64) (out []byte, more bool) {
	n, pos := int(c.n.Load()), 0
	if len(dst) == start {
		pos = c.seek(n, from)
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

// seek returns the position of a batch at or before the batch that contains offset from, in the
// first n bytes: the position of the last mark, if there is one.
func (c *chunk) seek(n int, from int64) (pos int) {
	for i := (n - 1) / markBytes; i > 0; i-- {
		m := &c.marks[i]
		if at := int(m.pos.Load()) - 1; at >= 0 && at < n && m.from <= from {
			return at
		}
	}
	return 0
}
