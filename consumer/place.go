package consumer

import "github.com/stratalog/strata/partition"

// A place is one partition without a position, and the delivery that needs it.
type place struct {
	p     *part
	d     *delivery
	start int64 // as known so far: an offset or a Start constant
	epoch int32 // leader epoch that start was committed with; -1: none
	fresh bool  // never had a position
}

// startSpec returns the query of the log that at needs; needed is false if it has an offset. A nil
// query means that Reset is Fail.
func (c *Consumer) startSpec(at place) (spec *partition.OffsetSpec, needed bool) {
	earliest, latest := partition.OffsetSpec(partition.Earliest), partition.OffsetSpec(partition.Latest)
	switch {
	case at.start >= 0:
		return nil, false
	case at.start == StartEarliest:
		return &earliest, true
	case at.start == StartLatest:
		return &latest, true
	case c.cfg.Reset.kind == resetFail:
		return nil, true
	case c.cfg.Reset.kind == resetLatest && at.p.newborn && at.fresh:
		return &earliest, true // all its records are newer than the consumer
	}
	c.mu.Lock()
	c.stats.Resets++
	c.mu.Unlock()
	s := c.cfg.Reset.spec()
	return &s, true
}

// place sets the position of a delivery, unless it was replaced meanwhile. With commit the offset
// is committed like a processed one. That is done for an end, so that a returning member continues
// there rather than at the end at that time, and for the first record of a newborn partition if
// Reset is Latest. The target of a seek is always committed, since the group continues there.
func (c *Consumer) place(at place, offset int64, commit bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.p.d != at.d || at.d.position.Load() >= 0 {
		return
	}
	at.d.begin.Store(offset)
	at.d.position.Store(offset)
	if offset == at.start {
		at.d.epoch.Store(at.epoch)
	}
	if commit || at.d.sought {
		at.d.processed.Store(offset)
	}
	at.p.located = true
	at.p.noteStart(offset)
	at.p.trouble = trouble{}
}

// noOffset stops a partition that has no offset to start at.
func (c *Consumer) noOffset(at place) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.p.d != at.d {
		return nil
	}
	at.p.failed = &PartitionError{at.p.tp, -1, ErrNoOffset}
	return at.p.failed
}

// spec returns the query of a reset policy.
func (r Reset) spec() partition.OffsetSpec {
	switch r.kind {
	case resetLatest:
		return partition.Latest
	case resetAt:
		return partition.At(r.at)
	default:
		return partition.Earliest
	}
}
