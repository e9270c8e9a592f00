package modern

import (
	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/protocol"
)

// View describes the group in the terms of a classic one.
func (g *Group) View() classic.View {
	v := classic.View{ID: g.ID(), Type: protocol.Consumer, State: g.State(), ProtocolType: protocol.ProtocolTypeConsumer, Protocol: g.assignorName(), Generation: g.epoch}
	c := &change{g: g}
	for _, m := range g.inOrder() {
		v.Members = append(v.Members, classic.MemberView{ID: m.id, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost,
			Topics: c.topicsOf(m), Assigned: byTopic(plain(m.assigned))})
	}
	return v
}

func (g *Group) assignorName() string { return (&change{g: g}).assignor(g.inOrder()).Name() }

// Describe returns the description of the group and its members.
func (g *Group) Describe() protocol.ConsumerDescription {
	d := protocol.ConsumerDescription{State: g.State(), GroupEpoch: g.epoch, AssignmentEpoch: g.assignmentEpoch, Assignor: g.assignorName()}
	for _, m := range g.inOrder() {
		d.Members = append(d.Members, protocol.ConsumerMemberDescription{
			ID: m.id, InstanceID: m.InstanceID, RackID: m.RackID, ClientID: m.ClientID, ClientHost: m.ClientHost,
			Epoch: m.epoch, Topics: m.Topics, Regex: m.Regex, Assigned: byTopic(plain(m.assigned)), Target: byTopic(g.target[m.id]),
			Classic: m.Classic != nil,
		})
	}
	return d
}
