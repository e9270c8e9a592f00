package modern

import (
	"time"

	"github.com/stratalog/strata/group/internal/classic"
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
	case classic.EventHeartbeat:
		g.eff.Replies = append(g.eff.Replies, machine.Reply{To: e.To, Err: g.classicHeartbeat(now, e), Now: true})
	case classic.EventLeave:
		g.reply(e.To, g.leaveAll(e.Members), nil)
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

// commit stores offsets of a member in its epoch, or in one since it got the partition (KIP-1251).
// Kafka: ConsumerGroup.validateOffsetCommit.
func (g *Group) commit(now time.Time, r *protocol.CommitRequest, ids map[string][16]byte, to machine.Ticket, in *machine.Producer) {
	stale, err := g.checkCommit(r, ids, in != nil)
	if err != nil {
		g.reply(to, nil, err)
		return
	}
	records, errs := g.CommitBut(stale, g.eff.Records, r, ids, g.cfg.OffsetMetadataMax, now)
	g.eff.Records = records
	if len(records) > 0 {
		g.eff.Producer = in
	}
	g.reply(to, errs, nil)
}

// checkCommit decides on a commit, and on which of its partitions it comes too late for.
func (g *Group) checkCommit(r *protocol.CommitRequest, ids map[string][16]byte, inTxn bool) (stale map[record.TopicPartition]error, err error) {
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
	case r.InstanceID != "" && m.InstanceID != "" && r.InstanceID != m.InstanceID:
		return nil, protocol.ErrFencedInstance
	case r.NoEpochs && !inTxn && m.Classic == nil:
		return nil, protocol.ErrUnsupportedVersion
	case r.Generation == m.epoch:
		return nil, nil
	}
	late := protocol.ErrStaleMemberEpoch
	if m.Classic != nil {
		late = protocol.ErrIllegalGeneration
	}
	if r.Generation > m.epoch {
		return nil, late
	}
	stale = make(map[record.TopicPartition]error)
	for tp := range r.Offsets {
		p := partition{ids[tp.Topic], tp.Partition}
		h, ok := has(m.assigned, p)
		if !ok {
			h, ok = has(m.revoking, p)
		}
		if !ok || r.Generation < h.epoch {
			stale[tp] = late
		}
	}
	return stale, nil
}

func (g *Group) delete(e classic.EventDelete) {
	switch {
	case len(g.members) > 0:
		g.reply(e.To, nil, protocol.ErrNonEmptyGroup)
	case g.epoch == 0 && g.None():
		g.reply(e.To, nil, protocol.ErrGroupNotFound)
	default:
		g.eff.Separable = true
		g.eff.Records = append(g.Remove(g.eff.Records, anyOffset), g.Tombstones()...)
		g.reply(e.To, nil, nil)
	}
}

// Tombstones returns the records that remove the group but not its offsets.
func (g *Group) Tombstones() []offsets.Record {
	if g.epoch == 0 {
		return nil
	}
	var out []offsets.Record
	for _, t := range []offsets.KeyType{offsets.KeyTargetAssignment, offsets.KeyConsumerGroup} {
		out = append(out, offsets.Record{Key: g.key(t, "")})
	}
	return out
}

// expire removes offsets that nobody will ask for any more, and the group if it has no members and
// no offsets. Unlike those of a classic group they age from their commit on, as in Kafka.
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

// EventCheckMember asks whether a member is one, in an epoch. The reply carries only an error.
type EventCheckMember struct {
	MemberID    string
	MemberEpoch int32
	To          machine.Ticket
}

// Refuse returns the answer of a group of another kind: it has no such members.
func (e EventCheckMember) Refuse() machine.Reply { return machine.Reply{To: e.To} }

func (e EventCheckMember) step(g *Group) {
	m := g.members[e.MemberID]
	switch {
	case e.MemberEpoch < 0 && e.MemberID == "", e.MemberEpoch < 0 && len(g.members) == 0:
		g.reply(e.To, nil, nil)
	case m == nil:
		g.reply(e.To, nil, protocol.ErrUnknownMember)
	case m.epoch != e.MemberEpoch:
		g.reply(e.To, nil, protocol.ErrStaleMemberEpoch)
	default:
		g.reply(e.To, nil, nil)
	}
}
