package assignor

import (
	"cmp"
	"slices"

	"github.com/stratalog/strata/record"
)

// Uniform is Kafka's UniformAssignor, which coordinators run for groups of the newer protocol
// (KIP-848): the most even assignment and, among those, one that moves the fewest partitions. A
// member's previous assignment is its Owned. If all members subscribe to the same topics, they get
// ranges of partitions in the order of the topics; otherwise it is Sticky's algorithm. It ignores
// racks.
func Uniform() Assignor { return uniformAssignor{} }

type uniformAssignor struct{}

func (uniformAssignor) Name() string { return "uniform" }

func (uniformAssignor) Assign(members []Member, partitions map[string]int32) (map[string][]record.TopicPartition, error) {
	if len(members) == 0 {
		return nil, nil
	}
	if !sameTopics(members) {
		s := newStickyInput(members, partitions, func(m *Member) ([]record.TopicPartition, int32) { return m.Owned, 0 })
		out, _ := s.assign()
		return out, nil
	}
	return newUniform(sorted(members, byID), partitions).assign(), nil
}

// sameTopics reports whether all members subscribe to the same topics.
func sameTopics(members []Member) bool {
	first := topicsOf(&members[0])
	for i := range members[1:] {
		if !slices.Equal(topicsOf(&members[i+1]), first) {
			return false
		}
	}
	return true
}

// topicsOf returns a member's topics, sorted, each once.
func topicsOf(m *Member) []string {
	if slices.IsSorted(m.Topics) {
		return slices.Compact(slices.Clone(m.Topics))
	}
	return slices.Compact(slices.Sorted(slices.Values(m.Topics)))
}

// uniform shares partitions out among members that subscribe to the same topics (Kafka:
// UniformHomogeneousAssignmentBuilder).
type uniform struct {
	members []*Member
	kept    map[string][]record.TopicPartition // by member
	free    []record.TopicPartition            // in order
}

// newUniform lets every member keep the partitions that it owned. The other partitions are free.
func newUniform(members []*Member, partitions map[string]int32) *uniform {
	u := &uniform{members: members, kept: make(map[string][]record.TopicPartition, len(members))}
	owner := make(map[record.TopicPartition]*Member)
	for _, topic := range topicsOf(members[0]) {
		for p := range partitions[topic] {
			owner[record.TopicPartition{Topic: topic, Partition: p}] = nil
			u.free = append(u.free, record.TopicPartition{Topic: topic, Partition: p})
		}
	}
	for _, m := range members {
		for _, tp := range m.Owned {
			if other, exists := owner[tp]; exists && other == nil {
				owner[tp] = m
				u.kept[m.ID] = append(u.kept[m.ID], tp)
			}
		}
	}
	u.free = slices.DeleteFunc(u.free, func(tp record.TopicPartition) bool { return owner[tp] != nil })
	return u
}

// assign gives each member its quota: the partitions divided by the members, and one of the
// remainder for the first members. Members that own more than the quota come first, because they
// then keep a partition more. Kafka takes members in the order of a hash map instead.
func (u *uniform) assign() map[string][]record.TopicPartition {
	total := len(u.free)
	for _, kept := range u.kept {
		total += len(kept)
	}
	each, extra := total/len(u.members), total%len(u.members)
	quota := make(map[string]int, len(u.members))
	for _, above := range []bool{true, false} {
		for _, m := range u.members {
			if (len(u.kept[m.ID]) > each) != above {
				continue
			}
			quota[m.ID] = each
			if extra > 0 {
				quota[m.ID]++
				extra--
			}
		}
	}
	for _, m := range u.members {
		if kept := u.kept[m.ID]; len(kept) > quota[m.ID] {
			u.free = append(u.free, kept[quota[m.ID]:]...)
			u.kept[m.ID] = kept[:quota[m.ID]:quota[m.ID]]
		}
	}
	for _, m := range u.members {
		n := min(quota[m.ID]-len(u.kept[m.ID]), len(u.free))
		u.kept[m.ID] = append(u.kept[m.ID], u.free[:n]...)
		u.free = u.free[n:]
		slices.SortFunc(u.kept[m.ID], func(a, b record.TopicPartition) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
	}
	return u.kept
}
