package classic

import (
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// A View is the description of a group, without its offsets.
type View struct {
	ID           string
	Type         protocol.GroupType
	State        protocol.State
	ProtocolType string
	Protocol     string
	Generation   int32
	Leader       string
	Members      []MemberView // in the order they joined
}

// A MemberView is a member in a View. The bytes are read-only.
type MemberView struct {
	ID, InstanceID       string
	ClientID, ClientHost string
	Topics               []string                // consumer groups only
	Assignment           []record.TopicPartition // consumer groups that are Stable only

	// Assigned is used instead of Assignment by kinds of groups that name topics by id.
	Assigned []offsets.TopicIDPartitions

	SubscriptionData, AssignmentData []byte // nil unless the group is Stable
}

// View describes the group.
func (g *Group) View() View {
	v := View{ID: g.id, Type: protocol.Classic, State: g.state, ProtocolType: g.protocolType, Protocol: g.protocol, Generation: g.generation, Leader: g.leader}
	for _, m := range g.inOrder() {
		v.Members = append(v.Members, g.viewMember(m))
	}
	return v
}

func (g *Group) viewMember(m *member) MemberView {
	v := MemberView{ID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost}
	if g.state == protocol.Stable {
		v.SubscriptionData, v.AssignmentData = m.metadata(g.protocol), m.assignment
	}
	if g.protocolType != protocol.ProtocolTypeConsumer {
		return v
	}
	v.Topics = g.topicsOf(m)
	if a, err := assignor.ParseAssignment(m.assignment); err == nil && g.state == protocol.Stable {
		v.Assignment = a.Partitions
	}
	return v
}

// topicsOf returns the topics that a member of a consumer group subscribes to. It reads them from
// the subscription for the group's protocol, or else from the member's first readable one. During
// a rebalance no protocol is chosen yet. A custom assignor's subscription need not have Kafka's
// format.
func (g *Group) topicsOf(m *member) []string {
	if g.state != protocol.PreparingRebalance {
		if s, err := assignor.ParseSubscription(m.metadata(g.protocol)); err == nil {
			return s.Topics
		}
	}
	for _, p := range m.protocols {
		if s, err := assignor.ParseSubscription(p.Metadata); err == nil {
			return s.Topics
		}
	}
	return nil
}
