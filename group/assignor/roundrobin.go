package assignor

import "github.com/stratalog/strata/record"

// RoundRobin is Kafka's RoundRobinAssignor: it assigns all partitions of all topics, in order, to
// the members in turn. Members that are not subscribed to a topic are skipped. It is eager.
func RoundRobin() Assignor { return roundRobinAssignor{} }

type roundRobinAssignor struct{}

func (roundRobinAssignor) Name() string { return "roundrobin" }

func (roundRobinAssignor) Assign(members []Member, partitions map[string]int32) (map[string][]record.TopicPartition, error) {
	order := sorted(members, byInstanceThenID)
	topics, subscribers := subscribersByTopic(order, partitions)
	out := make(map[string][]record.TopicPartition, len(members))
	turn := 0
	for _, topic := range topics {
		subscribed := make(map[*Member]bool, len(subscribers[topic]))
		for _, m := range subscribers[topic] {
			subscribed[m] = true
		}
		for p := range partitions[topic] {
			for !subscribed[order[turn%len(order)]] {
				turn++
			}
			m := order[turn%len(order)]
			turn++
			out[m.ID] = append(out[m.ID], record.TopicPartition{Topic: topic, Partition: p})
		}
	}
	return out, nil
}
