package vfs

import (
	"bytes"
	"sync"
	"time"
)

// From mergeAfter unsynced changes on, a write that continues the last one is added to it, up to
// mergeBytes.
const (
	mergeAfter = 1024
	mergeBytes = 1 << 20
)

// memData is the content of a file as readers see it, and as the disk has it.
//
// Invariant: bytes of a page at or beyond size are zero. dirty lists every page that may differ
// from the disk's.
type memData struct {
	mu sync.RWMutex // guards the fields below

	size    int64
	extents map[int64]*extent
	mtime   time.Time

	slabs slabs                 // where memory for pages comes from
	spare *[extentPages]memPage // of an extent that became a run, for the next extent

	stableSize  int64
	stableMtime time.Time
	dirty       []int64  // numbers of pages, each once
	pending     []change // since the last Sync, in order
	pendingEnd  int64    // all bytes in pending lie below
	// stuck: a Sync failed. Dirty pages without a change in pending never get to the disk.
	stuck bool
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
	return &memData{extents: make(map[int64]*extent), mtime: now, stableMtime: now}
}

// pageLocked returns a page; the zero memPage if there is none.
func (d *memData) pageLocked(no int64) (p memPage) {
	if x := d.extents[no/extentPages]; x != nil {
		p = x.page(no % extentPages)
	}
	return p
}

// changedLocked returns a page that is about to be changed, after saving the disk's content of it.
func (d *memData) changedLocked(no int64) *memPage {
	x := d.extents[no/extentPages]
	if x == nil {
		x = &extent{pages: d.spare}
		if d.spare = nil; x.pages == nil {
			x.pages = new([extentPages]memPage)
		}
		d.extents[no/extentPages] = x
	}
	p := x.at(no % extentPages)
	if !p.dirty {
		p.stable, p.stableIn, p.stableN, p.dirty, p.shared = p.live, p.liveIn, p.liveN, true, true
		d.dirty = append(d.dirty, no)
	}
	return p
}

// readLocked fills p with the bytes from off, which has to be below the size, and returns how many
// there are.
func (d *memData) readLocked(p []byte, off int64) int {
	p = p[:min(int64(len(p)), d.size-off)]
	for rest := p; len(rest) > 0; {
		x, in := d.extents[off/extentBytes], off%extentBytes
		part := rest[:min(int64(len(rest)), extentBytes-in)]
		switch {
		case x == nil:
			clear(part)
		case x.pages == nil:
			copy(part, x.run.mem[in:])
		default:
			x.read(part, in)
		}
		rest, off = rest[len(part):], off+int64(len(part))
	}
	return len(p)
}

// writeLocked stores p at off as part of the change that is last in pending.
func (d *memData) writeLocked(p []byte, off int64, gen uint64) {
	for len(p) > 0 {
		no, in := off/pageSize, off%pageSize
		n := int64(len(p)) / pageSize
		if in == 0 && n > 0 {
			n = d.replaceLocked(no, p[:n*pageSize], gen)
		} else {
			n = min(int64(len(p)), pageSize-in)
			d.changedLocked(no).write(p[:n], int(in), gen, &d.slabs)
		}
		p, off = p[n:], off+n
		if off%extentBytes == 0 {
			d.settleLocked(d.extents[off/extentBytes-1])
		}
	}
}

// settleLocked makes an extent a run if it can.
func (d *memData) settleLocked(x *extent) {
	if pages := x.settle(); pages != nil {
		d.spare = pages
	}
}

