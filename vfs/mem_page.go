package vfs

import "bytes"

const (
	pageSize    = 4096 // what a disk is assumed to write at once, and the unit of memory
	extentPages = 16   // pages that are looked up together
	runPages    = 16   // pages of one write that share an allocation, at most
)

type page [pageSize]byte

// zeroPage is the memory of all pages that were written to, but with zeros only. Nobody's: never
// written to.
var zeroPage page

// A memPage is a page of a file, and what the disk has of it: of each the first bytes of a page of
// memory, and zeros behind them, whatever the memory holds there. nil: only zeros.
type memPage struct {
	live   *page // nil: never written to
	stable *page // what the disk has, if dirty
	// gen is that of the tree that may write to live, whose memory behind liveN is zero then.
	// Others copy.
	gen     uint64
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

// write stores b at in. The page is dirty.
func (p *memPage) write(b []byte, in int, gen uint64) {
	end := max(int(p.liveN), in+len(b))
	switch {
	case in >= int(p.liveN) && bytes.Equal(b, zeroPage[:len(b)]):
		if !p.exists() {
			p.live, p.liveN, p.gen = &zeroPage, 0, 0
		}
		return
	case !p.exists() || p.gen != gen || p.shared && in < int(p.stableN):
		// Nobody may look at fresh memory before it is written to, not even to see that it is
		// there: the system would map it twice.
		fresh := make([]byte, pageSize)
		copy(fresh[in:], b)
		copy(fresh[:in], p.liveBytes())
		if old := p.liveBytes(); len(old) > in+len(b) {
			copy(fresh[in+len(b):], old[in+len(b):])
		}
		p.live, p.gen, p.shared = (*page)(fresh), gen, false
	default:
		copy(p.live[in:], b)
	}
	p.liveN = uint16(end)
}

// cut makes the bytes of a dirty page from in on zeros.
func (p *memPage) cut(in int) {
	if in < int(p.liveN) {
		p.liveN, p.gen = uint16(in), 0 // the memory behind is not zero: nobody writes there
	}
}

// An extent is pages that are looked up together.
type extent [extentPages]memPage
