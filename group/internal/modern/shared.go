package modern

import (
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// shared steps the events that groups of several kinds have.
func (g *Group) shared(now time.Time, ev classic.Event) {
	switch e := ev.(type) {
	case classic.EventHeartbeat:
		g.eff.Replies = append(g.eff.Replies, machine.Reply{To: e.To, Err: g.classicHeartbeat(now, e), Now: true})
	case classic.EventLeave:
		g.reply(e.To, g.leaveAll(e.Members), nil)
	default:
		if g.StepOffsets(&g.eff, g, g.cfg.Limits, now, ev) {
			return
		}
		if r := classic.Refuse(ev); r.To != 0 || r.Now {
			g.eff.Replies = append(g.eff.Replies, r)
		}
	}
}

// CheckCommit implements classic.Owner. A member of the newer protocol commits in its epoch, or in
// an epoch since it got the partition (KIP-1251). A member of the classic protocol commits in its
// generation only: when a Join skips a generation, the member drops its partitions and starts again
// at the group's offsets, and the group cannot see that. Kafka accepts earlier generations of both:
// ConsumerGroup.validateOffsetCommit.
func (g *Group) CheckCommit(r *protocol.CommitRequest, ids map[string][16]byte, inTxn bool) (stale map[record.TopicPartition]error, err error) {
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
	switch {
	case m.Classic != nil:
		return nil, protocol.ErrIllegalGeneration
	case r.Generation > m.epoch:
		return nil, protocol.ErrStaleMemberEpoch
	}
	stale = make(map[record.TopicPartition]error)
	for tp := range r.Offsets {
		p := partition{ids[tp.Topic], tp.Partition}
		h, ok := has(m.assigned, p)
		if !ok {
			h, ok = has(m.revoking, p)
		}
		if !ok || r.Generation < h.epoch {
			stale[tp] = protocol.ErrStaleMemberEpoch
		}
	}
	return stale, nil
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

// EventCheckMember checks a member's id and epoch. The reply has only an error.
type EventCheckMember struct {
	MemberID    string
	MemberEpoch int32
	To          machine.Ticket
}

// Refuse returns the reply of a group of another kind: it has no such members.
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
