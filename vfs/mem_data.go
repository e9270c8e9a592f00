package vfs

import (
	"sync"
	"time"
)

const (
	pageSize = 4096 // what a disk is assumed to write at once, and the unit of memory

	// From mergeAfter unsynced changes on, a write that continues the last one is added to it, up to mergeBytes.
	mergeAfter = 1024
	mergeBytes = 1 << 20
)

type page = *[pageSize]byte // nil: zeros

// ownedPage is a page and the generation of the tree that may write to it. Others must copy it first.
type ownedPage struct {
	page
	gen uint64
}

// memData is the content of a file: what readers see, and enough to tell what the disk has.
//
// Invariant: bytes of a page at or beyond size are zero. stable holds a key for every page that may differ from the disk's.
type memData struct {
	mu sync.RWMutex // guards the fields below

	size  int64
	pages map[int64]ownedPage
	mtime time.Time

	stableSize  int64
	stableMtime time.Time
	stable      map[int64]page // what the disk has, of pages changed since
	pending     []change       // since the last Sync, in order
	pendingEnd  int64          // all bytes in pending lie below
	stuck       bool           // a Sync failed: pages of stable without a change in pending never get to the disk
}

// change is a write or a change of the size that has not been synced.
type change struct {
	seq     uint64 // order over all files and directories
	resize  bool
	shrink  bool
	off, n  int64  // bytes written; of a resize, off is the new size
	data    []byte // the bytes; nil: they are still in the pages
	endSize int64  // the file's size afterwards
}

func newMemData(now time.Time) *memData {
	return &memData{pages: make(map[int64]ownedPage), stable: make(map[int64]page), mtime: now, stableMtime: now}
}

// readLocked fills p with the bytes from off, which has to be below the size, and returns how many there are.
func (d *memData) readLocked(p []byte, off int64) int {
	p = p[:min(int64(len(p)), d.size-off)]
	for done := 0; done < len(p); {
		no, in := (off+int64(done))/pageSize, (off+int64(done))%pageSize
		part := p[done:min(len(p), done+int(pageSize-in))]
		if pg := d.pages[no].page; pg != nil {
			copy(part, pg[in:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	return len(p)
}

// writeLocked stores p at off as part of the change that is last in pending.
func (d *memData) writeLocked(p []byte, off int64, gen uint64) {
	for len(p) > 0 {
		no, in := off/pageSize, off%pageSize
		n := copy(d.writableLocked(no, gen)[in:], p)
		p, off = p[n:], off+int64(n)
	}
}

// writableLocked returns a page to write to, having saved what the disk has.
func (d *memData) writableLocked(no int64, gen uint64) page {
	cur := d.pages[no]
	_, saved := d.stable[no]
	if !saved {
		d.stable[no] = cur.page
	}
	if saved && cur.gen == gen && cur.page != nil {
		return cur.page
	}
	fresh := new([pageSize]byte)
	if cur.page != nil {
		*fresh = *cur.page
	}
	d.pages[no] = ownedPage{fresh, gen}
	return fresh
}

// noteWriteLocked adds a write to pending, before the bytes change.
func (d *memData) noteWriteLocked(seq uint64, off, n int64) {
	d.detachLocked(off, off+n)
	end := max(d.size, off+n)
	if last := len(d.pending) - 1; last >= mergeAfter {
		l := &d.pending[last]
		if !l.resize && l.data == nil && l.off+l.n == off && l.n+n <= mergeBytes {
			l.n, l.endSize = l.n+n, end
			d.pendingEnd = max(d.pendingEnd, off+n)
			return
		}
	}
	d.pending = append(d.pending, change{seq: seq, off: off, n: n, endSize: end})
	d.pendingEnd = max(d.pendingEnd, off+n)
}

// detachLocked gives pending writes that overlap [from, to) their own copy of their bytes, because these are about to change.
func (d *memData) detachLocked(from, to int64) {
	if from >= d.pendingEnd {
		return
	}
	for i := range d.pending {
		c := &d.pending[i]
		if c.resize || c.data != nil || c.off >= to || c.off+c.n <= from {
			continue
		}
		c.data = make([]byte, c.n)
		d.readLocked(c.data, c.off)
	}
}

// resizeLocked changes the size.
func (d *memData) resizeLocked(seq uint64, size int64, gen uint64) {
	c := change{seq: seq, resize: true, shrink: size < d.size, off: size, endSize: size}
	if c.shrink {
		d.detachLocked(size, d.size)
		d.dropLocked(size, gen)
	}
	d.size = size
	d.pending = append(d.pending, c)
}

// dropLocked removes the bytes from size on.
func (d *memData) dropLocked(size int64, gen uint64) {
	first := (size + pageSize - 1) / pageSize
	for no := range d.pages {
		if no < first {
			continue
		}
		if _, saved := d.stable[no]; !saved {
			d.stable[no] = d.pages[no].page
		}
		delete(d.pages, no)
	}
	if in := size % pageSize; in != 0 && d.pages[size/pageSize].page != nil {
		clear(d.writableLocked(size/pageSize, gen)[in:])
	}
}

// syncLocked moves everything to the disk, except for pages lost by a failed Sync and not written since.
func (d *memData) syncLocked() {
	if d.stuck {
		for i := range d.pending {
			d.forgetStableLocked(&d.pending[i])
		}
		d.stuck = len(d.stable) > 0
	} else {
		clear(d.stable)
	}
	d.stableSize, d.stableMtime = d.size, d.mtime
	d.pending, d.pendingEnd = d.pending[:0], 0
	if cap(d.pending) > mergeAfter {
		d.pending = nil
	}
}

// forgetStableLocked makes the live pages a change has touched the disk's.
func (d *memData) forgetStableLocked(c *change) {
	switch {
	case !c.resize:
		for no := c.off / pageSize; no*pageSize < c.off+c.n; no++ {
			delete(d.stable, no)
		}
	case c.shrink:
		for no := range d.stable {
			if (no+1)*pageSize > c.off {
				delete(d.stable, no)
			}
		}
	}
}

// loseLocked does what a failed Sync does: pages count as clean, though the disk does not have them. The size may still get there.
func (d *memData) loseLocked(seq uint64) {
	d.pending = append(d.pending[:0], change{seq: seq, resize: true, off: d.size, endSize: d.size})
	d.pendingEnd = 0
	d.stuck = len(d.stable) > 0
}

// clone returns a copy that shares all pages. Both sides have to write under new generations from now on.
func (d *memData) clone() *memData {
	c := &memData{
		size: d.size, mtime: d.mtime, stableSize: d.stableSize, stableMtime: d.stableMtime, pendingEnd: d.pendingEnd, stuck: d.stuck,
		pages: make(map[int64]ownedPage, len(d.pages)), stable: make(map[int64]page, len(d.stable)),
		pending: append([]change(nil), d.pending...),
	}
	for no, p := range d.pages {
		c.pages[no] = p
	}
	for no, p := range d.stable {
		c.stable[no] = p
	}
	return c
}
