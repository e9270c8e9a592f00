package producer

import (
	"fmt"
	"math"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// splitLocked replaces b, which has at least two records and is larger than the topic permits, by
// batches of at most half its size. They share its sequence numbers, so later batches keep theirs;
// these were or will be rejected as out of order, and are sent again afterwards.
func (pt *partitionQueue) splitLocked(b *batch) error {
	first, last, err := pt.halves(b)
	if err != nil {
		return fmt.Errorf("split a batch that is too large: %w", err)
	}
	last.flushes, b.flushes = append(last.flushes, b.flushes...), nil
	last.next = b.next
	if pt.tail == b {
		pt.tail = last
	}
	if pt.head == b {
		pt.head = first
	} else {
		before := pt.head
		for before.next != b {
			before = before.next
		}
		before.next = first
	}
	pt.held, pt.retryAt = true, 0
	pt.p.stats.splits.Add(1)
	pt.p.recycle(b)
	return nil
}

// halves returns the two parts of b, linked to each other.
func (pt *partitionQueue) halves(b *batch) (first, last *batch, err error) {
	encoded, err := record.ParseUnverified(b.bytes)
	if err != nil {
		return nil, nil, err
	}
	it, err := encoded.Records(math.MaxInt32)
	if err != nil {
		return nil, nil, err
	}
	limit := 0
	if inflated, err := encoded.Inflate(nil, math.MaxInt32); err == nil {
		limit = (record.HeaderSize + len(inflated)) / 2
	}
	calls, asyncs := b.calls, b.asyncs
	var r record.Record
	for i := range b.count {
		if ok, err := it.Next(&r); err != nil || !ok {
			return nil, nil, fmt.Errorf("record %d of %d: %w", i, b.count, record.ErrCorrupt)
		}
		if last == nil || !last.builder.AppendKV(r.Timestamp.UnixMilli(), r.Key, r.Value, r.Headers) {
			n := pt.successor(b, i, limit)
			if last == nil {
				first = n
			} else {
				last.next = n
			}
			last = n
			last.builder.AppendKV(r.Timestamp.UnixMilli(), r.Key, r.Value, r.Headers)
		}
		if len(calls) > 0 && calls[0].position == i {
			e := calls[0]
			e.position, calls = last.count, calls[1:]
			last.calls = append(last.calls, e)
		}
		if len(asyncs) > 0 && asyncs[0].position == i {
			a := asyncs[0]
			a.position, asyncs = last.count, asyncs[1:]
			last.asyncs = append(last.asyncs, a)
		}
		last.count++
	}
	first.memory = b.memory // all memory is released with the first of them
	return first, last, nil
}

// successor returns an empty batch for the records of b from number i on.
func (pt *partitionQueue) successor(b *batch, i int32, limit int) *batch {
	n := pt.p.newBatch(pt, b.created, int64(limit))
	n.limit = limit
	n.builder.Reset(limit)
	n.state, n.attempts, n.deadline = queued, b.attempts, b.deadline
	n.sequenced, n.producerID, n.producerEpoch = b.sequenced, b.producerID, b.producerEpoch
	n.sequence = addSequence(b.sequence, i)
	n.result = partition.ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1}
	return n
}
