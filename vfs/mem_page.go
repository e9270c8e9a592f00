package vfs

import "bytes"

const (
	pageSize    = 4096 // what a disk is assumed to write at once, and the unit of memory
	extentPages = 16   // pages that are looked up together
)

type page [pageSize]byte

// zeroPage is the memory of all pages that were written to, but with zeros only. Nobody's: never
// written to.
var zeroPage page

// A memPage is a page of a file, and what the disk has of it: of each the first bytes of a page of
// memory, and zeros behind them, whatever the memory holds there. nil: only zeros.
type memPage struct {
	live    *page  // nil: never written to
	stable  *page  // what the disk has, if dirty
	gen     uint64 // of the tree that may write to live, also behind liveN. Others copy
	liveN   uint16 // bytes of live
	stableN uint16
	dirty   bool // stable is set; live may differ from it
	shared  bool // stable is live, and what it has of it must stay
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

// write stores b at in, in memory from slabs if it may not write to what it has. The page is dirty.
func (p *memPage) write(b []byte, in int, gen uint64, slabs *slabs) {
	end := max(int(p.liveN), in+len(b))
	switch {
	case in >= int(p.liveN) && bytes.Equal(b, zeroPage[:len(b)]):
		if !p.exists() {
			p.live, p.liveN, p.gen = &zeroPage, 0, 0
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
		p.live, p.gen, p.shared = (*page)(fresh), gen, false
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
		p.liveN, p.gen = uint16(in), 0 // the disk may have what is behind: nobody writes there
	}
}

// An extent is pages that are looked up together.
type extent [extentPages]memPage
