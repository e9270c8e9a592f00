package vfs

import (
	"bytes"
	"unsafe"
)

const (
	pageSize    = 4096 // the unit that a disk is assumed to write at once, and the unit of memory
	extentPages = 16   // pages that are looked up together
	extentBytes = extentPages * pageSize
)

type page [pageSize]byte

// zeroPage is the memory of all pages that have only written zeros. It has no owner and is never
// changed.
var zeroPage page

// A memPage is a page of a file, and the disk's content of it. Each is the first bytes of a page of
// memory, with zeros behind them, whatever the memory holds there. nil: only zeros. A page outside
// of the heap is valid as long as its chunk is referred to, so both are stored and copied together.
type memPage struct {
	live     *page  // nil: never written to
	liveIn   *chunk // that live is in; nil: it is in the heap
	stable   *page  // the content on the disk, if dirty
	stableIn *chunk
	gen      uint64 // of the tree that may write to live, also behind liveN. Others copy
	liveN    uint16 // bytes of live
	stableN  uint16
	dirty    bool // stable is set; live may differ from it
	shared   bool // stable is live, and its bytes must stay
}

func (p *memPage) exists() bool { return p.live != nil }

func (p *memPage) liveBytes() []byte { return p.live.first(p.liveN) }

func (p *memPage) stableBytes() []byte { return p.stable.first(p.stableN) }

func (m *page) first(n uint16) []byte {
	if m == nil {
		return nil
	}
	return m[:n]
}

// write stores b at in, in memory from slabs if the page may not write to its present memory. The
// page is dirty.
func (p *memPage) write(b []byte, in int, gen uint64, slabs *slabs) {
	end := max(int(p.liveN), in+len(b))
	switch {
	case in >= int(p.liveN) && bytes.Equal(b, zeroPage[:len(b)]):
		if !p.exists() {
			p.live, p.liveIn, p.liveN, p.gen = &zeroPage, nil, 0, 0
		}
		return
	case !p.exists() || p.gen != gen || p.shared && in < int(p.stableN):
		fresh, old := slabs.take(pageSize), p.liveBytes()
		n := copy(fresh[:in], old)
		clear(fresh[n:in])
		copy(fresh[in:], b)
		if len(old) > in+len(b) {
			copy(fresh[in+len(b):], old[in+len(b):])
		}
		p.live, p.liveIn, p.gen, p.shared = (*page)(fresh), slabs.in, gen, false
	default:
		if in > int(p.liveN) {
			clear(p.live[p.liveN:in])
		}
		copy(p.live[in:], b)
	}
	p.liveN = uint16(end)
}

// cut makes the bytes of a dirty page from in on zeros.
func (p *memPage) cut(in int) {
	if in < int(p.liveN) {
		p.liveN, p.gen = uint16(in), 0 // the disk may have the bytes behind it: they are not written to
	}
}

// An extent is pages that are looked up together.
//
// Large files mostly grow, and then the pages of an extent end up alike: then the extent is a run,
// which takes a tenth of the pages' memory, and of the collector's work.
type extent struct {
	pages *[extentPages]memPage // nil: a run
	run   run
}

// A run is whole pages that follow each other in a chunk, of the same generation. Either they are
// clean, or the disk has nothing of them.
type run struct {
	mem   *[extentBytes]byte
	in    *chunk // that mem is in
	gen   uint64
	dirty bool
}

// page returns a copy of a page.
func (x *extent) page(i int64) memPage {
	if x.pages != nil {
		return x.pages[i]
	}
	return x.run.page(i)
}

func (r *run) page(i int64) memPage {
	return memPage{live: (*page)(r.mem[i*pageSize:]), liveIn: r.in, gen: r.gen, liveN: pageSize, dirty: r.dirty}
}

// read fills p with the bytes from in, which has to be in the extent with all of p.
func (x *extent) read(p []byte, in int64) {
	for i, in := in/pageSize, in%pageSize; len(p) > 0; i, in = i+1, 0 {
		part := p[:min(int64(len(p)), pageSize-in)]
		live := x.pages[i].liveBytes()
		n := copy(part, live[min(in, int64(len(live))):])
		clear(part[n:])
		p = p[len(part):]
	}
}

// at returns a page that may be changed.
func (x *extent) at(i int64) *memPage {
	if x.pages == nil {
		x.pages = new([extentPages]memPage)
		for i := range int64(extentPages) {
			x.pages[i] = x.run.page(i)
		}
		x.run = run{}
	}
	return &x.pages[i]
}

// settle makes the extent a run if its pages are one, and returns the memory of its pages then.
func (x *extent) settle() *[extentPages]memPage {
	pages := x.pages
	if pages == nil {
		return nil
	}
	first := &pages[0]
	if first.liveIn == nil { // the heap behind it may belong to other values
		return nil
	}
	for i := range pages {
		p := &pages[i]
		if p.liveN != pageSize || p.stable != nil || p.gen != first.gen || p.dirty != first.dirty || p.liveIn != first.liveIn ||
			uintptr(unsafe.Pointer(p.live)) != uintptr(unsafe.Pointer(first.live))+uintptr(i)*pageSize {
			return nil
		}
	}
	x.run = run{
		mem: (*[extentBytes]byte)(unsafe.Slice(&first.live[0], extentBytes)),
		in:  first.liveIn, gen: first.gen, dirty: first.dirty,
	}
	x.pages = nil
	*pages = [extentPages]memPage{}
	return pages
}

// clone returns a copy that shares the memory.
func (x *extent) clone() *extent {
	c := *x
	if x.pages != nil {
		pages := *x.pages
		c.pages = &pages
	}
	return &c
}
