package topic

import (
	"math/rand/v2"

	"github.com/stratalog/strata/record"
)

// sticky stays on a partition until a batch's worth of bytes went there (KIP-794).
//
// The state of a turn has the partition in the high half, the bytes appended to it in the low one:
// one word, so that a late report cannot count for the next choice.
type sticky struct{ turns turns }

func newSticky() *sticky { return &sticky{} }

func pack(partition int, bytes uint32) uint64 { return uint64(partition)<<32 | uint64(bytes) }

func unpack(s uint64) (partition int, bytes uint32) { return int(s >> 32), uint32(s) }

func (p *sticky) Partition(r record.Record, n int) int { return p.partitionIn(r.Topic, nil, 0, n) }

func (p *sticky) partitionIn(topic string, _ []byte, block, n int) int {
	s := p.at(turn{topic, block}, n)
	for {
		old := s.word.Load()
		partition, _ := unpack(old)
		if partition < n {
			return partition
		}
		s.word.CompareAndSwap(old, pack(rand.IntN(n), 0)) // a smaller topic of the same name
	}
}

// Appended counts the bytes and moves on when the partition has had its share: a batch's worth once
// no half batch is left, twice that in any case.
func (p *sticky) Appended(a Appended) { p.appendedIn(a, 0) }

func (p *sticky) appendedIn(a Appended, block int) {
	if a.Partitions < 1 || a.Bytes < 0 {
		return
	}
	s := p.at(turn{a.Topic, block}, a.Partitions)
	for {
		old := s.word.Load()
		partition, bytes := unpack(old)
		if partition != int(a.Partition) {
			return // chosen before the last switch
		}
		total := uint64(bytes) + uint64(a.Bytes)
		limit := uint64(max(a.BatchBytes, 1))
		next := pack(partition, uint32(min(total, 1<<32-1)))
		if total >= limit && a.BatchFull || total >= 2*limit {
			next = pack(rand.IntN(a.Partitions), 0)
		}
		if s.word.CompareAndSwap(old, next) {
			return
		}
	}
}

// at returns the state of t, a topic with n partitions.
func (p *sticky) at(t turn, n int) *turnState {
	if s := p.turns.get(t); s != nil {
		return s
	}
	return p.turns.add(t, pack(rand.IntN(n), 0))
}

// stickyKeyed is keyedOr over sticky, and passes on the producer's reports. Keyed records are
// reported too. They count only in the partition whose turn it is, where they fill the batch like
// any other record.
type stickyKeyed struct{ keyedOr }

func (p stickyKeyed) Appended(a Appended) { p.appendedIn(a, 0) }

func (p stickyKeyed) appendedIn(a Appended, block int) { p.keyless.(*sticky).appendedIn(a, block) }
