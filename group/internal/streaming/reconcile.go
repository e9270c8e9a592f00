package streaming

import (
	"slices"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/protocol"
)

// A reconciliation brings a member nearer to its target. Kafka: streams.CurrentAssignmentBuilder.
type reconciliation struct {
	target  *target
	epoch   int32   // of target
	owned   *target // as sent by the member; nil if it has sent none
	holders holders
}

// holders are the tasks that cannot be given to a member yet.
type holders struct {
	active map[task]bool // active at a member of the group, or to be revoked there
	here   map[task]bool // in any role at a member of the same process, or to be revoked there
}

// holders returns the tasks that a member of the process cannot get yet.
func (g *Group) holders(process string) holders {
	h := holders{active: make(map[task]bool), here: make(map[task]bool)}
	for _, m := range g.members {
		for _, a := range []*assignment{&m.assigned, &m.revoking} {
			for r := range a {
				for _, t := range a[r] {
					if role(r) == active {
						h.active[t.task] = true
					}
					if m.ProcessID == process {
						h.here[t.task] = true
					}
				}
			}
		}
	}
	return h
}

// unreleased reports whether another member has to release a task before a member gets it in a
// role.
func (h *holders) unreleased(r role, t task) bool { return h.here[t] || r == active && h.active[t] }

// next returns the next state of m: m itself if nothing changes.
func (r *reconciliation) next(m *member) (*member, error) {
	switch m.state {
	case stable:
		if m.epoch == r.epoch {
			return m, nil
		}
		return r.advance(m, m.epoch), nil
	case unrevoked:
		if r.owned == nil || r.owned.anyOf(&m.revoking) {
			return m, nil
		}
		return r.advance(m, m.epoch+1), nil
	case unreleased:
		return r.advance(m, m.epoch), nil
	}
	// a state of a later version of Kafka: the member starts again
	if r.owned == nil || !r.owned.equal(&target{}) {
		return nil, classic.Says(protocol.ErrFencedMemberEpoch, "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.")
	}
	return r.advance(m, r.epoch), nil
}

// advance assigns the available tasks of its target to m. If m has to revoke tasks first, it stays
// in its epoch.
func (r *reconciliation) advance(m *member, epoch int32) *member {
	var kept, added, revoked assignment
	waits := false
	for i := range r.target {
		w := r.difference(role(i), m, &kept, &added, &revoked)
		waits = waits || w
	}
	next := *m
	next.previous = m.epoch
	if !revoked.empty() && (r.owned == nil || r.owned.anyOf(&revoked)) {
		next.state, next.epoch, next.assigned, next.revoking = unrevoked, epoch, kept, revoked
		return &next
	}
	for i := range kept {
		kept[i] = append(kept[i], added[i]...)
		slices.SortFunc(kept[i], func(a, b held) int { return compareTasks(a.task, b.task) })
	}
	next.state, next.epoch, next.assigned, next.revoking = stable, r.epoch, kept, assignment{}
	if waits {
		next.state = unreleased
	}
	return &next
}

// difference splits m's tasks in a role into those to keep and to revoke, and finds tasks to add.
// It reports whether more will follow.
func (r *reconciliation) difference(i role, m *member, kept, added, revoked *assignment) (waits bool) {
	for _, h := range m.assigned[i] {
		if contains(r.target[i], h.task) {
			kept[i] = append(kept[i], h)
		} else {
			revoked[i] = append(revoked[i], h)
		}
	}
	for _, t := range r.target[i] {
		if _, has := m.assigned.find(i, t); has {
			continue
		}
		if r.holders.unreleased(i, t) {
			waits = true
			continue
		}
		h := held{task: t}
		if i == active {
			h.epoch = r.epoch
		}
		added[i] = append(added[i], h)
	}
	return waits
}

// heldSince returns m with active tasks that it has had since epoch.
func (m *member) heldSince(epoch int32) *member {
	next := *m
	for _, a := range []*assignment{&next.assigned, &next.revoking} {
		a[active] = slices.Clone(a[active])
		for i := range a[active] {
			a[active][i].epoch = epoch
		}
	}
	return &next
}
