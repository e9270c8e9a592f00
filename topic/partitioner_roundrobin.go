package topic

import (
	"math/rand/v2"

	"github.com/stratalog/strata/record"
)

// RoundRobin distributes a topic's records over its partitions in turn, with or without a key, from
// a random start. Each topic has its own position. Kafka: RoundRobinPartitioner.
func RoundRobin() Partitioner { return &roundRobin{} }

// roundRobin counts the records of each turn.
type roundRobin struct{ turns turns }

func (p *roundRobin) Partition(r record.Record, n int) int {
	return p.partitionIn(r.Topic, nil, 0, n)
}

func (p *roundRobin) PartitionKey(topic string, _ []byte, n int) int {
	return p.partitionIn(topic, nil, 0, n)
}

func (p *roundRobin) partitionIn(topic string, _ []byte, block, n int) int {
	t := turn{topic, block}
	s := p.turns.get(t)
	if s == nil {
		// Producers that start together should not all begin with partition 0.
		s = p.turns.add(t, uint64(rand.Uint32()))
	}
	return int((s.word.Add(1) - 1) % uint64(n))
}
