package modern

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// Downgrade returns the classic group that replaces this one in the present step, because only
// members of the classic protocol are left; nil if none does. The step's records remove the group.
func (g *Group) Downgrade() *classic.Downgrade { return g.down }

// downgrade converts a group with the given members to a classic one in that generation, if all use
// the classic protocol. Kafka: validateOnlineDowngradeWithFencedMember, convertToClassicGroup.
func (g *Group) downgrade(generation int32, members []*member, rebalance bool) bool {
	switch {
	case g.topics == nil: // just loaded: assignments cannot be written by topic name yet
		return false
	case len(members) == 0, !g.cfg.Migration.Downgrade, g.cfg.ClassicMaxSize > 0 && len(members) > g.cfg.ClassicMaxSize,
		slices.ContainsFunc(members, func(m *member) bool { return m.Classic == nil || len(m.Classic.Protocols) == 0 }):
		return false
	}
	d := &classic.Downgrade{Generation: generation, Rebalance: rebalance}
	room := 2*g.cfg.Room() - 4096
	for _, m := range members {
		t := g.transfer(m)
		d.Members = append(d.Members, t)
		room -= bytesOf(t)
	}
	for id := range g.members {
		room -= classic.TombstoneBytes(g.ID(), id)
	}
	if room < 0 {
		return false // it cannot be stored
	}
	g.eff.Records = nil
	for _, m := range g.inOrder() {
		g.removeMember(m.id)
	}
	for _, expr := range slices.Sorted(maps.Keys(g.patterns)) {
		g.emit(offsets.Record{Key: g.key(offsets.KeyRegularExpression, expr)})
	}
	g.eff.Records = append(g.eff.Records, g.Tombstones()...)
	g.down = d
	return true
}

// bytesOf returns an upper estimate of the bytes that a classic group stores of a member.
func bytesOf(t classic.Transfer) int {
	n := len(t.ID) + len(t.InstanceID) + len(t.ClientID) + len(t.ClientHost) + len(t.Assignment) + 64
	for _, p := range t.Protocols {
		n += len(p.Name) + len(p.Metadata)
	}
	return n
}

// transfer converts a member of the classic protocol for a classic group.
func (g *Group) transfer(m *member) classic.Transfer {
	t := classic.Transfer{ID: m.id, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost, Session: m.classicSession(),
		Rebalance: time.Duration(m.RebalanceTimeoutMs) * time.Millisecond, Assignment: g.assignmentData(m)}
	for _, p := range m.Classic.Protocols {
		t.Protocols = append(t.Protocols, assignor.Protocol(p))
	}
	return t
}

// assignmentData encodes the assignment of a member of the classic protocol, in the version of its
// subscription.
func (g *Group) assignmentData(m *member) []byte {
	var tps []record.TopicPartition
	for _, h := range m.assigned {
		if name, ok := g.topics.Name(h.topic); ok {
			tps = append(tps, record.TopicPartition{Topic: name, Partition: h.number})
		}
	}
	data := assignor.Assignment{Partitions: tps}.AppendTo(nil)
	if said := m.Classic.Protocols[0].Metadata; len(said) >= 2 { // all versions have the same fields
		version := binary.BigEndian.Uint16(said)
		binary.BigEndian.PutUint16(data, min(version, binary.BigEndian.Uint16(data)))
	}
	return data
}
