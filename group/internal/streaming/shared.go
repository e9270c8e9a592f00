package streaming

import (
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/group/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

// shared steps the events that are not of this protocol alone.
func (g *Group) shared(now time.Time, ev classic.Event) {
	switch e := ev.(type) {
	case classic.EventCommit:
		g.commit(now, e.CommitRequest, e.TopicIDs, e.To, nil)
	case classic.EventTxnCommit:
		g.commit(now, &e.CommitRequest, e.TopicIDs, e.To, &machine.Producer{ID: e.ProducerID, Epoch: e.ProducerEpoch})
	case classic.EventDelete:
		g.delete(e)
	case classic.EventDeleteOffsets:
		records, errs := g.RemoveThese(g.eff.Records, e.Partitions, g.subscribed)
		g.eff.Records = records
		g.reply(e.To, errs, nil)
	case classic.EventTopicDeleted:
		g.eff.Separable = true
		g.eff.Records = g.Remove(g.eff.Records, func(tp record.TopicPartition) bool { return tp.Topic == e.Topic && g.OfTopic(tp, e.ID) })
	case classic.EventExpire:
		g.expire(now)
	case classic.EventReset:
		g.reset(now, e)
	default:
		if r := classic.Refuse(ev); r.To != 0 || r.Now {
			g.eff.Replies = append(g.eff.Replies, r)
		}
	}
}

// subscribed reports whether members read a topic. Kafka: StreamsGroup.isSubscribedToTopic.
func (g *Group) subscribed(topic string) bool {
	return len(g.members) > 0 && g.topology != nil && g.topology.reads[topic] != ""
}

// commit stores offsets of a member in its epoch, or in one since it got the task.
func (g *Group) commit(now time.Time, r *protocol.CommitRequest, ids map[string][16]byte, to machine.Ticket, in *machine.Producer) {
	late, err := g.checkCommit(r, in != nil)
	if err != nil {
		g.reply(to, nil, err)
		return
	}
	records, errs := g.CommitBut(late, g.eff.Records, r, ids, g.cfg.OffsetMetadataMax, now)
	if g.eff.Records = records; len(records) > 0 {
		g.eff.Producer = in
	}
	g.reply(to, errs, nil)
}

// checkCommit decides on a commit, and on which of its partitions it comes too late for. Kafka:
// StreamsGroup.validateOffsetCommit.
func (g *Group) checkCommit(r *protocol.CommitRequest, inTxn bool) (late map[record.TopicPartition]error, err error) {
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

// heldSince reports whether a member has the active task that reads a partition since an epoch, or
// has to give it up.
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

func (g *Group) delete(e classic.EventDelete) {
	switch {
	case len(g.members) > 0:
		g.reply(e.To, nil, protocol.ErrNonEmptyGroup)
	case g.Forgotten():
		g.reply(e.To, nil, protocol.ErrGroupNotFound)
	default:
		g.eff.Separable = true
		g.eff.Records = append(g.Remove(g.eff.Records, func(record.TopicPartition) bool { return true }), g.Tombstones()...)
		g.reply(e.To, nil, nil)
	}
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

// expire removes offsets that nobody will ask for any more, and the group if it has no members and
// no offsets. They age from their commit on, as in Kafka.
func (g *Group) expire(now time.Time) {
	g.eff.Separable = true
	records, left := g.RemoveExpired(g.eff.Records, g.cfg.OffsetsRetention, now, g.subscribed)
	g.eff.Records = records
	if len(g.members) == 0 && left == 0 && (g.None() || len(g.UnstableOffsets()) == 0) {
		g.eff.Records = append(g.eff.Records, g.Tombstones()...)
	}
}

// reset moves the group's offsets, in one batch with the end of all members if it has some: see
// classic.EventReset.
func (g *Group) reset(now time.Time, e classic.EventReset) {
	if len(g.members) > 0 && !e.Expel {
		g.reply(e.To, nil, protocol.ErrNonEmptyGroup)
		return
	}
	g.remove(g.inOrder()...)
	records, to := e.Moves(g.eff.Records, g.Committed, now)
	g.eff.Records = records
	g.reply(e.To, to, nil)
}

// checkMember answers who asks for offsets as a member. Kafka: StreamsGroup.validateOffsetFetch.
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
