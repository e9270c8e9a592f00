package modern

import "slices"

// A reconciliation brings a member nearer to what it is meant to have. Kafka:
// CurrentAssignmentBuilder.
type reconciliation struct {
	target      []partition // sorted
	targetEpoch int32
	owned       []partition                 // sorted: what the member says it has
	told        bool                        // it said something
	owner       func(partition) (id string) // "": the partition is free
}

// next returns what becomes of m: m itself if nothing does.
func (r *reconciliation) next(m *member) *member {
	switch m.state {
	case stable:
		if m.epoch == r.targetEpoch {
			return m
		}
		return r.advance(m, m.epoch)
	case unrevoked:
		if r.stillHas(m.revoking) {
			return m
		}
		// It has given up what it had to. The target may be another one by now.
		return r.advance(m, m.epoch+1)
	case unreleased:
		return r.advance(m, m.epoch)
	}
	return r.advance(m, r.targetEpoch) // of a later version
}

// stillHas reports whether the member has some of hs for all that is known.
func (r *reconciliation) stillHas(hs []held) bool {
	if !r.told {
		return true
	}
	return slices.ContainsFunc(r.owned, func(p partition) bool { _, ok := has(hs, p); return ok })
}

// advance compares what m has with the target. epoch is that of m while it has something to give
// up.
func (r *reconciliation) advance(m *member, epoch int32) *member {
	keep, revoke := []held{}, []held{}
	for _, h := range m.assigned {
		if contains(r.target, h.partition) {
			keep = append(keep, h)
		} else {
			revoke = append(revoke, h)
		}
	}
	next := *m
	if len(revoke) > 0 && r.stillHas(revoke) {
		next.state, next.assigned, next.revoking = unrevoked, keep, revoke
		return next.to(m, epoch)
	}
	next.state, next.revoking = stable, []held{}
	gained := []held{}
	for _, p := range r.target {
		if _, ok := has(keep, p); ok {
			continue
		}
		if r.owner(p) == "" {
			gained = append(gained, held{p, r.targetEpoch})
		} else {
			next.state = unreleased
		}
	}
	next.assigned = append(keep, gained...)
	slices.SortFunc(next.assigned, compareHeld)
	return next.to(m, r.targetEpoch)
}

// to returns m as it is in an epoch, or before if nothing has changed.
func (m *member) to(before *member, epoch int32) *member {
	m.previous, m.epoch = before.epoch, epoch
	if m.epoch == before.epoch && m.previous == before.previous && m.state == before.state &&
		samePartitions(m.assigned, before.assigned) && samePartitions(m.revoking, before.revoking) {
		return before
	}
	return m
}
