package classic

import (
	"math"
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// EventReset stores offsets for an administrator. It creates the group if necessary. The reply is a
// record.Offsets with the stored offsets.
//
// A group with members is rejected unless Expel is set. Then all members are removed, and the next
// generation begins without members and with the new offsets, in one batch. A removed member
// receives ErrUnknownMember at its next heartbeat or commit, drops its assignment, joins with a new
// id and reads the committed offsets. So no late commit overwrites the reset, for any assignor (a
// cooperative member that only rejoined would keep its partitions and positions):
//
//   - a commit before this step is in the log before the batch, which overwrites it;
//   - a commit after it has a member id unknown to the group, and is rejected;
//   - the ids of later members were assigned after it, to members without partitions;
//   - the batch is written whole or not at all: no restart finds the old members with the new
//     offsets.
type EventReset struct {
	Offsets  record.Offsets                            // target offsets; nil to use Shift
	Shift    int64                                     // distance from the committed offsets
	Bounds   map[record.TopicPartition]protocol.Bounds // of shifted offsets; partitions without an offset are left out
	TopicIDs map[string][16]byte
	Expel    bool
	To       machine.Ticket
}

func (e EventReset) step(g *Group, now time.Time) {
	if g.state != protocol.Dead && g.state != protocol.Empty {
		if !e.Expel {
			g.reply(e.To, nil, protocol.ErrNonEmptyGroup)
			return
		}
		g.expelAll(now)
	}
	records, to := e.moves(g.eff.Records, g.Committed, now)
	g.eff.Records = records
	g.reply(e.To, to, nil)
}

// moves appends the records that store the target offsets, and returns these offsets.
func (e EventReset) moves(dst []offsets.Record, g *Committed, now time.Time) ([]offsets.Record, record.Offsets) {
	to := e.Offsets
	if to == nil {
		to = e.shifted(g)
	}
	for _, tp := range sorted(to) {
		dst = append(dst, offsets.Record{Key: g.key(tp),
			Offset: &offsets.OffsetValue{Offset: to[tp], LeaderEpoch: -1, CommitMs: now.UnixMilli(), ExpireMs: -1, TopicID: e.TopicIDs[tp.Topic]}})
	}
	return dst, to
}

// shifted returns the committed offsets plus Shift, within Bounds.
func (e EventReset) shifted(g *Committed) record.Offsets {
	to := make(record.Offsets, len(e.Bounds))
	for tp, b := range e.Bounds {
		v, ok := g.offsets[tp]
		if !ok || v.TopicID != [16]byte{} && v.TopicID != e.TopicIDs[tp.Topic] {
			continue
		}
		sum := v.Offset + e.Shift
		switch { // on overflow of int64
		case e.Shift > 0 && sum < v.Offset:
			sum = math.MaxInt64
		case e.Shift < 0 && sum > v.Offset:
			sum = 0
		}
		to[tp] = b.Clamp(sum)
	}
	return to
}

// expelAll removes all members and begins a generation without members. A member in its first join
// has no id yet: it receives ErrRebalanceInProgress and joins again. Pending ids stay valid.
func (g *Group) expelAll(now time.Time) {
	g.history.Note(protocol.Cause{Kind: protocol.CauseRemoved})
	for _, m := range g.inOrder() {
		if m.isNew {
			g.drop(m, protocol.ErrRebalanceInProgress)
		} else {
			g.drop(m, protocol.ErrUnknownMember)
		}
	}
	g.joinDeadline, g.syncDeadline, g.initial = time.Time{}, time.Time{}, false
	g.becomeEmpty(now)
}

// becomeEmpty begins a generation without members.
func (g *Group) becomeEmpty(now time.Time) {
	g.generation++
	g.protocol, g.state = "", protocol.Empty
	g.persist(now, nil)
}
