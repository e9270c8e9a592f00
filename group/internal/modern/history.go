package modern

import (
	"slices"

	"github.com/stratalog/strata/group/internal/history"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/record"
)

// note adds a cause of a new epoch to the history of the group.
func (g *Group) note(c protocol.Cause, m *member) {
	c.Member, c.InstanceID, c.ClientID = m.id, m.InstanceID, m.ClientID
	g.History().Note(c)
}

// noteTopics adds the changes of the group's topics since the last comparison. names are the topics
// that exist, sorted.
func (g *Group) noteTopics(names []string) {
	g.topics.NoteChanges(g.compared, g.Subscribed, names, g.History())
}

// NoteChanges adds the differences between the topics before and t to the history of a group that
// uses the topics for which used returns true. names are the topics of t that it uses, sorted.
func (t *Topics) NoteChanges(before *Topics, used func(string) bool, names []string, h *history.History) {
	if before == nil || t == nil {
		h.Note(protocol.Cause{Kind: protocol.CauseTopics})
		return
	}
	var deleted []string
	for name, old := range before.ByName {
		if t.ByName[name].ID != old.ID && used(name) {
			deleted = append(deleted, name)
		}
	}
	slices.Sort(deleted)
	for _, name := range deleted {
		h.Note(protocol.Cause{Kind: protocol.CauseTopicDeleted, Topic: name})
	}
	for _, name := range names {
		now, is := t.ByName[name]
		switch old, was := before.ByName[name]; {
		case !is:
		case !was || old.ID != now.ID:
			h.Note(protocol.Cause{Kind: protocol.CauseTopicCreated, Topic: name})
		case old.Partitions < now.Partitions:
			h.Note(protocol.Cause{Kind: protocol.CauseTopicGrew, Topic: name})
		}
	}
	if !h.Pending() {
		h.Note(protocol.Cause{Kind: protocol.CauseTopics})
	}
}

// setMember replaces a member; nil removes it.
func (g *Group) setMember(id string, m *member) { g.roster.Set(g.members, id, m, g.reached) }

// reached reports whether a member has its whole target.
func (g *Group) reached(m *member) bool { return m.reconciledTo(g.assignmentEpoch) }

// settled reports whether each member has its whole target.
func (g *Group) settled() bool { return g.roster.Settled(g.members, g.reached) }

// Phase implements history.Subject.
func (g *Group) Phase() history.Phase {
	return history.OfEpochs(protocol.Consumer, g.epoch, g.assignmentEpoch, len(g.members), g.epoch != 0 || !g.None(), g.settled)
}

// DescribeEvent implements history.Subject.
func (g *Group) DescribeEvent(e *protocol.Event) {
	if len(g.members) > 0 {
		e.Assignor = g.assignorName()
	}
}

// Owners implements history.Subject.
func (g *Group) Owners() history.Owners {
	return func(yield func(protocol.MemberInfo, []record.TopicPartition) bool) {
		for _, m := range g.inOrder() {
			var tps []record.TopicPartition
			for _, h := range m.assigned {
				if name, ok := g.topics.Name(h.topic); ok {
					tps = append(tps, record.TopicPartition{Topic: name, Partition: h.number})
				}
			}
			if !yield(protocol.MemberInfo{ID: m.id, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost}, tps) {
				return
			}
		}
	}
}
