package inflight

import (
	"fmt"
	"slices"
	"time"
)

// An Ack is what a member says of a range of records.
type Ack struct {
	First, Last int64     // both inclusive
	Types       []AckType // one for each, or one for all
}

// typeOf returns the type for an offset.
func (a *Ack) typeOf(offset int64) AckType {
	if len(a.Types) == 1 {
		return a.Types[0]
	}
	return a.Types[offset-a.First]
}

// Acknowledge takes what a member says, all of it or, with an error, nothing. Acks are by offset
// and do not overlap. Nothing becomes of what is said of records that the log has lost meanwhile,
// and it is no error as long as the member would have them.
//
// It returns ErrInvalidRequest if acks make no sense, and ErrInvalidState for records that the member
// does not have, not any more, or not yet. (Kafka: INVALID_REQUEST for what is past the end.)
func (p *Partition) Acknowledge(now time.Time, member string, acks []Ack) error {
	p.Tick(now)
	for i, a := range acks {
		if err := a.check(); err != nil {
			return err
		}
		if i > 0 && a.First <= acks[i-1].Last {
			return fmt.Errorf("%w: offsets from %d on follow those up to %d", ErrInvalidRequest, a.First, acks[i-1].Last)
		}
		if err := p.mayAcknowledge(member, a); err != nil {
			return err
		}
	}
	for _, a := range acks {
		p.acknowledge(now, a)
	}
	p.advance()
	return nil
}

// check says what is wrong with an Ack in itself.
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

// mayAcknowledge says why a member may not.
func (p *Partition) mayAcknowledge(member string, a Ack) error {
	for o := a.First; o < p.start && o <= a.Last; {
		i := slices.IndexFunc(p.lost, func(r run) bool { return r.first <= o && o <= r.last && r.member == member })
		if i < 0 {
			return fmt.Errorf("%w: offset %d is done with", ErrInvalidState, o)
		}
		o = p.lost[i].last + 1
	}
	if a.Last >= p.end { // perhaps handed out by who led the partition before
		return fmt.Errorf("%w: offset %d is past acquired records, which end at %d", ErrInvalidState, a.Last, p.end)
	}
	first := max(a.First, p.start)
	for i := p.find(first); i < len(p.runs) && p.runs[i].first <= a.Last; i++ {
		if r := &p.runs[i]; r.state != Acquired || r.member != member {
			return fmt.Errorf("%w: offset %d", ErrInvalidState, max(first, r.first))
		}
	}
	return nil
}

// acknowledge carries out what mayAcknowledge has let through.
func (p *Partition) acknowledge(now time.Time, a Ack) {
	first := max(a.First, p.start)
	for first <= a.Last {
		t, last := a.typeOf(first), a.Last
		if len(a.Types) > 1 {
			for last = first; last < a.Last && a.typeOf(last+1) == t; last++ {
			}
		}
		i, j := p.between(first, last)
		for k := i; k < j; k++ {
			p.apply(now, &p.runs[k], t)
		}
		p.join(i, j)
		first = last + 1
	}
}

// apply brings one run, which is acquired, to where t says.
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
