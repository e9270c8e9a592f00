package classic

import (
	"errors"
	"maps"
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// An Owner is the group of another kind that a Committed belongs to.
type Owner interface {
	Size() int                    // number of members
	Subscribed(topic string) bool // whether a member subscribes to it
	Forgotten() bool              // whether it has no stored state or offset
	Tombstones() []offsets.Record // remove the group but not its offsets

	// Expel removes members in the present step. It returns false if one step cannot remove all.
	Expel() bool

	// CheckCommit checks a commit. The partitions in late are rejected with those errors. ids are
	// the topics' ids.
	CheckCommit(r *protocol.CommitRequest, ids map[string][16]byte, inTxn bool) (late map[record.TopicPartition]error, err error)
}

// StepOffsets adds the effects of ev on offsets to eff, the effects of the owner's step. It returns
// false if ev is not about offsets.
func (g *Committed) StepOffsets(eff *Effects, of Owner, limits Limits, now time.Time, ev Event) bool {
	s := offsetsStep{g, eff, of, limits, now}
	switch e := ev.(type) {
	case EventCommit:
		s.commit(e.CommitRequest, e.TopicIDs, e.Bound, e.To, nil)
	case EventTxnCommit:
		s.commit(&e.CommitRequest, e.TopicIDs, e.Bound, e.To, &machine.Producer{ID: e.ProducerID, Epoch: e.ProducerEpoch})
	case EventDelete:
		s.deleteGroup(e)
	case EventDeleteOffsets:
		s.deleteThese(e)
	case EventTopicDeleted:
		s.noteRemoval(protocol.Cause{Kind: protocol.CauseTopicDeleted, Topic: e.Topic})
		eff.Separable = true
		s.remove(func(tp record.TopicPartition) bool { return tp.Topic == e.Topic && g.ofTopic(tp, e.ID) })
	case EventExpire:
		s.expire()
	case EventReset:
		s.reset(e)
	default:
		return false
	}
	return true
}

// An offsetsStep is the state of StepOffsets.
type offsetsStep struct {
	*Committed
	eff    *Effects
	of     Owner
	limits Limits
	now    time.Time
}

func (s *offsetsStep) reply(to machine.Ticket, value any, err error) {
	if to != 0 {
		s.eff.Replies = append(s.eff.Replies, machine.Reply{To: to, Value: value, Err: err})
	}
}

func (s *offsetsStep) remove(which func(record.TopicPartition) bool) {
	s.eff.Records = s.Committed.remove(s.eff.Records, which)
}

func (s *offsetsStep) commit(r *protocol.CommitRequest, ids map[string][16]byte, by machine.Bound, to machine.Ticket, in *machine.Producer) {
	late, err := s.of.CheckCommit(r, ids, in != nil)
	if err != nil {
		s.reply(to, nil, err)
		return
	}
	accepted := *r
	if len(late) > 0 {
		accepted.Offsets = maps.Clone(r.Offsets)
		maps.DeleteFunc(accepted.Offsets, func(tp record.TopicPartition, _ record.Committed) bool { return late[tp] != nil })
	}
	records, errs := s.Committed.commit(s.eff.Records, &accepted, ids, s.limits.OffsetMetadataMax, by, s.now, in)
	if s.eff.Records = records; len(records) > 0 {
		s.eff.Producer = in
	}
	maps.Copy(errs, late)
	s.reply(to, errs, nil)
}

// noteRemoval adds a cause for the removal of the group, which removes no group with members.
func (s *offsetsStep) noteRemoval(c protocol.Cause) {
	if s.of.Size() == 0 {
		s.history.Note(c)
	}
}

func (s *offsetsStep) deleteGroup(e EventDelete) {
	switch {
	case s.of.Size() > 0:
		s.reply(e.To, nil, protocol.ErrNonEmptyGroup)
	case s.of.Forgotten():
		s.reply(e.To, nil, protocol.ErrGroupNotFound)
	default:
		s.history.Note(protocol.Cause{Kind: protocol.CauseDeleted})
		s.eff.Separable = true
		s.remove(func(record.TopicPartition) bool { return true })
		s.eff.Records = append(s.eff.Records, s.of.Tombstones()...)
		s.reply(e.To, nil, nil)
	}
}

func (s *offsetsStep) deleteThese(e EventDeleteOffsets) {
	s.noteRemoval(protocol.Cause{Kind: protocol.CauseDeleted})
	errs := make(map[record.TopicPartition]error, len(e.Partitions))
	for _, tp := range e.Partitions {
		errs[tp] = nil
		if s.of.Subscribed(tp.Topic) {
			errs[tp] = protocol.ErrGroupSubscribedToTopic
		}
	}
	s.remove(func(tp record.TopicPartition) bool {
		err, asked := errs[tp]
		return asked && err == nil
	})
	s.reply(e.To, errs, nil)
}

// expire removes expired offsets, and the group if it has neither members nor offsets. Offsets of
// topics with a subscriber stay. Others last until the time in their commit or, unlike in a classic
// group, for the retention since their commit, as in Kafka: OffsetExpirationConditionImpl.
func (s *offsetsStep) expire() {
	s.noteRemoval(protocol.Cause{Kind: protocol.CauseExpired})
	s.eff.Separable = true
	left, retention := len(s.offsets), s.limits.OffsetsRetention
	expired := func(v offsets.OffsetValue) bool {
		if v.ExpireMs >= 0 {
			return s.now.UnixMilli() >= v.ExpireMs
		}
		return retention > 0 && v.CommitMs+retention.Milliseconds() <= s.now.UnixMilli()
	}
	s.remove(func(tp record.TopicPartition) bool {
		v, ok := s.offsets[tp]
		if !ok || s.Unstable(tp) || s.of.Subscribed(tp.Topic) || !expired(v) {
			return false
		}
		left--
		return true
	})
	if s.of.Size() == 0 && left == 0 && len(s.txns) == 0 {
		s.eff.Records = append(s.eff.Records, s.of.Tombstones()...)
	}
}

// ErrMoreMembers reports that only some members were removed. The event must be repeated for the
// others.
var ErrMoreMembers = errors.New("group: more members than one batch can put out")

// reset stores offsets in one batch with the tombstones of all members: see EventReset. If the
// members do not fit in one batch, earlier steps remove the others (ErrMoreMembers).
func (s *offsetsStep) reset(e EventReset) {
	if s.of.Size() > 0 {
		if !e.Expel {
			s.reply(e.To, nil, protocol.ErrNonEmptyGroup)
			return
		}
		if !s.of.Expel() {
			s.reply(e.To, nil, ErrMoreMembers)
			return
		}
	}
	records, to := e.moves(s.eff.Records, s.Committed, s.now)
	s.eff.Records = records
	s.reply(e.To, to, nil)
}
