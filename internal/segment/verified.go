package segment

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"
)

// verified has the byte ranges whose batches matched their CRC, or were appended by this process. A
// lookup takes no lock. The number of ranges is bounded: other batches are checked at each read.
//
// The batches that this process appended are one range up to the end of the file, so that an append
// need not change it.
type verified struct {
	// own: everything from here to the end was appended by this process; -1: nothing was. Changed
	// by the segment's writer.
	own    atomic.Int64
	mu     sync.Mutex // serialises changes
	ranges atomic.Pointer[[]byteRange]
}

type byteRange struct{ from, to int64 } // half open; sorted, not touching

const maxVerifiedRanges = 1024

// covers reports whether all of [from, to) is verified.
func (v *verified) covers(from, to int64) bool {
	if own := v.own.Load(); own >= 0 && from < to && to > own {
		if from >= own {
			return true
		}
		to = own
	}
	p := v.ranges.Load()
	if p == nil {
		return false
	}
	rs := *p
	i := sort.Search(len(rs), func(i int) bool { return rs[i].to >= to })
	return i < len(rs) && rs[i].from <= from
}

func (v *verified) add(from, to int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var rs []byteRange
	if p := v.ranges.Load(); p != nil {
		rs = *p
	}
	i := sort.Search(len(rs), func(i int) bool { return rs[i].to >= from })
	j := i
	for j < len(rs) && rs[j].from <= to {
		from, to = min(from, rs[j].from), max(to, rs[j].to)
		j++
	}
	if j == i && len(rs) >= maxVerifiedRanges {
		return
	}
	now := slices.Replace(slices.Clone(rs), i, j, byteRange{from, to})
	v.ranges.Store(&now)
}

// cut removes the ranges from pos on.
func (v *verified) cut(pos int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if own := v.own.Load(); own > pos {
		v.own.Store(pos)
	}
	p := v.ranges.Load()
	if p == nil {
		return
	}
	var now []byteRange
	for _, r := range *p {
		if r.from < pos {
			now = append(now, byteRange{r.from, min(r.to, pos)})
		}
	}
	v.ranges.Store(&now)
}
