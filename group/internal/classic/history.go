package classic

import (
	"slices"
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/history"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/record"
)

// note adds a cause of a rebalance to the history of the group.
func (g *Group) note(k protocol.CauseKind, m *member, after time.Duration, reason string) {
	g.history.Note(protocol.Cause{Kind: k, Member: m.id, InstanceID: m.instanceID, ClientID: m.clientID, After: after, Reason: reason})
}

// noteRemoval adds a cause for the removal of the group, which removes no group with members.
func (g *Group) noteRemoval(c protocol.Cause) {
	if g.state == protocol.Empty {
		g.history.Note(c)
	}
}

// Phase implements history.Subject.
func (g *Group) Phase() history.Phase {
	p := history.Phase{Type: protocol.Classic, Generation: g.generation, Joined: g.generation, Size: len(g.members)}
	switch g.state {
	case protocol.Empty:
		p.Stage = history.Empty
	case protocol.PreparingRebalance:
		p.Stage = history.Joining
	case protocol.CompletingRebalance:
		p.Stage = history.Joined
	case protocol.Stable:
		p.Stage = history.Assigned
	}
	return p
}

// DescribeEvent implements history.Subject.
func (g *Group) DescribeEvent(e *protocol.Event) { e.Assignor = g.protocol }

// Owners implements history.Subject. Members of other protocol types than "consumer" have no
// partitions.
func (g *Group) Owners() history.Owners {
	return func(yield func(protocol.MemberInfo, []record.TopicPartition) bool) {
		for _, m := range g.inOrder() {
			var share assignor.Assignment
			if g.protocolType == protocol.ProtocolTypeConsumer {
				share, _ = assignor.ParseAssignment(m.assignment)
			}
			if !yield(protocol.MemberInfo{ID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost}, share.Partitions) {
				return
			}
		}
	}
}

// causeOfRejoin returns why m, which is a member, joins a group whose members have joined already.
// m has its former protocols.
func (e EventJoin) causeOfRejoin(g *Group, m *member) protocol.CauseKind {
	switch {
	case m.sameProtocols(e.Protocols):
		return protocol.CauseRejoined
	case m.owesJoin(g.protocol):
		return protocol.CauseGaveUp
	}
	before, err := assignor.ParseSubscription(m.metadata(g.protocol))
	for _, p := range e.Protocols {
		if p.Name != g.protocol || err != nil {
			continue
		}
		after, err := assignor.ParseSubscription(p.Metadata)
		switch {
		case err != nil:
		case !sameTopics(before.Topics, after.Topics):
			return protocol.CauseSubscription
		case before.Rack == after.Rack && (ownsData[p.Name] || string(before.UserData) == string(after.UserData)):
			return protocol.CauseRejoined // with other partitions
		}
	}
	return protocol.CauseMetadata
}

// ownsData has the assignors whose data in a subscription are the partitions of the member.
var ownsData = map[string]bool{assignor.Sticky().Name(): true, assignor.CooperativeSticky().Name(): true}

func sameTopics(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
