package inflight

import (
	"slices"
	"time"
)

// A Partition is the state of a share-partition. It is not safe for concurrent use.
//
// Every method that takes the time first lets locks pass whose deadline is not after it.
type Partition struct {
	cfg *Config

	start, end int64 // in flight is [start, end)
	runs       []run // exactly [start, end), by offset; the first is not terminal
	available  int64 // offsets in Available
	earliest   int64 // no deadline is before it; 0: there is none
	startDirty bool  // start differs from what was stored last
	lost       []run // below start: what members have that is not in the log any more, by offset
	doubts     []doubt
}

// New returns the share-partition as it is stored. cfg is kept.
func New(cfg *Config, s Snapshot) *Partition {
	p := &Partition{cfg: cfg, start: s.Start, end: s.Start}
	for _, b := range s.Batches {
		if b.Last < p.end {
			continue
		}
		if b.First > p.end { // a gap: what was acquired there was never given back
			p.extend(run{first: p.end, last: b.First - 1})
		}
		r := run{first: p.end, last: b.Last, state: b.State, count: b.Count}
		if b.State == Acquired {
			r.state = Available
		}
		p.extend(r)
	}
	p.advance()
	return p
}

// extend adds a run at the end.
func (p *Partition) extend(r run) {
	if r.state == Available {
		p.available += r.last - r.first + 1
	}
	p.runs = append(p.runs, r)
	p.end = r.last + 1
	p.join(len(p.runs)-1, len(p.runs)-1)
}

// Start returns the offset below which all is done with.
func (p *Partition) Start() int64 { return p.start }

// End returns the offset from which on nothing was handed out yet.
func (p *Partition) End() int64 { return p.end }

// Next returns the offset from which records are to be read for the next member that asks. ok is
// false while there are none: all in flight is acquired, and the end is as far as it may go.
func (p *Partition) Next() (offset int64, ok bool) {
	if p.available > 0 {
		i := slices.IndexFunc(p.runs, func(r run) bool { return r.state == Available })
		return p.runs[i].first, true
	}
	return p.end, p.end-p.start < p.cfg.MaxInFlight
}

// Deadline returns when Tick has something to do at the earliest; zero: not before a record is
// acquired.
func (p *Partition) Deadline() time.Time {
	if p.earliest == 0 {
		return time.Time{}
	}
	return time.Unix(0, p.earliest)
}

// Tick lets locks pass whose time is over: their records are available again, or archived after
// their last delivery.
func (p *Partition) Tick(now time.Time) {
	at := now.UnixNano()
	if len(p.lost) > 0 {
		p.lost = slices.DeleteFunc(p.lost, func(r run) bool { return r.deadline <= at })
	}
	if len(p.doubts) > 0 {
		p.doubts = slices.DeleteFunc(p.doubts, func(d doubt) bool { return d.deadline <= at })
	}
	if p.earliest == 0 || p.earliest > at {
		return
	}
	p.earliest = 0
	for i := range p.runs {
		r := &p.runs[i]
		switch {
		case r.state != Acquired:
		case r.deadline <= at:
			p.giveBack(r)
		default:
			p.armed(r.deadline)
		}
	}
	p.join(0, len(p.runs))
	p.advance()
}

// armed notes a deadline.
func (p *Partition) armed(at int64) {
	if p.earliest == 0 || at < p.earliest {
		p.earliest = at
	}
}

// LogStart says that the partition's log begins at offset: what was in flight below it is over. Who
// has some of it may still say what has become of it.
func (p *Partition) LogStart(offset int64) {
	if offset <= p.start {
		return
	}
	n := p.split(min(offset, p.end))
	for _, r := range p.runs[:n] {
		switch r.state {
		case Available:
			p.available -= r.last - r.first + 1
		case Acquired:
			p.lost = append(p.lost, r)
		}
	}
	p.lost = p.lost[max(0, len(p.lost)-maxLost):]
	p.runs = slices.Delete(p.runs, 0, n)
	p.start, p.end, p.startDirty = offset, max(p.end, offset), true
	p.advance()
}

// maxLost is how many runs that are lost are kept: those of more are over for who has them, too.
const maxLost = 1000

// Leave gives back what a member has that goes in good order. These deliveries do not count: the
// records that it had worked on it would have acknowledged.
func (p *Partition) Leave(now time.Time, member string) {
	p.leave(now, member, func(r *run) {
		r.count--
		p.become(r, Available)
	})
}

// Expire gives back what a member has as if its locks had passed: the deliveries count, since one
// of the records may be why it is gone.
func (p *Partition) Expire(now time.Time, member string) {
	p.leave(now, member, p.giveBack)
}

func (p *Partition) leave(now time.Time, member string, back func(r *run)) {
	p.Tick(now)
	for i := range p.runs {
		if r := &p.runs[i]; r.state == Acquired && r.member == member {
			back(r)
		}
	}
	p.join(0, len(p.runs))
	p.advance()
	p.lost = slices.DeleteFunc(p.lost, func(r run) bool { return r.member == member })
	p.doubts = slices.DeleteFunc(p.doubts, func(d doubt) bool { return d.member == member })
}

// Delta returns what is to be stored since the last Delta; ok is false if nothing is. A record that
// is acquired is stored as it was when it was available last.
func (p *Partition) Delta() (d Delta, ok bool) {
	d.Start, ok = p.start, p.startDirty
	for i := range p.runs {
		r := &p.runs[i]
		if r.state.Terminal() {
			d.Complete += int32(r.last - r.first + 1)
		}
		if !r.dirty {
			continue
		}
		r.dirty, ok = false, true
		b := Batch{First: r.first, Last: r.last, State: r.state, Count: r.count}
		if r.state == Acquired {
			b.State, b.Count = Available, r.count-1
		}
		if n := len(d.Batches); n > 0 && d.Batches[n-1].Last == b.First-1 && d.Batches[n-1].State == b.State && d.Batches[n-1].Count == b.Count {
			d.Batches[n-1].Last = b.Last
			continue
		}
		d.Batches = append(d.Batches, b)
	}
	p.startDirty = false
	p.join(0, len(p.runs))
	return d, ok
}

// NotStored says that a Delta may not be stored: the next one says all of it that still counts.
// Nobody loses what it has.
func (p *Partition) NotStored(d Delta) {
	p.startDirty = true
	for _, b := range d.Batches {
		if first, last := max(b.First, p.start), min(b.Last, p.end-1); first <= last {
			i, j := p.between(first, last)
			for ; i < j; i++ {
				p.runs[i].dirty = true
			}
		}
	}
	p.join(0, len(p.runs))
}

// All returns what is in flight, by offset, as it is at the moment.
func (p *Partition) All() []Batch {
	all := make([]Batch, 0, len(p.runs))
	for _, r := range p.runs {
		all = append(all, Batch{First: r.first, Last: r.last, State: r.state, Count: r.count})
	}
	return all
}
