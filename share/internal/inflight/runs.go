package inflight

import (
	"cmp"
	"slices"
)

// A run is a range of offsets that have everything in common.
type run struct {
	first, last int64
	deadline    int64  // of the lock, Unix nanoseconds; 0 unless Acquired
	member      string // "" unless Acquired
	count       int16  // deliveries, the present one included
	state       State
	dirty       bool // differs from what was stored last
}

// like reports whether the neighbours a and b are one run.
func (a *run) like(b *run) bool {
	return a.state == b.state && a.count == b.count && a.deadline == b.deadline && a.dirty == b.dirty && a.member == b.member
}

// find returns the index of the run that has offset, len(p.runs) for one from the end on. Runs
// follow each other without gaps from start to end.
func (p *Partition) find(offset int64) int {
	i, _ := slices.BinarySearchFunc(p.runs, offset, func(r run, offset int64) int { return cmp.Compare(r.last, offset) })
	return i
}

// split has a run begin at offset, which is in [start, end], and returns its index.
func (p *Partition) split(offset int64) int {
	i := p.find(offset)
	if i == len(p.runs) || p.runs[i].first == offset {
		return i
	}
	p.runs = slices.Insert(p.runs, i+1, p.runs[i])
	p.runs[i].last, p.runs[i+1].first = offset-1, offset
	return i + 1
}

// between returns the indices [i, j) of the runs that make up exactly [first, last], which is in
// flight.
func (p *Partition) between(first, last int64) (i, j int) {
	i = p.split(first)
	return i, p.split(last + 1)
}

// join makes one of neighbours that are alike, from the run before i to the one at j.
func (p *Partition) join(i, j int) {
	i, j = max(i, 1), min(j, len(p.runs)-1)
	to := i - 1
	for from := i; from <= j; from++ {
		if p.runs[to].like(&p.runs[from]) {
			p.runs[to].last = p.runs[from].last
			continue
		}
		to++
		p.runs[to] = p.runs[from]
	}
	if i <= j {
		p.runs = slices.Delete(p.runs, to+1, j+1)
	}
}

// become brings a run into another state, which is to be stored.
func (p *Partition) become(r *run, s State) {
	n := r.last - r.first + 1
	if r.state == Available {
		p.available -= n
	}
	if s == Available {
		p.available += n
	}
	r.state, r.member, r.deadline, r.dirty = s, "", 0, true
}

// giveBack makes a record that was delivered available again, unless that was the last time.
func (p *Partition) giveBack(r *run) {
	if int(r.count) >= p.cfg.MaxDeliveryCount {
		p.become(r, Archived)
	} else {
		p.become(r, Available)
	}
}

// advance moves the start over what is done with.
func (p *Partition) advance() {
	n := 0
	for n < len(p.runs) && p.runs[n].state.Terminal() {
		p.start = p.runs[n].last + 1
		n++
	}
	if n > 0 {
		p.startDirty = true
		p.runs = slices.Delete(p.runs, 0, n)
	}
}
