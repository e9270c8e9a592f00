package inflight

import (
	"fmt"
	"time"
)

// An Ack is a member's acknowledgement of a range of records.
type Ack struct {
	First, Last int64     // both inclusive
	Types       []AckType // one for each offset, or one for all
}

// typeOf returns the type for an offset.
func (a *Ack) typeOf(offset int64) AckType {
	if len(a.Types) == 1 {
		return a.Types[0]
	}
	return a.Types[offset-a.First]
}

// sameUntil returns the last offset of the range from offset on in which all have the same type.
func (a *Ack) sameUntil(offset int64) int64 {
	if len(a.Types) == 1 {
		return a.Last
	}
	last := offset
	for last < a.Last && a.typeOf(last+1) == a.typeOf(offset) {
		last++
	}
	return last
}

// Acknowledge applies a member's acknowledgements: all, or none if it returns an error. acks are
// sorted by offset and do not overlap. Acknowledgements of records that the log has lost are
// ignored, without an error while the member would still hold the lock. A member may repeat
// acknowledgements that are in doubt.
//
// It returns ErrInvalidRequest if acks are malformed, and ErrInvalidState for records that the
// member has not acquired or holds no longer. Kafka returns INVALID_REQUEST for offsets past the
// end.
func (p *Partition) Acknowledge(now time.Time, member string, acks []Ack) error {
	p.Tick(now)
	if err := Check(acks); err != nil {
		return err
	}
	for _, a := range acks {
		if err := p.mayAcknowledge(member, a); err != nil {
			return err
		}
	}
	for _, a := range acks {
		p.acknowledge(now, member, a)
	}
	p.advance()
	return nil
}

// Check returns ErrInvalidRequest if acks are malformed in any state of the partition.
func Check(acks []Ack) error {
	for i, a := range acks {
		if err := a.check(); err != nil {
			return err
		}
		if i > 0 && a.First <= acks[i-1].Last {
			return fmt.Errorf("%w: offsets from %d on follow those up to %d", ErrInvalidRequest, a.First, acks[i-1].Last)
		}
	}
	return nil
}

// check returns ErrInvalidRequest if the Ack is malformed.
func (a *Ack) check() error {
	switch n := uint64(a.Last - a.First); {
	case a.First < 0, a.Last < a.First:
		return fmt.Errorf("%w: offsets %d to %d", ErrInvalidRequest, a.First, a.Last)
	case len(a.Types) != 1 && n != uint64(len(a.Types))-1:
		return fmt.Errorf("%w: %d types for the offsets %d to %d", ErrInvalidRequest, len(a.Types), a.First, a.Last)
	}
	for _, t := range a.Types {
		if t < Gap || t > Renew {
			return fmt.Errorf("%w: type %d", ErrInvalidRequest, t)
		}
	}
	return nil
}

// mayAcknowledge returns an error if the member may not acknowledge all of a.
func (p *Partition) mayAcknowledge(member string, a Ack) error {
	if a.Last >= p.end { // perhaps acquired from an earlier leader
		return fmt.Errorf("%w: offset %d is past acquired records, which end at %d", ErrInvalidState, a.Last, p.end)
	}
	for o := a.First; o <= a.Last; {
		last, ok := p.has(member, o)
		if !ok {
			last, ok = p.hasSaid(member, a, o)
		}
		switch {
		case !ok && o < p.start:
			return fmt.Errorf("%w: offset %d is done with", ErrInvalidState, o)
		case !ok:
			return fmt.Errorf("%w: offset %d", ErrInvalidState, o)
		}
		o = last + 1
	}
	return nil
}

// has reports whether member has acquired the records from offset to last; offset is below the end.
func (p *Partition) has(member string, offset int64) (last int64, ok bool) {
	if offset >= p.start {
		r := &p.runs[p.find(offset)]
		return r.last, r.state == Acquired && r.member == member
	}
	for _, r := range p.lost {
		if r.first <= offset && offset <= r.last && r.member == member {
			return r.last, true
		}
	}
	return offset, false
}

// hasSaid reports whether the same acknowledgements by member are in doubt from offset to last.
func (p *Partition) hasSaid(member string, a Ack, offset int64) (last int64, ok bool) {
	for _, d := range p.doubts {
		if d.first <= offset && offset <= d.last && d.member == member && d.said == a.typeOf(offset) {
			return min(d.last, a.sameUntil(offset)), true
		}
	}
	return offset, false
}

// acknowledge applies an Ack that mayAcknowledge has accepted.
func (p *Partition) acknowledge(now time.Time, member string, a Ack) {
	for first := max(a.First, p.start); first <= a.Last; {
		last := a.sameUntil(first)
		i, j := p.between(first, last)
		for k := i; k < j; k++ {
			if r := &p.runs[k]; r.state == Acquired && r.member == member { // else it is a repetition
				p.apply(now, r, a.typeOf(first))
			}
		}
		p.join(i, j)
		first = last + 1
	}
}

// A doubt is an acknowledgement whose outcome the member does not know.
type doubt struct {
	first, last int64
	member      string
	said        AckType
	deadline    int64 // until which it may be repeated, Unix nanoseconds
}

// maxDoubts bounds the doubts kept. Repetitions of older ones are rejected.
const maxDoubts = 1000

// Doubt records that the member does not know whether acknowledgements, which were applied, are
// stored. It may repeat them during a LockDuration from now.
func (p *Partition) Doubt(now time.Time, member string, acks []Ack) {
	deadline := now.Add(p.cfg.LockDuration).UnixNano()
	for _, a := range acks {
		for first := a.First; first <= a.Last; {
			last := a.sameUntil(first)
			if t := a.typeOf(first); t != Renew { // a renewed record stays acquired
				p.doubts = append(p.doubts, doubt{first, last, member, t, deadline})
			}
			first = last + 1
		}
	}
	p.doubts = p.doubts[max(0, len(p.doubts)-maxDoubts):]
}

// apply applies t to an acquired run.
func (p *Partition) apply(now time.Time, r *run, t AckType) {
	switch t {
	case Accept:
		p.become(r, Acknowledged)
	case Release:
		p.giveBack(r)
	case Gap, Reject:
		p.become(r, Archived)
	case Renew:
		r.deadline = now.Add(p.cfg.LockDuration).UnixNano()
		p.armed(r.deadline)
	}
}
