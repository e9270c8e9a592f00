package assignor

import (
	"slices"

	"github.com/stratalog/strata/internal/wire"
	"github.com/stratalog/strata/record"
)

// Sticky is Kafka's StickyAssignor (KIP-54): the most even assignment and, among those, one that
// moves few partitions. It is eager; members store their last assignment in the user data of their
// subscription.
func Sticky() Assignor { return stickyAssignor{} }

// CooperativeSticky is Kafka's CooperativeStickyAssignor (KIP-429). It assigns as Sticky does,
// except that a partition that moves between members stays unassigned until its owner has given it
// up and the group rebalances again.
func CooperativeSticky() Assignor { return cooperativeStickyAssignor{} }

type stickyAssignor struct{}

func (stickyAssignor) Name() string { return "sticky" }

func (stickyAssignor) Assign(members []Member, partitions map[string]int32) (map[string][]record.TopicPartition, error) {
	s := newStickyInput(members, partitions, lastAssignment)
	out, _ := s.assign()
	return out, nil
}

// SubscriptionUserData is Kafka's StickyAssignorUserData version 1: owned partitions,
// grouped by topic, and the generation.
func (stickyAssignor) SubscriptionUserData(owned []record.TopicPartition, generation int32) []byte {
	if generation < 0 {
		return nil
	}
	return wire.AppendInt32(appendTopicPartitions(nil, owned), generation)
}

// lastAssignment reads StickyAssignorUserData version 0 or 1. Unreadable data counts as no data, as
// in Kafka.
func lastAssignment(m *Member) ([]record.TopicPartition, int32) {
	if len(m.UserData) == 0 {
		return nil, -1
	}
	r := wire.Reader{P: m.UserData}
	owned := topicPartitions(&r)
	if r.Err != nil {
		return nil, -1
	}
	if len(r.P) < 4 {
		return owned, -1
	}
	return owned, r.Int32()
}

type cooperativeStickyAssignor struct{}

func (cooperativeStickyAssignor) Name() string      { return "cooperative-sticky" }
func (cooperativeStickyAssignor) Cooperative() bool { return true }

// SubscriptionUserData returns the generation alone: owned partitions are in the subscription
// itself.
func (cooperativeStickyAssignor) SubscriptionUserData(_ []record.TopicPartition, generation int32) []byte {
	return wire.AppendInt32(nil, generation)
}

func (cooperativeStickyAssignor) Assign(members []Member, partitions map[string]int32) (map[string][]record.TopicPartition, error) {
	s := newStickyInput(members, partitions, ownedNow)
	out, moving := s.assign()
	if moving == nil {
		moving = transferred(members, out)
	}
	for tp, to := range moving {
		out[to] = slices.DeleteFunc(out[to], func(x record.TopicPartition) bool { return x == tp })
	}
	return out, nil
}

// ownedNow returns the partitions that a member holds while it joins, and their generation. The
// generation is a field since subscription version 2; older clients have it in the user data.
func ownedNow(m *Member) ([]record.TopicPartition, int32) {
	if m.Generation >= 0 {
		return m.Owned, m.Generation
	}
	if r := (wire.Reader{P: m.UserData}); len(m.UserData) >= 4 {
		return m.Owned, r.Int32()
	}
	return m.Owned, -1
}

// transferred returns the partitions that move from one member to another, with the new owner.
func transferred(members []Member, out map[string][]record.TopicPartition) map[record.TopicPartition]string {
	owners := make(map[record.TopicPartition][]string)
	for i := range members {
		for _, tp := range members[i].Owned {
			owners[tp] = append(owners[tp], members[i].ID)
		}
	}
	moving := make(map[record.TopicPartition]string)
	for id, tps := range out {
		for _, tp := range tps {
			if o := owners[tp]; len(o) > 0 && !slices.Contains(o, id) {
				moving[tp] = id
			}
		}
	}
	return moving
}

// stickyInput is the input of both sticky algorithms. Members are numbered by id, topics by name.
type stickyInput struct {
	members    []*Member
	claimed    [][]record.TopicPartition // by member: partitions that it claims to have owned
	generation []int32                   // by member: generation of its claims; -1: none
	topics     []string                  // existing topics with a subscriber, sorted
	topicIndex map[string]int
	partitions map[string]int32
	subscribed [][]int // by member: topics, sorted
}

func newStickyInput(members []Member, partitions map[string]int32, owned func(*Member) ([]record.TopicPartition, int32)) *stickyInput {
	s := &stickyInput{members: sorted(members, byID), partitions: partitions, topicIndex: make(map[string]int)}
	s.topics, _ = subscribersByTopic(s.members, partitions)
	for i, t := range s.topics {
		s.topicIndex[t] = i
	}
	for _, m := range s.members {
		var topics []int
		for _, t := range m.Topics {
			if i, ok := s.topicIndex[t]; ok {
				topics = append(topics, i)
			}
		}
		slices.Sort(topics)
		s.subscribed = append(s.subscribed, slices.Compact(topics))
		tps, generation := owned(m)
		s.claimed = append(s.claimed, tps)
		s.generation = append(s.generation, generation)
	}
	return s
}

// assign picks the algorithm and runs it. moving has the partitions that change their owner, with
// the new owner; nil if the algorithm does not report them.
func (s *stickyInput) assign() (out map[string][]record.TopicPartition, moving map[record.TopicPartition]string) {
	if len(s.members) == 0 {
		return nil, map[record.TopicPartition]string{}
	}
	if s.sameSubscriptions() {
		return newConstrained(s).assign()
	}
	return newGeneral(s).assign(), nil
}

func (s *stickyInput) sameSubscriptions() bool {
	for _, topics := range s.subscribed[1:] {
		if !slices.Equal(topics, s.subscribed[0]) {
			return false
		}
	}
	return true
}

func (s *stickyInput) exists(tp record.TopicPartition) bool {
	return tp.Partition >= 0 && tp.Partition < s.partitions[tp.Topic]
}

// all returns every partition of every subscribed topic, by topic and partition.
func (s *stickyInput) all() []record.TopicPartition {
	var out []record.TopicPartition
	for _, t := range s.topics {
		for p := range s.partitions[t] {
			out = append(out, record.TopicPartition{Topic: t, Partition: p})
		}
	}
	return out
}
