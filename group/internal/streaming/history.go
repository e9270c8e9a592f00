package streaming

import (
	"github.com/stratalog/strata/group/internal/history"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/record"
)

// note adds a cause of a new epoch to the history of the group.
func (g *Group) note(c protocol.Cause, m *member) {
	c.Member, c.InstanceID, c.ClientID = m.id, m.InstanceID, m.ClientID
	g.History().Note(c)
}

// setMember replaces a member; nil removes it.
func (g *Group) setMember(id string, m *member) {
	if g.behind >= 0 {
		if old := g.members[id]; old != nil && !g.reached(old) {
			g.behind--
		}
		if m != nil && !g.reached(m) {
			g.behind++
		}
	}
	if m == nil {
		delete(g.members, id)
	} else {
		g.members[id] = m
	}
}

// reached reports whether a member has its whole target.
func (g *Group) reached(m *member) bool { return m.reconciledTo(g.assignmentEpoch) }

// settled reports whether each member has its whole target.
func (g *Group) settled() bool {
	if g.behind < 0 {
		g.behind = 0
		for _, m := range g.members {
			if !g.reached(m) {
				g.behind++
			}
		}
	}
	return g.behind == 0
}

// Phase implements history.Subject.
func (g *Group) Phase() history.Phase {
	p := history.Phase{Type: protocol.Streams, Generation: g.epoch, Joined: g.assignmentEpoch, Size: len(g.members)}
	switch {
	case len(g.members) == 0 && g.epoch == 0 && g.None():
		p.Stage = history.None
	case len(g.members) == 0:
		p.Stage = history.Empty
	case g.epoch > g.assignmentEpoch:
		p.Stage = history.Joining
	case !g.settled():
		p.Stage = history.Joined
	default:
		p.Stage = history.Assigned
	}
	return p
}

// DescribeEvent implements history.Subject.
func (g *Group) DescribeEvent(e *protocol.Event) {
	e.Assignor = AssignorName
}

// Owners implements history.Subject. A member has the partitions that its
// active tasks read.
func (g *Group) Owners() history.Owners {
	return func(yield func(protocol.MemberInfo, []record.TopicPartition) bool) {
		for _, m := range g.inOrder() {
			var tps []record.TopicPartition
			if g.topology != nil {
				for _, t := range g.reads(plain(m.assigned[active])) {
					name, _ := g.topics.Name(t.TopicID)
					for _, p := range t.Partitions {
						tps = append(tps, record.TopicPartition{Topic: name, Partition: p})
					}
				}
			}
			if !yield(protocol.MemberInfo{ID: m.id, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost}, tps) {
				return
			}
		}
	}
}