// replaceLocked stores the first pages of p, which has whole ones, from page no on, and returns how
// many bytes these are.
func (d *memData) replaceLocked(no int64, p []byte, gen uint64) int64 {
	if bytes.Equal(p[:pageSize], zeroPage[:]) {
		d.changedLocked(no).write(p[:pageSize], 0, gen, &d.slabs)
		return pageSize
	}
	pages := min(int64(len(p))/pageSize, extentPages-no%extentPages)
	if rest := int64(len(d.slabs.rest)) / pageSize; rest > 0 {
		pages = min(pages, rest)
	}
	run := d.slabs.take(int(pages) * pageSize)
	copy(run, p)
	for i := range pages {
		p := d.changedLocked(no + i)
		p.live, p.liveIn, p.liveN, p.gen, p.shared = (*page)(run[i*pageSize:]), d.slabs.in, pageSize, gen, false
	}
	return pages * pageSize
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

// detachLocked gives pending writes that overlap [from, to) their own copy of their bytes, because
// these are about to change.
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
func (d *memData) resizeLocked(seq uint64, size int64) {
	c := change{seq: seq, resize: true, shrink: size < d.size, off: size, endSize: size}
	if c.shrink {
		d.detachLocked(size, d.size)
		d.dropLocked(size)
	}
	d.size = size
	d.pending = append(d.pending, c)
}

// dropLocked removes the bytes from size on.
func (d *memData) dropLocked(size int64) {
	first := (size + pageSize - 1) / pageSize
	for key, x := range d.extents {
		for i := max(0, first-key*extentPages); i < extentPages; i++ {
			if p := x.page(i); p.exists() {
				p := d.changedLocked(key*extentPages + i)
				p.live, p.liveIn, p.liveN, p.gen, p.shared = nil, nil, 0, 0, false
			}
		}
	}
	if last := d.pageLocked(size / pageSize); size%pageSize != 0 && last.exists() {
		d.changedLocked(size / pageSize).cut(int(size % pageSize))
	}
}

// syncLocked moves everything to the disk, except for pages lost by a failed Sync and not written
// since.
func (d *memData) syncLocked() {
	if d.stuck {
		for i := range d.pending {
			d.writeBackLocked(&d.pending[i])
		}
		d.stuck = len(d.dirty) > 0
	} else {
		for _, no := range d.dirty {
			d.cleanLocked(no)
		}
		d.dirty = d.dirty[:0]
		if cap(d.dirty) > mergeAfter {
			d.dirty = nil
		}
	}
	d.stableSize, d.stableMtime = d.size, d.mtime
	d.pending, d.pendingEnd = d.pending[:0], 0
	if cap(d.pending) > mergeAfter {
		d.pending = nil
	}
}

// cleanLocked makes the live page the disk's. The caller removes it from dirty.
func (d *memData) cleanLocked(no int64) {
	x := d.extents[no/extentPages]
	p := x.at(no % extentPages)
	p.stable, p.stableIn, p.stableN, p.dirty, p.shared = nil, nil, 0, false, false
	if p.exists() {
		if no%extentPages == extentPages-1 {
			d.settleLocked(x)
		}
		return
	}
	for i := range x.pages {
		if x.pages[i].exists() || x.pages[i].dirty {
			return
		}
	}
	delete(d.extents, no/extentPages)
}

// writeBackLocked moves the live pages that a change has touched to the disk.
func (d *memData) writeBackLocked(c *change) {
	kept := d.dirty[:0]
	for _, no := range d.dirty {
		from, to := no*pageSize, (no+1)*pageSize
		switch {
		case !c.resize && from < c.off+c.n && to > c.off, c.shrink && to > c.off:
			d.cleanLocked(no)
		default:
			kept = append(kept, no)
		}
	}
	d.dirty = kept
}

// loseLocked has the effect of a failed Sync: pages count as clean, though the disk does not have
// them. The size may still get there.
func (d *memData) loseLocked(seq uint64) {
	d.pending = append(d.pending[:0], change{seq: seq, resize: true, off: d.size, endSize: d.size})
	d.pendingEnd = 0
	d.stuck = len(d.dirty) > 0
}

// clone returns a copy that shares all pages. Both sides have to write under new generations from
// now on.
func (d *memData) clone() *memData {
	c := &memData{
		size: d.size, mtime: d.mtime, stableSize: d.stableSize, stableMtime: d.stableMtime, pendingEnd: d.pendingEnd, stuck: d.stuck,
		extents: make(map[int64]*extent, len(d.extents)), dirty: append([]int64(nil), d.dirty...),
		pending: append([]change(nil), d.pending...),
	}
	for key, x := range d.extents {
		c.extents[key] = x.clone()
	}
	return c
}
