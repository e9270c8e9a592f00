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
func (g *Group) setMember(id string, m *member) { g.roster.Set(g.members, id, m, g.reached) }

// reached reports whether a member has its whole target.
func (g *Group) reached(m *member) bool { return m.reconciledTo(g.assignmentEpoch) }

// settled reports whether each member has its whole target.
func (g *Group) settled() bool { return g.roster.Settled(g.members, g.reached) }

// Phase implements history.Subject.
func (g *Group) Phase() history.Phase {
	return history.OfEpochs(protocol.Streams, g.epoch, g.assignmentEpoch, len(g.members), g.epoch != 0 || !g.None(), g.settled)
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
