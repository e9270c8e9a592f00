package classic

import (
	"cmp"
	"slices"
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// EventDelete removes a group without members and all its offsets. Pending offsets are lost even
// if their transaction commits, as in Kafka. The reply has only an error.
type EventDelete struct{ To machine.Ticket }

func (e EventDelete) step(g *Group, _ time.Time) {
	switch g.state {
	case protocol.Dead:
		g.reply(e.To, nil, protocol.ErrGroupNotFound)
	case protocol.Empty:
		g.history.Note(protocol.Cause{Kind: protocol.CauseDeleted})
		g.removeAll()
		g.reply(e.To, nil, nil)
	default:
		g.reply(e.To, nil, protocol.ErrNonEmptyGroup)
	}
}

// removeAll emits the tombstones of all offsets, and then of the group.
func (g *Group) removeAll() {
	g.eff.Separable = true
	for _, tp := range g.named() {
		g.removeOffset(tp)
	}
	if g.persisted {
		g.emit(offsets.Record{Key: offsets.Key{Type: offsets.KeyGroup, Group: g.id}})
	}
}

// sorted returns the partitions of m by topic and number, so that effects do not depend on the
// order of a map.
func sorted[V any](m map[record.TopicPartition]V) []record.TopicPartition {
	tps := make([]record.TopicPartition, 0, len(m))
	for tp := range m {
		tps = append(tps, tp)
	}
	if len(tps) > 1 {
		slices.SortFunc(tps, func(a, b record.TopicPartition) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
	}
	return tps
}

func (g *Group) removeOffset(tp record.TopicPartition) {
	g.emit(offsets.Record{Key: g.key(tp)})
}

// EventDeleteOffsets removes offsets, including pending ones, of topics that the group is not
// subscribed to. The reply is a map[record.TopicPartition]error.
type EventDeleteOffsets struct {
	Partitions []record.TopicPartition
	To         machine.Ticket
}

func (e EventDeleteOffsets) step(g *Group, _ time.Time) {
	switch {
	case g.state == protocol.Dead:
		g.reply(e.To, nil, protocol.ErrGroupNotFound)
		return
	case g.state != protocol.Empty && g.protocolType != protocol.ProtocolTypeConsumer:
		g.reply(e.To, nil, protocol.ErrNonEmptyGroup)
		return
	}
	subscribed := g.subscription()
	errs := make(map[record.TopicPartition]error, len(e.Partitions))
	for _, tp := range e.Partitions {
		if subscribed.has(tp.Topic) {
			errs[tp] = protocol.ErrGroupSubscribedToTopic
			continue
		}
		if _, done := errs[tp]; !done {
			errs[tp] = nil
			if _, ok := g.offsets[tp]; ok || g.Unstable(tp) {
				g.removeOffset(tp)
			}
		}
	}
	g.noteRemoval(protocol.Cause{Kind: protocol.CauseDeleted})
	g.reply(e.To, errs, nil)
}

// EventTopicDeleted removes the offsets of the deleted topic with that ID. Offsets of a later topic
// of the same name stay, and with them all other offsets of that partition.
type EventTopicDeleted struct {
	Topic string
	ID    [16]byte
}

func (e EventTopicDeleted) step(g *Group, _ time.Time) {
	g.eff.Separable = true
	g.noteRemoval(protocol.Cause{Kind: protocol.CauseTopicDeleted, Topic: e.Topic})
	for _, tp := range g.named() {
		if tp.Topic == e.Topic && g.ofTopic(tp, e.ID) {
			g.removeOffset(tp)
		}
	}
}

// EventExpire removes expired offsets, and the group itself if it has no members and no offsets.
// Partitions with pending offsets stay, and so does their group.
type EventExpire struct{}

func (EventExpire) step(g *Group, now time.Time) {
	if g.state != protocol.Empty && g.state != protocol.Stable {
		return
	}
	left, subscribed := len(g.offsets), g.subscription()
	g.eff.Separable = true
	g.noteRemoval(protocol.Cause{Kind: protocol.CauseExpired})
	for _, tp := range sorted(g.offsets) {
		if g.expired(tp, g.offsets[tp], subscribed, now) && !g.Unstable(tp) {
			g.removeOffset(tp)
			left--
		}
	}
	if g.state == protocol.Empty && left == 0 && g.persisted && len(g.pending)+len(g.txns) == 0 {
		g.emit(offsets.Record{Key: offsets.Key{Type: offsets.KeyGroup, Group: g.id}})
	}
}

// expired implements KIP-211: while a group has members, only offsets of topics without a
// subscriber age; after that, all age from the time when the last member left.
func (g *Group) expired(tp record.TopicPartition, v offsets.OffsetValue, subscribed topicSet, now time.Time) bool {
	if g.state == protocol.Stable && (g.protocolType != protocol.ProtocolTypeConsumer || subscribed.has(tp.Topic)) {
		return false
	}
	if v.ExpireMs >= 0 {
		return now.UnixMilli() >= v.ExpireMs
	}
	if g.cfg.OffsetsRetention == 0 {
		return false
	}
	base := v.CommitMs
	if g.state == protocol.Empty && g.protocolType != "" && g.stateMs >= 0 {
		// Kafka ignores later commits here: offsets that an administrator resets in an old group
		// expire at the next check
		base = max(base, g.stateMs)
	}
	return base+g.cfg.OffsetsRetention.Milliseconds() <= now.UnixMilli()
}

// A topicSet is the topics that members subscribe to. all is set if a subscription is unreadable.
type topicSet struct {
	all    bool
	topics map[string]bool
}

func (s topicSet) has(topic string) bool { return s.all || s.topics[topic] }

// subscription returns the topics of a consumer group's members. An unreadable subscription counts
// as all topics.
func (g *Group) subscription() topicSet {
	s := topicSet{topics: make(map[string]bool)}
	for _, m := range g.members {
		for _, p := range m.protocols {
			sub, err := assignor.ParseSubscription(p.Metadata)
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
