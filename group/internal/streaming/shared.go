package streaming

import (
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// shared handles the events that all kinds of groups receive.
func (g *Group) shared(now time.Time, ev classic.Event) {
	if g.StepOffsets(&g.eff, g, g.cfg.Limits, now, ev) {
		return
	}
	if r := classic.Refuse(ev); r.To != 0 || r.Now {
		g.eff.Replies = append(g.eff.Replies, r)
	}
}

// Subscribed reports whether members read a topic. Kafka: StreamsGroup.isSubscribedToTopic.
func (g *Group) Subscribed(topic string) bool {
	return len(g.members) > 0 && g.topology != nil && g.topology.reads[topic] != ""
}

// CheckCommit implements classic.Owner. A commit must have the member's epoch, or an earlier one
// not before the member got the task. Kafka: StreamsGroup.validateOffsetCommit.
func (g *Group) CheckCommit(r *protocol.CommitRequest, _ map[string][16]byte, inTxn bool) (late map[record.TopicPartition]error, err error) {
	switch {
	case r.Generation < 0 && len(g.members) == 0:
		return nil, nil
	case inTxn && r.Generation < 0 && r.MemberID == "" && r.InstanceID == "":
		return nil, nil
	}
	m := g.members[r.MemberID]
	switch {
	case m == nil:
		return nil, protocol.ErrUnknownMember
	case r.NoEpochs && !inTxn:
		return nil, protocol.ErrUnsupportedVersion
	case r.Generation == m.epoch:
		return nil, nil
	case r.Generation > m.epoch || g.topology == nil:
		return nil, protocol.ErrStaleMemberEpoch
	}
	late = make(map[record.TopicPartition]error)
	for tp := range r.Offsets {
		if !g.heldSince(m, tp, r.Generation) {
			late[tp] = protocol.ErrStaleMemberEpoch
		}
	}
	return late, nil
}

// heldSince reports whether a member got the active task that reads a partition in the epoch or
// before, and still has it or has to give it up.
func (g *Group) heldSince(m *member, tp record.TopicPartition, epoch int32) bool {
	id, reads := g.topology.reads[tp.Topic]
	if !reads {
		return false
	}
	t := task{id, tp.Partition}
	h, ok := m.assigned.find(active, t)
	if !ok {
		h, ok = m.revoking.find(active, t)
	}
	return ok && epoch >= h.epoch
}

// Tombstones returns the records that remove the group but not its offsets.
func (g *Group) Tombstones() (out []offsets.Record) {
	if g.epoch == 0 && g.topology == nil {
		return nil
	}
	for _, t := range []offsets.KeyType{offsets.KeyStreamsTarget, offsets.KeyStreamsGroup, offsets.KeyStreamsTopology} {
		out = append(out, offsets.Record{Key: g.key(t, "")})
	}
	return out
}

// Expel implements classic.Owner.
func (g *Group) Expel() bool {
	all := g.inOrder()
	some := g.some(all)
	if len(some) > 0 {
		g.History().Note(protocol.Cause{Kind: protocol.CauseRemoved})
	}
	g.remove(some...)
	return len(some) == len(all)
}

// checkMember replies to a fetch of offsets by a member. Kafka: StreamsGroup.validateOffsetFetch.
func (g *Group) checkMember(e modern.EventCheckMember) {
	m := g.members[e.MemberID]
	switch {
	case e.MemberEpoch < 0 && e.MemberID == "":
		g.reply(e.To, nil, nil)
	case m == nil:
		g.reply(e.To, nil, protocol.ErrUnknownMember)
	case m.epoch != e.MemberEpoch:
		g.reply(e.To, nil, protocol.ErrStaleMemberEpoch)
	default:
		g.reply(e.To, nil, nil)
	}
}
