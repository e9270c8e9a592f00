package consumer

import (
	"fmt"
	"iter"

	"github.com/stratalog/strata/record"
)

// A Batch is what one Poll returned: records of one or more partitions. It is read-only and safe
// for concurrent use, but for Release.
type Batch struct {
	parts []batchPart
	n     int
	home  *recycler // where Release puts the memory
}

type batchPart struct {
	tp       record.TopicPartition
	next     int64           // offset after the last record
	records  []record.Record // nil: released
	mem      *fetchBuffer    // that they alias, referenced; nil: garbage-collected memory
	inflated bool            // some alias other memory than mem
}

func (b *Batch) add(tp record.TopicPartition, rs []record.Record, ch *chunk) {
	if ch.mem != nil {
		ch.mem.refs.Add(1)
	}
	b.parts = append(b.parts, batchPart{tp, rs[len(rs)-1].Offset + 1, rs, ch.mem, ch.inflated})
	b.n += len(rs)
}

// Release gives the memory of the batch back, for the consumer to use again: slices of records and
// the bytes of their keys, values and headers. It is optional, and worth it for who polls hundreds
// of thousands of records a second; a batch that is not released is garbage collected.
//
// After Release no record of the batch may be looked at any more, not even through a slice or a
// copy of the record taken before: its bytes may change at any time. What is to stay has to be
// cloned before (record.Record.Clone). Len and Offsets stay valid, Partitions and All yield no
// record. Release does not say that the records are processed. It never blocks, may be called on
// any goroutine, also after Close, and a second time without effect; not while the batch is in use.
func (b *Batch) Release() {
	b.home.releases.Store(true)
	for i := range b.parts {
		p := &b.parts[i]
		if p.records == nil {
			continue
		}
		b.home.release(p.records, p.mem != nil && !p.inflated)
		p.mem.drop()
		p.records, p.mem = nil, nil
	}
}

// Len returns the number of records.
func (b *Batch) Len() int { return b.n }

// Partitions yields each partition with its records, in offset order. The records alias
// garbage-collected memory and may be kept, read-only, unless the batch is released.
func (b *Batch) Partitions() iter.Seq2[record.TopicPartition, []record.Record] {
	return func(yield func(record.TopicPartition, []record.Record) bool) {
		for _, p := range b.parts {
			if !yield(p.tp, p.records) {
				return
			}
		}
	}
}

// All yields every record, partition by partition.
func (b *Batch) All() iter.Seq[record.Record] {
	return func(yield func(record.Record) bool) {
		for _, p := range b.parts {
			for _, r := range p.records {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Offsets returns what to commit once the whole batch is processed: for each partition the offset
// after its last record.
func (b *Batch) Offsets() record.Offsets {
	o := make(record.Offsets, len(b.parts))
	for _, p := range b.parts {
		o[p.tp] = p.next
	}
	return o
}

// A PartitionError is an error of one partition; the others go on.
type PartitionError struct {
	TopicPartition record.TopicPartition
	Offset         int64 // where the consumer stood
	Err            error
}

func (e *PartitionError) Error() string {
	return fmt.Sprintf("consumer: %s-%d at offset %d: %v", e.TopicPartition.Topic, e.TopicPartition.Partition, e.Offset, e.Err)
}

func (e *PartitionError) Unwrap() error { return e.Err }
