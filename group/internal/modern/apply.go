package modern

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
	case offsets.KeyConsumerGroup:
		v, _ := r.Value.(*offsets.ConsumerGroupValue)
		if v == nil {
			v = &offsets.ConsumerGroupValue{}
		}
		g.epoch, g.hash = v.Epoch, v.MetadataHash
	case offsets.KeyConsumerMember:
		v, _ := r.Value.(*offsets.ConsumerMemberValue)
		g.subscribe(r.Key.Member, v)
	case offsets.KeyTargetAssignment:
		v, _ := r.Value.(*offsets.TargetAssignmentValue)
		if v == nil {
			v = &offsets.TargetAssignmentValue{}
		}
		g.assignmentEpoch, g.assignedMs = v.AssignmentEpoch, v.TimestampMs
		g.roster.Reset()
	case offsets.KeyTargetAssignmentMember:
		if v, _ := r.Value.(*offsets.TargetAssignmentMemberValue); v != nil {
			g.target[r.Key.Member] = partitionsOf(v.Partitions)
		} else {
			delete(g.target, r.Key.Member)
		}
	case offsets.KeyCurrentAssignmentOfMember:
		v, _ := r.Value.(*offsets.CurrentAssignmentValue)
		g.assign(r.Key.Member, v)
	case offsets.KeyRegularExpression:
		if v, _ := r.Value.(*offsets.RegexValue); v != nil {
			g.patterns[r.Key.Member] = &pattern{topics: slices.Sorted(slices.Values(v.Topics)), version: v.Version, ms: v.TimestampMs}
		} else {
			delete(g.patterns, r.Key.Member)
		}
	}
}

// subscribe applies a member's record; nil removes the member.
func (g *Group) subscribe(id string, v *offsets.ConsumerMemberValue) {
	old := g.members[id]
	if old != nil {
		g.count(&old.subscription, -1)
		if g.static[old.InstanceID] == id {
			delete(g.static, old.InstanceID)
		}
	}
	if v == nil {
		if old != nil {
			g.disown(old)
		}
		g.setMember(id, nil)
		delete(g.sessions, id)
		delete(g.revokes, id)
		delete(g.joins, id)
		delete(g.syncs, id)
		return
	}
	m := &member{id: id, assigned: []held{}, revoking: []held{}}
	if old != nil {
		*m = *old
	}
	m.subscription = subscription(*v)
	m.Topics = append([]string{}, v.Topics...)
	slices.Sort(m.Topics)
	m.Topics = slices.Compact(m.Topics)
	g.count(&m.subscription, 1)
	if m.InstanceID != "" {
		g.static[m.InstanceID] = id
	}
	g.setMember(id, m)
}

// count adds n to the number of members with the topics and regular expression of s.
func (g *Group) count(s *subscription, n int) {
	add := func(to map[string]int, name string) {
		if to[name] += n; to[name] == 0 {
			delete(to, name)
		}
	}
	for _, t := range s.Topics {
		add(g.names, t)
	}
	if s.Regex != "" {
		add(g.users, s.Regex)
	}
}

// assign applies a member's current assignment; nil: none. It may come before the record of the
// member itself: compaction keeps the last record of each key, and a member that changes its
// subscription keeps its assignment. Kafka: GroupMetadataManager.replay, getOrMaybeCreateMember.
func (g *Group) assign(id string, v *offsets.CurrentAssignmentValue) {
	old := g.members[id]
	switch {
	case old == nil && v == nil:
		return
	case old == nil:
		old = &member{id: id}
	}
	g.disown(old)
	m := *old
	if v == nil {
		m.epoch, m.previous, m.state, m.assigned, m.revoking = 0, 0, stable, []held{}, []held{}
	} else {
		m.epoch, m.previous, m.state = v.MemberEpoch, v.PreviousMemberEpoch, memberState(v.State)
		m.assigned, m.revoking = nonNil(heldOf(v.Assigned, v.MemberEpoch)), nonNil(heldOf(v.PendingRevocation, v.MemberEpoch))
	}
	g.setMember(id, &m)
	for _, h := range m.assigned {
		g.owner[h.partition] = id
	}
	for _, h := range m.revoking {
		g.owner[h.partition] = id
	}
	if m.state != unrevoked {
		delete(g.revokes, id)
	}
}

func nonNil(hs []held) []held {
	if hs == nil {
		return []held{}
	}
	return hs
}

// disown removes m as the owner of its partitions.
func (g *Group) disown(m *member) {
	for _, hs := range [][]held{m.assigned, m.revoking} {
		for _, h := range hs {
			if g.owner[h.partition] == m.id {
				delete(g.owner, h.partition)
			}
		}
	}
}
