package assignor

import "github.com/stratalog/strata/record"

// Range is Kafka's RangeAssignor: it assigns contiguous ranges of partitions topic by topic. If
// they do not divide evenly, the first members get one more. The same partition numbers of
// co-partitioned topics go to the same member. It is eager. It ignores racks, since they are
// unknown in one process.
func Range() Assignor { return rangeAssignor{} }

type rangeAssignor struct{}

func (rangeAssignor) Name() string { return "range" }

func (rangeAssignor) Assign(members []Member, partitions map[string]int32) (map[string][]record.TopicPartition, error) {
	topics, subscribers := subscribersByTopic(sorted(members, byInstanceThenID), partitions)
	out := make(map[string][]record.TopicPartition, len(members))
	for _, topic := range topics {
		consumers := subscribers[topic]
		each, extra := int(partitions[topic])/len(consumers), int(partitions[topic])%len(consumers)
		next := int32(0)
		for i, m := range consumers {
			n := each
			if i < extra {
				n++
			}
			for range n {
				out[m.ID] = append(out[m.ID], record.TopicPartition{Topic: topic, Partition: next})
				next++
			}
		}
	}
	return out, nil
}
