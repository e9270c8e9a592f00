package inflight

import (
	"fmt"
	"slices"
	"time"
)

// A Partition is the state of a share-partition. It is not safe for concurrent use.
//
// Every method with a time argument first expires the locks whose deadline has come.
type Partition struct {
	cfg *Config

	start, end int64 // in flight is [start, end)
	runs       []run // exactly [start, end), by offset; the first is not terminal
	available  int64 // number of offsets that are Available
	earliest   int64 // no deadline is earlier; 0 if there is none
	startDirty bool  // start differs from the stored one
	lost       []run // acquired runs below start that the log has lost, by offset
	doubts     []doubt
}

// New returns a share-partition with the stored state. It keeps cfg.
func New(cfg *Config, s Snapshot) *Partition {
	p := &Partition{cfg: cfg, start: s.Start, end: s.Start}
	for _, b := range s.Batches {
		if b.Last < p.end {
			continue
		}
		if b.First > p.end { // a gap: records acquired there were never stored
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

// Start returns the start offset: all records below are finished.
func (p *Partition) Start() int64 { return p.start }

// End returns the end offset: no record from there on was acquired yet.
func (p *Partition) End() int64 { return p.end }

// Next returns the offset to read from for the next Acquire. ok is false if no record can be
// acquired: all in flight are acquired or finished, and the in-flight limit is reached.
func (p *Partition) Next() (offset int64, ok bool) {
	if p.available > 0 {
		i := slices.IndexFunc(p.runs, func(r run) bool { return r.state == Available })
		return p.runs[i].first, true
	}
	return p.end, p.end-p.start < p.cfg.MaxInFlight
}

// Deadline returns the earliest time at which a lock may expire; zero if no record is acquired.
func (p *Partition) Deadline() time.Time {
	if p.earliest == 0 {
		return time.Time{}
	}
	return time.Unix(0, p.earliest)
}

// Tick expires locks: their records become available again, or are archived after their last
// delivery.
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

// armed lowers earliest to at.
func (p *Partition) armed(at int64) {
	if p.earliest == 0 || at < p.earliest {
		p.earliest = at
	}
}

// LogStart advances the start to the start of the partition's log. Members may still acknowledge
// the records below that they have acquired.
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

// maxLost bounds the lost runs kept. Acknowledgements of older ones are rejected.
const maxLost = 1000

// Begin starts the delivery of the records from first to last, which a member has acquired with
// Limit.BeginLater. It counts from now on, and the lock lasts a whole Config.LockDuration. Records
// whose delivery has started before only get a new lock. Begin returns ErrInvalidState, and changes
// nothing, if the member holds one of them no longer.
func (p *Partition) Begin(now time.Time, member string, first, last int64) error {
	p.Tick(now)
	if first < p.start || last < first || last >= p.end {
		return fmt.Errorf("%w: offsets %d to %d of %d to %d", ErrInvalidState, first, last, p.start, p.end)
	}
	for o := first; o <= last; {
		upTo, ok := p.has(member, o)
		if !ok {
			return fmt.Errorf("%w: offset %d", ErrInvalidState, o)
		}
		o = upTo + 1
	}
	i, j := p.between(first, last)
	for k := i; k < j; k++ {
		r := &p.runs[k]
		if r.pending {
			r.pending = false
			r.count++
		}
		r.deadline = now.Add(p.cfg.LockDuration).UnixNano()
		p.armed(r.deadline)
	}
	p.join(i, j)
	return nil
}

// Leave releases the records of a member that leaves in good order. Their deliveries do not count:
// the member has acknowledged the records that it processed.
func (p *Partition) Leave(now time.Time, member string) {
	p.leave(now, member, func(r *run) {
		if r.pending {
			p.unlock(r)
			return
		}
		r.count--
		p.become(r, Available)
	})
}

// Expire releases the records of a member as if its locks had expired. The deliveries count: one of
// the records may have made the member fail.
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

// Delta returns the changes to store since the last Delta; ok is false if there are none. Acquired
// records are stored with the state from before they were acquired.
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
			b.State, b.Count = Available, r.ended()
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

// Stored reports whether all of the state is stored: no member holds a record, or may repeat an
// acknowledgement, and Delta has no changes.
func (p *Partition) Stored() bool {
	return !p.startDirty && len(p.lost)+len(p.doubts) == 0 &&
		!slices.ContainsFunc(p.runs, func(r run) bool { return r.dirty || r.state == Acquired })
}

// NotStored records that d may not have been stored. The next Delta includes all of it that is
// still current. The state stays.
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

// All returns the present state of the records in flight, by offset.
func (p *Partition) All() []Batch {
	all := make([]Batch, 0, len(p.runs))
	for _, r := range p.runs {
		all = append(all, Batch{First: r.first, Last: r.last, State: r.state, Count: r.count})
	}
	return all
}
