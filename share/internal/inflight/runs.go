package inflight

import (
	"cmp"
	"slices"
)

// A run is a range of offsets with the same state.
type run struct {
	first, last int64
	deadline    int64  // of the lock, Unix nanoseconds; 0 unless Acquired
	member      string // "" unless Acquired
	count       int16  // of deliveries, including the present one if it has started
	state       State
	dirty       bool // differs from the stored state
	pending     bool // acquired, with the delivery not started; count is without it
}

// like reports whether the neighbours a and b can be joined.
func (a *run) like(b *run) bool {
	return a.state == b.state && a.count == b.count && a.deadline == b.deadline && a.dirty == b.dirty && a.pending == b.pending && a.member == b.member
}

// find returns the index of the run with offset, or len(p.runs) if offset is at or beyond the end.
// Runs are contiguous from start to end.
func (p *Partition) find(offset int64) int {
	i, _ := slices.BinarySearchFunc(p.runs, offset, func(r run, offset int64) int { return cmp.Compare(r.last, offset) })
	return i
}

// split makes a run begin at offset, which is in [start, end], and returns its index.
func (p *Partition) split(offset int64) int {
	i := p.find(offset)
	if i == len(p.runs) || p.runs[i].first == offset {
		return i
	}
	p.runs = slices.Insert(p.runs, i+1, p.runs[i])
	p.runs[i].last, p.runs[i+1].first = offset-1, offset
	return i + 1
}

// between splits runs at first and last, which are in flight, and returns the indices [i, j) of the
// runs that make up [first, last].
func (p *Partition) between(first, last int64) (i, j int) {
	i = p.split(first)
	return i, p.split(last + 1)
}

// join merges equal neighbours, from the run before i to the one at j.
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

// become moves a run to another state, to be stored.
func (p *Partition) become(r *run, s State) {
	n := r.last - r.first + 1
	if r.state == Available {
		p.available -= n
	}
	if s == Available {
		p.available += n
	}
	r.state, r.member, r.deadline, r.pending, r.dirty = s, "", 0, false, true
}

// ended returns the number of finished deliveries of r: without a present or a pending one.
func (r *run) ended() int16 {
	if r.state == Acquired && !r.pending {
		return r.count - 1
	}
	return r.count
}

// giveBack makes an acquired run available again, or archives it after its last delivery.
func (p *Partition) giveBack(r *run) {
	switch {
	case r.pending:
		p.unlock(r)
	case int(r.count) >= p.cfg.MaxDeliveryCount:
		p.become(r, Archived)
	default:
		p.become(r, Available)
	}
}

// unlock makes a run with a pending delivery available again. Its stored state stays the same.
func (p *Partition) unlock(r *run) {
	p.available += r.last - r.first + 1
	r.state, r.member, r.deadline, r.pending = Available, "", 0, false
}

// advance moves the start past finished records.
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
