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

	// unsubscribed reports whether a partition is of a topic that the member does not subscribe to.
	// nil: the target is as new as the subscription.
	unsubscribed func(partition) bool
}

// next returns what becomes of m: m itself if nothing does.
func (r *reconciliation) next(m *member) *member {
	switch m.state {
	case stable:
		if m.epoch == r.targetEpoch {
			return r.shed(m)
		}
		return r.advance(m, m.epoch)
	case unrevoked:
		if r.stillHas(m.revoking) {
			return r.shed(m)
		}
		// It has given up what it had to. The target may be another one by now.
		return r.advance(m, min(m.epoch+1, r.targetEpoch))
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

// shed has m give up what it does not subscribe to any more, also before there is a target that
// says so. Kafka: CurrentAssignmentBuilder.updateCurrentAssignment.
func (r *reconciliation) shed(m *member) *member {
	if r.unsubscribed == nil {
		return m
	}
	keep, revoke := []held{}, slices.Clone(m.revoking)
	for _, h := range m.assigned {
		if r.unsubscribed(h.partition) {
			revoke = append(revoke, h)
		} else {
			keep = append(keep, h)
		}
	}
	if len(keep) == len(m.assigned) {
		return m
	}
	next := *m
	next.assigned = keep
	if slices.SortFunc(revoke, compareHeld); r.stillHas(revoke) {
		next.state, next.revoking = unrevoked, revoke
	}
	return next.to(m, m.epoch)
}

// wanted returns what of the target the member subscribes to.
func (r *reconciliation) wanted() []partition {
	if r.unsubscribed == nil {
		return r.target
	}
	return slices.DeleteFunc(slices.Clone(r.target), r.unsubscribed)
}

// advance compares what m has with the target. epoch is that of m while it has something to give
// up.
func (r *reconciliation) advance(m *member, epoch int32) *member {
	target := r.wanted()
	keep, revoke := []held{}, []held{}
	for _, h := range m.assigned {
		if contains(target, h.partition) {
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
	for _, p := range target {
		if _, ok := has(keep, p); ok {
			continue
		}
		// What m had to give up, and has, may be meant for it again.
		if id := r.owner(p); id == "" || id == m.id {
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
