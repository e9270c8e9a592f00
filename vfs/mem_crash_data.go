package vfs

import "slices"

const sectorSize = 512

// data returns the remaining content of a file: the disk's pages with the changes that have reached
// the disk.
//
// Changes of the size reach the disk in order (they are metadata, which file systems keep in a
// journal), the bytes of each page at any time. Bytes written after a cut that did not get there
// are not there either: their blocks were taken from the free space.
func (x *crasher) data(d *memData) *memData {
	if len(d.pending) == 0 && len(d.dirty) == 0 {
		c := d.clone()
		c.stableSize, c.stableMtime = c.size, c.mtime
		return c
	}
	resizes := x.resizes(d)
	out := newMemData(d.stableMtime)
	if x.survives(x.Sizes, x.cut) {
		out.mtime, out.stableMtime = d.mtime, d.mtime
	}
	out.size = d.stableSize
	if resizes > 0 {
		out.size = d.pending[resizes-1].endSize
	}
	for key, e := range d.extents {
		copied := new([extentPages]memPage)
		for i := range copied {
			if p := e.page(int64(i)); !p.dirty {
				copied[i].live, copied[i].liveIn, copied[i].liveN = p.live, p.liveIn, p.liveN
			}
		}
		out.extents[key] = &extent{pages: copied}
	}
	for _, no := range slices.Sorted(slices.Values(d.dirty)) {
		p := out.extents[no/extentPages].at(no % extentPages)
		p.live, p.liveIn, p.liveN = x.page(d, no, resizes), nil, pageSize
	}
	out.trim()
	out.stableSize = out.size
	return out
}

// resizes returns how many of the pending changes have their effect on the size on the disk.
func (x *crasher) resizes(d *memData) int {
	switch x.Sizes {
	case CrashLost:
		return 0
	case CrashKept:
		return len(d.pending)
	case CrashOrdered:
		return x.before(d)
	}
	if x.rnd.Float64() < 0.5 { // the ends are the likely cases
		if x.rnd.Float64() < x.keep {
			return len(d.pending)
		}
		return 0
	}
	return x.rnd.IntN(len(d.pending) + 1)
}

// before returns how many pending changes precede the cut.
func (x *crasher) before(d *memData) int {
	n, _ := slices.BinarySearchFunc(d.pending, x.cut, func(c change, cut uint64) int {
		if c.seq < cut {
			return -1
		}
		return 1
	})
	return n
}

// page returns one page as it is on the disk: the stable content, with the first few of the changes
// since.
func (x *crasher) page(d *memData, no int64, resizes int) *page {
	touching := d.touching(no)
	n := x.writes(d, touching)
	torn := -1 // index in touching of the write that only got there in part
	if n > 0 && x.Data == CrashTorn || n < len(touching) && x.Data == CrashOrdered && d.pending[touching[n]].seq == x.cut {
		if x.Data == CrashTorn {
			n--
		}
		torn = n
		n++
	}
	p := new(page)
	saved := d.pageLocked(no)
	copy(p[:], saved.stableBytes())
	cutAt := int64(-1) // a cut of the file that is not on the disk
	for i, at := range touching {
		c := &d.pending[at]
		switch {
		case c.shrink && at < resizes:
			clearFrom(p, c.off-no*pageSize)
		case c.shrink:
			if cutAt < 0 || c.off < cutAt {
				cutAt = c.off
			}
		case i < n:
			x.write(d, p, no, c, cutAt, i == torn)
		}
	}
	return p
}

// touching returns the indexes of the pending changes that concern a page.
func (d *memData) touching(no int64) []int {
	var found []int
	for i := range d.pending {
		c := &d.pending[i]
		from, to := c.off, c.off+c.n
		if c.shrink {
			to = (no + 1) * pageSize
		}
		if !c.resize || c.shrink {
			if from < (no+1)*pageSize && to > no*pageSize {
				found = append(found, i)
			}
		}
	}
	return found
}

// writes returns how many of the changes that touch a page have got there.
func (x *crasher) writes(d *memData, touching []int) int {
	switch x.Data {
	case CrashLost:
		return 0
	case CrashKept:
		return len(touching)
	case CrashOrdered:
		before := x.before(d)
		n, _ := slices.BinarySearch(touching, before)
		return n
	}
	if x.rnd.Float64() >= x.keep {
		return 0
	}
	if x.rnd.Float64() < 0.5 {
		return len(touching)
	}
	return x.rnd.IntN(len(touching) + 1)
}

// write puts the bytes of a change into a page, or only some of them. Bytes at or beyond cutAt (-1:
// none) are not there.
func (x *crasher) write(d *memData, p *page, no int64, c *change, cutAt int64, torn bool) {
	start := no * pageSize
	from, to := max(c.off, start), min(c.off+c.n, start+pageSize)
	if cutAt >= 0 {
		to = min(to, cutAt)
	}
	if from >= to {
		return
	}
	bytes := make([]byte, to-from)
	if c.data != nil {
		copy(bytes, c.data[from-c.off:])
	} else if current := d.pageLocked(no); from-start < int64(current.liveN) {
		copy(bytes, current.liveBytes()[from-start:])
	}
	dst := p[from-start : to-start]
	switch {
	case !torn:
		copy(dst, bytes)
	case x.Data == CrashOrdered || x.rnd.IntN(2) == 0: // ends somewhere, perhaps inside a sector
		n := x.rnd.IntN(len(bytes) + 1)
		if x.Data == CrashTorn && x.rnd.IntN(4) == 0 { // or begins with some sector
			n = min(len(bytes), int((from+int64(n)+sectorSize-1)/sectorSize*sectorSize-from))
			copy(dst[n:], bytes[n:])
		} else {
			copy(dst[:n], bytes)
		}
	default: // any of the sectors
		for at := (from - start) / sectorSize * sectorSize; at < to-start; at += sectorSize {
			if x.rnd.IntN(2) == 0 {
				a, b := max(at, from-start), min(at+sectorSize, to-start)
				copy(p[a:b], bytes[a-(from-start):])
			}
		}
	}
}

// trim restores the invariant that there is nothing beyond the size.
func (d *memData) trim() {
	for key, x := range d.extents {
		if key*extentBytes >= d.size {
			delete(d.extents, key)
			continue
		}
		for i := range int64(extentPages) {
			p := x.at(i)
			if left := d.size - (key*extentPages+i)*pageSize; left <= 0 {
				*p = memPage{}
			} else {
				p.liveN = min(p.liveN, uint16(min(left, pageSize)))
			}
		}
	}
}

// clearFrom zeroes a page from a position, which may lie before or beyond it.
func clearFrom(p *page, at int64) {
	if at < pageSize {
		clear(p[max(at, 0):])
	}
}
