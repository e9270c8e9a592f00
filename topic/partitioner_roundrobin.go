package topic

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/record"
)

// RoundRobin gives a topic's records to its partitions in turn, with or without key, starting
// anywhere. Each topic has its own turn. Kafka: RoundRobinPartitioner.
func RoundRobin() Partitioner { return &roundRobin{} }

// turn names an independent sequence of choices: a topic, or one block of it under Composite.
type turn struct {
	topic string
	block int
}

type roundRobin struct {
	last atomic.Pointer[counter] // the one asked for last: mostly the one that is asked for next

	mu   sync.RWMutex // guards next
	next map[turn]*counter
}

// counter counts the records of one turn.
type counter struct {
	turn turn
	n    atomic.Uint64
}

func (p *roundRobin) Partition(r record.Record, n int) int {
	return p.partitionIn(r.Topic, nil, 0, n)
}

func (p *roundRobin) PartitionKey(topic string, _ []byte, n int) int {
	return p.partitionIn(topic, nil, 0, n)
}

func (p *roundRobin) partitionIn(topic string, _ []byte, block, n int) int {
	return int((p.counter(turn{topic, block}).n.Add(1) - 1) % uint64(n))
}

func (p *roundRobin) counter(t turn) *counter {
	if c := p.last.Load(); c != nil && c.turn == t {
		return c
	}
	p.mu.RLock()
	c := p.next[t]
	p.mu.RUnlock()
	if c != nil {
		p.last.Store(c)
		return c
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c = p.next[t]; c != nil {
		return c
	}
	if p.next == nil {
		p.next = map[turn]*counter{}
	}
	c = &counter{turn: t}
	// Producers that start together should not all begin with partition 0.
	c.n.Store(uint64(rand.Uint32()))
	p.next[t] = c
	return c
}
