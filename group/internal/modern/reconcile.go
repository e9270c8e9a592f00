package modern

import "slices"

// A reconciliation moves a member towards its target. Kafka: CurrentAssignmentBuilder.
type reconciliation struct {
	target      []partition // sorted
	targetEpoch int32
	owned       []partition                 // sorted; as sent by the member
	told        bool                        // whether the member has sent owned
	again       bool                        // a member joins again: it dropped its partitions
	owner       func(partition) (id string) // "" if the partition is free

	// unsubscribed reports whether the member does not subscribe to a partition's topic. It is nil
	// if the target is as new as the subscription.
	unsubscribed func(partition) bool
}

// next returns the next state of m: m itself if nothing changes.
func (r *reconciliation) next(m *member) *member {
	next := r.step(m)
	if r.again {
		return next.heldSince(next.epoch)
	}
	return next
}

func (r *reconciliation) step(m *member) *member {
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
		// It has revoked all. The target may have changed meanwhile.
		return r.advance(m, min(m.epoch+1, r.targetEpoch))
	case unreleased:
		return r.advance(m, m.epoch)
	}
	return r.advance(m, r.targetEpoch) // a state of a later version
}

// stillHas reports whether the member may still own some of hs.
func (r *reconciliation) stillHas(hs []held) bool {
	if !r.told {
		return true
	}
	return slices.ContainsFunc(r.owned, func(p partition) bool { _, ok := has(hs, p); return ok })
}

// shed revokes partitions of topics that m no longer subscribes to, even before there is a target
// without them. Kafka: CurrentAssignmentBuilder.updateCurrentAssignment.
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

// wanted returns the partitions of the target that the member subscribes to.
func (r *reconciliation) wanted() []partition {
	if r.unsubscribed == nil {
		return r.target
	}
	return slices.DeleteFunc(slices.Clone(r.target), r.unsubscribed)
}

// advance moves m towards the target. epoch is its epoch if it has to revoke partitions first.
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
		// The target may include a partition again that m had to revoke and still owns.
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

// heldSince returns m with the epochs of its partitions raised to epoch: m itself if none changes.
func (m *member) heldSince(epoch int32) *member {
	older := func(h held) bool { return h.epoch < epoch }
	if !slices.ContainsFunc(m.assigned, older) && !slices.ContainsFunc(m.revoking, older) {
		return m
	}
	next := *m
	next.assigned, next.revoking = slices.Clone(m.assigned), slices.Clone(m.revoking)
	for _, hs := range [][]held{next.assigned, next.revoking} {
		for i := range hs {
			hs[i].epoch = epoch
		}
	}
	return &next
}

// to returns m in the given epoch, or before if nothing has changed.
func (m *member) to(before *member, epoch int32) *member {
	m.previous, m.epoch = before.epoch, epoch
	if m.epoch == before.epoch && m.previous == before.previous && m.state == before.state &&
		samePartitions(m.assigned, before.assigned) && samePartitions(m.revoking, before.revoking) {
		return before
	}
	return m
}
