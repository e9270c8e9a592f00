package group

import (
	"time"

	"github.com/stratalog/strata/record"
)

// EventReset stores offsets for a group that has no members, by an administrator. It creates the group if need be. The reply carries only an error.
type EventReset struct {
	Offsets  record.Offsets
	TopicIDs map[string][16]byte
	To       Ticket
}

func (e EventReset) step(g *Group, now time.Time) {
	if g.state != Dead && g.state != Empty {
		g.reply(e.To, nil, ErrNonEmptyGroup)
		return
	}
	for tp, offset := range e.Offsets {
		g.emit(Record{Key: Key{Type: KeyOffset, Group: g.id, Topic: tp.Topic, Partition: tp.Partition},
			Offset: &OffsetValue{Offset: offset, LeaderEpoch: -1, CommitMs: now.UnixMilli(), ExpireMs: -1, TopicID: e.TopicIDs[tp.Topic]}})
	}
	g.reply(e.To, nil, nil)
}

// EventDelete removes a group without members and all its offsets. The reply carries only an error.
type EventDelete struct{ To Ticket }

func (e EventDelete) step(g *Group, _ time.Time) {
	switch g.state {
	case Dead:
		g.reply(e.To, nil, ErrGroupNotFound)
	case Empty:
		g.removeAll()
		g.reply(e.To, nil, nil)
	default:
		g.reply(e.To, nil, ErrNonEmptyGroup)
	}
}

// removeAll emits the tombstones of everything.
func (g *Group) removeAll() {
	for tp := range g.offsets {
		g.removeOffset(tp)
	}
	if g.persisted {
		g.emit(Record{Key: Key{Type: KeyGroup, Group: g.id}})
	}
}

func (g *Group) removeOffset(tp record.TopicPartition) {
	g.emit(Record{Key: Key{Type: KeyOffset, Group: g.id, Topic: tp.Topic, Partition: tp.Partition}})
}

// EventDeleteOffsets removes offsets of topics that the group is not subscribed to. The reply is a map[record.TopicPartition]error.
type EventDeleteOffsets struct {
	Partitions []record.TopicPartition
	To         Ticket
}

func (e EventDeleteOffsets) step(g *Group, _ time.Time) {
	switch {
	case g.state == Dead:
		g.reply(e.To, nil, ErrGroupNotFound)
		return
	case g.state != Empty && g.protocolType != ProtocolTypeConsumer:
		g.reply(e.To, nil, ErrNonEmptyGroup)
		return
	}
	subscribed := g.subscription()
	errs := make(map[record.TopicPartition]error, len(e.Partitions))
	for _, tp := range e.Partitions {
		if subscribed.has(tp.Topic) {
			errs[tp] = ErrGroupSubscribedToTopic
			continue
		}
		if _, done := errs[tp]; !done {
			errs[tp] = nil
			if _, ok := g.offsets[tp]; ok {
				g.removeOffset(tp)
			}
		}
	}
	g.reply(e.To, errs, nil)
}

// EventTopicDeleted removes the offsets of a topic that is no more. ID is the deleted topic's: offsets of a later topic of that name stay.
type EventTopicDeleted struct {
	Topic string
	ID    [16]byte
}

func (e EventTopicDeleted) step(g *Group, _ time.Time) {
	for tp, v := range g.offsets {
		if tp.Topic == e.Topic && (v.TopicID == e.ID || v.TopicID == [16]byte{}) {
			g.removeOffset(tp)
		}
	}
}

// EventExpire removes offsets that nobody will ask for any more, and the group itself if it has no members and no offsets.
type EventExpire struct{}

func (EventExpire) step(g *Group, now time.Time) {
	if g.state != Empty && g.state != Stable {
		return
	}
	left, subscribed := len(g.offsets), g.subscription()
	for tp, v := range g.offsets {
		if g.expired(tp, v, subscribed, now) {
			g.removeOffset(tp)
			left--
		}
	}
	if g.state == Empty && left == 0 && g.persisted && len(g.pending) == 0 {
		g.emit(Record{Key: Key{Type: KeyGroup, Group: g.id}})
	}
}

// expired follows KIP-211: while a group has members, only topics that nobody subscribes to age; after that, from the moment the
// last member went.
func (g *Group) expired(tp record.TopicPartition, v OffsetValue, subscribed topicSet, now time.Time) bool {
	if g.state == Stable && (g.protocolType != ProtocolTypeConsumer || subscribed.has(tp.Topic)) {
		return false
	}
	if v.ExpireMs >= 0 {
		return now.UnixMilli() >= v.ExpireMs
	}
	if g.cfg.OffsetsRetention == 0 {
		return false
	}
	base := v.CommitMs
	if g.state == Empty && g.protocolType != "" && g.stateMs >= 0 {
		base = max(base, g.stateMs) // Kafka ignores later commits, so what an administrator resets in an old group is gone at the next check
	}
	return base+g.cfg.OffsetsRetention.Milliseconds() <= now.UnixMilli()
}

// A topicSet is the topics members subscribe to; all is set if that cannot be known.
type topicSet struct {
	all    bool
	topics map[string]bool
}

func (s topicSet) has(topic string) bool { return s.all || s.topics[topic] }

// subscription returns the topics of a consumer group's members; a subscription that cannot be read may mean any topic.
func (g *Group) subscription() topicSet {
	s := topicSet{topics: make(map[string]bool)}
	for _, m := range g.members {
		for _, p := range m.protocols {
			sub, err := ParseSubscription(p.Metadata)
			if err != nil {
				s.all = true
			}
			for _, t := range sub.Topics {
				s.topics[t] = true
			}
		}
	}
	return s
}
