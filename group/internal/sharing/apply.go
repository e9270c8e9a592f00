package sharing

import (
	"slices"

	"github.com/stratalog/strata/internal/offsets"
)

// Apply is the only function that changes durable state. It runs for the records of a Step and at
// recovery. Records of other groups are ignored.
func (g *Group) Apply(r offsets.Record) {
	if r.Key.Group != g.ID() {
		return
	}
	switch r.Key.Type {
	case offsets.KeyOffset:
		g.Committed.Apply(r)
	case offsets.KeyShareGroup:
		v, _ := r.Value.(*offsets.ShareGroupValue)
		if v == nil {
			v = &offsets.ShareGroupValue{}
		}
		g.epoch, g.hash = v.Epoch, v.MetadataHash
	case offsets.KeyShareMember:
		v, _ := r.Value.(*offsets.ShareMemberValue)
		g.applyMember(r.Key.Member, v)
	case offsets.KeyShareTarget:
		v, _ := r.Value.(*offsets.TargetAssignmentValue)
		if v == nil {
			v = &offsets.TargetAssignmentValue{}
		}
		g.assignmentEpoch, g.assignedMs = v.AssignmentEpoch, v.TimestampMs
		g.roster.Reset()
	case offsets.KeyShareTargetMember:
		if v, _ := r.Value.(*offsets.TargetAssignmentMemberValue); v != nil {
			g.target[r.Key.Member] = partitionsOf(v.Partitions)
		} else {
			delete(g.target, r.Key.Member)
		}
	case offsets.KeyShareCurrentAssignment:
		v, _ := r.Value.(*offsets.ShareCurrentAssignmentValue)
		g.applyAssignment(r.Key.Member, v)
	case offsets.KeyShareStates:
		v, _ := r.Value.(*offsets.ShareStatesValue)
		g.applyStates(v)
	}
}

// applyMember applies the record of a member; nil: a tombstone, which removes the member.
func (g *Group) applyMember(id string, v *offsets.ShareMemberValue) {
	if v == nil {
		g.setMember(id, nil)
		delete(g.sessions, id)
		return
	}
	m := &member{id: id}
	if old := g.members[id]; old != nil {
		*m = *old
	}
	m.ShareMemberValue = *v
	m.Topics = slices.Compact(slices.Sorted(slices.Values(v.Topics)))
	g.setMember(id, m)
}

// applyAssignment applies a member's current assignment; nil: a tombstone. In a compacted log it
// may come before the record of the member: a later subscription replaced that record.
func (g *Group) applyAssignment(id string, v *offsets.ShareCurrentAssignmentValue) {
	old := g.members[id]
	switch {
	case old == nil && v == nil:
		return
	case old == nil:
		old = &member{id: id}
	}
	if v == nil {
		v = &offsets.ShareCurrentAssignmentValue{}
	}
	m := *old
	m.epoch, m.previous, m.assigned = v.MemberEpoch, v.PreviousMemberEpoch, partitionsOf(v.Assigned)
	g.setMember(id, &m)
}

// applyStates applies the list of partitions with initialised state; nil: a tombstone.
func (g *Group) applyStates(v *offsets.ShareStatesValue) {
	g.states = states{}
	if v != nil {
		g.states, _ = g.states.with(v.Initialized)
	}
}
