package streaming

import "github.com/stratalog/strata/internal/offsets"

// Apply is the only function that changes durable state. Accept calls it for the records that a
// Step emitted, and recovery for the records of the log. Records of other groups change nothing.
func (g *Group) Apply(r offsets.Record) {
	if r.Key.Group != g.ID() {
		return
	}
	switch r.Key.Type {
	case offsets.KeyOffset:
		g.Committed.Apply(r)
	case offsets.KeyStreamsGroup:
		v, _ := r.Value.(*offsets.StreamsGroupValue)
		if v == nil {
			v = &offsets.StreamsGroupValue{}
		}
		g.epoch, g.hash, g.validated, g.configs = v.Epoch, v.MetadataHash, v.ValidatedTopology, v.AssignmentConfigs
	case offsets.KeyStreamsTopology:
		v, _ := r.Value.(*offsets.StreamsTopologyValue)
		g.applyTopology(v)
	case offsets.KeyStreamsMember:
		v, _ := r.Value.(*offsets.StreamsMemberValue)
		g.applyMember(r.Key.Member, v)
	case offsets.KeyStreamsTarget:
		g.assignmentEpoch, g.assignedMs = initialEpoch, 0
		g.roster.Reset()
		if v, _ := r.Value.(*offsets.TargetAssignmentValue); v != nil {
			g.assignmentEpoch, g.assignedMs = v.AssignmentEpoch, v.TimestampMs
			g.roster.Reset()
		}
	case offsets.KeyStreamsTargetMember:
		if v, _ := r.Value.(*offsets.StreamsTargetMemberValue); v != nil {
			t := targetOf(&v.StreamsTaskRoles)
			g.target[r.Key.Member] = &t
		} else {
			delete(g.target, r.Key.Member)
		}
	case offsets.KeyStreamsCurrentAssignment:
		v, _ := r.Value.(*offsets.StreamsCurrentAssignmentValue)
		g.applyAssignment(r.Key.Member, v)
	}
}

// applyTopology applies the application's topology; nil removes it. It drops the configured state
// of the previous topology.
func (g *Group) applyTopology(v *offsets.StreamsTopologyValue) {
	g.topology, g.configured, g.checked = nil, nil, -1
	if v != nil {
		g.topology = newTopology(v)
	}
}

// applyMember applies a member's record; nil removes the member. With the last member, a request to
// stop all members is dropped.
func (g *Group) applyMember(id string, v *offsets.StreamsMemberValue) {
	if v == nil {
		g.setMember(id, nil)
		delete(g.sessions, id)
		delete(g.revokes, id)
		if len(g.members) == 0 {
			g.stopper = ""
		}
		return
	}
	m := newMember(id)
	if old := g.members[id]; old != nil {
		*m = *old
	}
	m.StreamsMemberValue = *v
	g.setMember(id, m)
}

// applyAssignment applies a member's current assignment; nil removes it. In a compacted log this
// record may come before the member's own record, whose earlier version was removed.
func (g *Group) applyAssignment(id string, v *offsets.StreamsCurrentAssignmentValue) {
	old := g.members[id]
	switch {
	case old == nil && v == nil:
		return
	case old == nil:
		old = newMember(id)
	}
	if v == nil {
		v = &offsets.StreamsCurrentAssignmentValue{}
	}
	m := *old
	m.epoch, m.previous, m.state = v.MemberEpoch, v.PreviousMemberEpoch, memberState(v.State)
	m.assigned, m.revoking = assignmentOf(&v.Assigned, v.MemberEpoch), assignmentOf(&v.PendingRevocation, v.MemberEpoch)
	g.setMember(id, &m)
	if m.state != unrevoked {
		delete(g.revokes, id)
	}
}
