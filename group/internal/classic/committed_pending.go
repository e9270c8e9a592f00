package classic

import (
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// A pendingOffset is committed in a transaction whose outcome is not known.
type pendingOffset struct {
	value offsets.OffsetValue
	order uint64 // number among the group's pending offsets, in log order

	// overwritten is set if a later commit in the log is in effect. The pending offset is void
	// then, but the partition stays unstable until the transaction ends, as in Kafka.
	overwritten bool
}

// ApplyPending implements machine.Transactional for the record of an offset.
func (g *Committed) ApplyPending(producerID int64, r offsets.Record) {
	txn := g.txns[producerID]
	if txn == nil {
		if g.txns == nil {
			g.txns = make(map[int64]map[record.TopicPartition]pendingOffset)
		}
		txn = make(map[record.TopicPartition]pendingOffset)
		g.txns[producerID] = txn
	}
	g.ordered++
	tp := topicPartition(r.Key)
	n := bytesOf(tp, r.Offset.Metadata)
	if p, ok := txn[tp]; ok {
		n -= bytesOf(tp, p.value.Metadata)
	}
	txn[tp] = pendingOffset{value: *r.Offset, order: g.ordered}
	g.keep(n)
}

// ApplyEnd implements machine.Transactional.
func (g *Committed) ApplyEnd(producerID int64, commit bool) {
	txn := g.txns[producerID]
	delete(g.txns, producerID)
	for tp, p := range txn {
		if commit && !p.overwritten {
			g.set(tp, p.value)
			g.overwrite(tp, p.order)
		}
		g.keep(-bytesOf(tp, p.value.Metadata))
	}
}

// overwrite marks the pending offsets of tp as overwritten if their order is at most before: a
// later commit in the log is in effect.
func (g *Committed) overwrite(tp record.TopicPartition, before uint64) {
	for _, txn := range g.txns {
		if p, ok := txn[tp]; ok && p.order <= before {
			p.overwritten = true
			txn[tp] = p
		}
	}
}

// dropPending drops the pending offsets of tp, because a tombstone follows them in the log.
func (g *Committed) dropPending(tp record.TopicPartition) {
	for id, txn := range g.txns {
		p, ok := txn[tp]
		if !ok {
			continue
		}
		if delete(txn, tp); len(txn) == 0 {
			delete(g.txns, id)
		}
		g.keep(-bytesOf(tp, p.value.Metadata))
	}
}

// Unstable reports whether tp has an offset whose transaction has not ended.
func (g *Committed) Unstable(tp record.TopicPartition) bool {
	for _, txn := range g.txns {
		if _, ok := txn[tp]; ok {
			return true
		}
	}
	return false
}

// UnstableOffsets returns all partitions that are Unstable. The result is the caller's.
func (g *Committed) UnstableOffsets() map[record.TopicPartition]struct{} {
	var all map[record.TopicPartition]struct{}
	for _, txn := range g.txns {
		for tp := range txn {
			if all == nil {
				all = make(map[record.TopicPartition]struct{})
			}
			all[tp] = struct{}{}
		}
	}
	return all
}

// named returns the partitions that have an offset, pending ones included, in order.
func (g *Committed) named() []record.TopicPartition {
	if len(g.txns) == 0 {
		return sorted(g.offsets)
	}
	all := g.UnstableOffsets()
	for tp := range g.offsets {
		all[tp] = struct{}{}
	}
	return sorted(all)
}

// ofTopic reports whether tp has offsets, committed or pending, and none belongs to another topic
// than id. A tombstone removes all of them.
func (g *Committed) ofTopic(tp record.TopicPartition, id [16]byte) bool {
	found := false
	other := func(v offsets.OffsetValue) bool {
		found = true
		return v.TopicID != id && v.TopicID != [16]byte{}
	}
	if v, ok := g.offsets[tp]; ok && other(v) {
		return false
	}
	for _, txn := range g.txns {
		if p, ok := txn[tp]; ok && other(p.value) {
			return false
		}
	}
	return found
}
