package modern

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// Migration is the directions in which groups with members may change their protocol. Kafka:
// ConsumerGroupMigrationPolicy.
type Migration struct{ Upgrade, Downgrade bool }

// Upgrade returns a group of the newer protocol with the members of a classic one, and the records
// that convert it; from is not changed. The members keep their assignment and their generation,
// which becomes the epoch, until they have to join again. The caller adds a member of the newer
// protocol at once.
//
// Partitions that a cooperative member owned when it last joined also count as its own, unless they
// are assigned to another: it may not have received their revocation yet.
//
// The error is a *protocol.UpgradeError if the members are no consumers or too many, if their
// metadata is malformed or of a custom assignor, or if the configuration forbids it. Kafka:
// validateOnlineUpgrade, convertToConsumerGroup.
func Upgrade(on *classic.Committed, cfg *Config, from *classic.Group, topics *Topics, now time.Time) (*Group, []offsets.Record, error) {
	no := func(why string, cause error) error {
		return &protocol.UpgradeError{Group: on.ID(), Reason: why, Cause: cause}
	}
	switch {
	case !cfg.Migration.Upgrade:
		return nil, nil, no("online upgrade is disabled.", nil)
	case from.ProtocolType() != protocol.ProtocolTypeConsumer:
		return nil, nil, no("the group does not use the consumer embedded protocol.", nil)
	case cfg.MaxSize > 0 && from.Size() > cfg.MaxSize:
		return nil, nil, no("the group size exceeds the consumer group maximum size.", nil)
	}
	g := New(on, cfg)
	g.topics = topics
	u := upgrade{g: g, epoch: from.Generation(), given: map[partition]bool{}}
	for _, t := range from.Transfers() {
		switch err := u.take(t); {
		case errors.Is(err, errUserData):
			return nil, nil, no("an unsupported custom assignor is in use. Please refer to the documentation or "+
				"switch to a default assignor before re-attempting the upgrade.", err)
		case err != nil:
			return nil, nil, no("the embedded consumer protocol is malformed.", err)
		}
	}
	u.claims()
	records := append(from.Tombstones(), u.records()...)
	for _, r := range records {
		g.Apply(r)
	}
	for _, m := range u.members {
		g.alive(m.id, now, m.classicSession())
	}
	return g, records, nil
}

// upgrade collects the members of a classic group.
type upgrade struct {
	g       *Group
	epoch   int32
	members []*member
	owned   [][]partition // by member: its partitions when it last joined
	given   map[partition]bool
}

// errUserData reports a custom assignor, whose user data the coordinator cannot compute.
var errUserData = errors.New("it has bytes of its assignor's own")

func (u *upgrade) take(t classic.Transfer) error {
	sub, err := assignor.ParseSubscription(t.Protocols[0].Metadata)
	if err != nil {
		return fmt.Errorf("subscription of %s: %w", t.ID, err)
	}
	assigned, err := assignor.ParseAssignment(t.Assignment)
	if err != nil {
		return fmt.Errorf("assignment of %s: %w", t.ID, err)
	}
	if len(assigned.UserData) > 0 {
		return fmt.Errorf("assignment of %s: %w", t.ID, errUserData)
	}
	m := &member{id: t.ID, epoch: u.epoch, previous: u.epoch, revoking: []held{}}
	m.subscription = classicSubscription(subscription{}, sub, t)
	for _, p := range u.g.topics.byNames(assigned.Partitions) {
		if u.given[p] {
			return fmt.Errorf("a partition is with two members")
		}
		u.given[p] = true
		m.assigned = append(m.assigned, held{p, u.epoch})
	}
	u.members, u.owned = append(u.members, m), append(u.owned, u.g.topics.byNames(sub.Owned))
	return nil
}

func (u *upgrade) claims() {
	for i, m := range u.members {
		for _, p := range u.owned[i] {
			if !u.given[p] {
				u.given[p] = true
				m.assigned = append(m.assigned, held{p, u.epoch})
			}
		}
		slices.SortFunc(m.assigned, compareHeld)
	}
}

func (u *upgrade) records() (records []offsets.Record) {
	put := func(t offsets.KeyType, member string, v offsets.Value) {
		records = append(records, offsets.Record{Key: u.g.key(t, member), Value: v})
	}
	for _, m := range u.members {
		v := offsets.ConsumerMemberValue(m.subscription)
		put(offsets.KeyConsumerMember, m.id, &v)
	}
	put(offsets.KeyConsumerGroup, "", &offsets.ConsumerGroupValue{Epoch: u.epoch, MetadataHash: u.hash()})
	for _, m := range u.members {
		put(offsets.KeyTargetAssignmentMember, m.id, &offsets.TargetAssignmentMemberValue{Partitions: byTopic(plain(m.assigned))})
	}
	put(offsets.KeyTargetAssignment, "", &offsets.TargetAssignmentValue{AssignmentEpoch: u.epoch})
	for _, m := range u.members {
		put(offsets.KeyCurrentAssignmentOfMember, m.id, m.record())
	}
	return records
}

// hash returns the hash of the members' topics, or 0 if some of their partitions have no owner. The
// 0 makes the next heartbeat compute a target, even if the joining member only replaces itself. In
// Kafka such partitions stay unassigned until the next change.
func (u *upgrade) hash() int64 {
	names := u.names()
	for _, name := range names {
		t, _ := u.g.topics.byName(name)
		for p := range t.Partitions {
			if !u.given[partition{t.ID, p}] {
				return 0
			}
		}
	}
	return u.g.topics.hash(names)
}

// names returns the topics that the members subscribe to, sorted.
func (u *upgrade) names() (names []string) {
	for _, m := range u.members {
		names = append(names, m.Topics...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// classicSubscription returns s with the state of a member of the classic protocol.
func classicSubscription(s subscription, sub assignor.Subscription, t classic.Transfer) subscription {
	if t.InstanceID != "" {
		s.InstanceID = t.InstanceID
	}
	s.RackID, s.ClientID, s.ClientHost = sub.Rack, t.ClientID, t.ClientHost
	s.RebalanceTimeoutMs = int32(t.Rebalance.Milliseconds())
	s.Topics = slices.Compact(slices.Sorted(slices.Values(sub.Topics)))
	s.Regex, s.Assignor = "", ""
	s.Classic = &offsets.ClassicMember{SessionTimeoutMs: int32(t.Session.Milliseconds())}
	for _, p := range t.Protocols {
		s.Classic.Protocols = append(s.Classic.Protocols, offsets.ClassicProtocol(p))
	}
	return s
}

// byNames returns the partitions of topics that exist, sorted, each once. t may be nil.
func (t *Topics) byNames(tps []record.TopicPartition) (out []partition) {
	for _, tp := range tps {
		if topic, ok := t.byName(tp.Topic); ok {
			out = append(out, partition{topic.ID, tp.Partition})
		}
	}
	slices.SortFunc(out, comparePartitions)
	return slices.Compact(out)
}
