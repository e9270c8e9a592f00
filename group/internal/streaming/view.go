package streaming

import (
	"maps"
	"slices"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
)

// View describes the group in the terms of a classic one: a member has the partitions that its
// active tasks read.
func (g *Group) View() classic.View {
	v := classic.View{ID: g.ID(), Type: protocol.Streams, State: g.State(), ProtocolType: protocol.ProtocolTypeStreams, Protocol: AssignorName, Generation: g.epoch}
	for _, m := range g.inOrder() {
		mv := classic.MemberView{ID: m.id, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost}
		if g.topology != nil {
			mv.Topics = slices.Sorted(maps.Keys(g.topology.reads))
			mv.Assigned = g.reads(plain(m.assigned[active]))
		}
		v.Members = append(v.Members, mv)
	}
	return v
}

// reads returns the partitions that tasks read, as far as the topics are known.
func (g *Group) reads(tasks []task) (out []offsets.TopicIDPartitions) {
	if g.topics == nil {
		return nil
	}
	for _, p := range partitionsOf(g.topology, group(tasks), func(topic string) int32 { return g.topics.ByName[topic].Partitions }) {
		if t, ok := g.topics.ByName[p.Topic]; ok && len(p.Partitions) > 0 {
			out = append(out, offsets.TopicIDPartitions{TopicID: t.ID, Partitions: p.Partitions})
		}
	}
	return out
}

// Describe returns the description of the group.
func (g *Group) Describe() protocol.StreamsDescription {
	d := protocol.StreamsDescription{State: g.State(), GroupEpoch: g.epoch, AssignmentEpoch: g.assignmentEpoch}
	if g.topology != nil {
		d.Topology = g.topology.described(g.configured)
	}
	for _, m := range g.inOrder() {
		md := protocol.StreamsMemberDescription{ID: m.id, StreamsMemberValue: m.StreamsMemberValue, Epoch: m.epoch, Assigned: m.assigned.told()}
		t := g.target[m.id]
		if t == nil {
			t = &target{}
		}
		md.Target = t.record()
		d.Members = append(d.Members, md)
	}
	return d
}
