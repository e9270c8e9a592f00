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
	p := history.Phase{Type: protocol.Consumer, Generation: g.epoch, Joined: g.assignmentEpoch, Size: len(g.members)}
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
