package consumer

import (
	"fmt"
	"iter"

	"github.com/stratalog/strata/record"
)

// A Batch holds the records that one Poll returned, of one or more partitions. It is read-only. Its
// methods except Release are safe for concurrent use.
type Batch struct {
	parts []batchPart
	n     int
	home  *recycler // receives the memory on Release
}

type batchPart struct {
	tp       record.TopicPartition
	next     int64           // offset after the last record
	records  []record.Record // nil: released
	mem      *fetchBuffer    // memory of the records, referenced; nil: garbage-collected memory
	inflated bool            // some records alias other memory than mem
}

func (b *Batch) add(tp record.TopicPartition, rs []record.Record, ch *chunk) {
	if ch.mem != nil {
		ch.mem.refs.Add(1)
	}
	b.parts = append(b.parts, batchPart{tp, rs[len(rs)-1].Offset + 1, rs, ch.mem, ch.inflated})
	b.n += len(rs)
}

// Release returns the memory of the batch to the consumer for reuse: the slices of records, and the
// bytes of their keys, values and headers. It is optional, and pays off above some hundred thousand
// records a second. A batch that is not released is garbage collected.
//
// After Release no record of the batch may be used, not even through a slice or a copy of the
// record taken earlier: its bytes may change at any time. Clone the records that you keep before
// Release (record.Record.Clone). Len and Offsets stay valid; Partitions and All yield no records.
//
// Release does not mark the records as processed. It never blocks. It may be called on any
// goroutine and also after Close, but not while the batch is in use. A second call has no effect.
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
// garbage-collected memory: they may be kept, read-only, unless the batch is released.
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

// Offsets returns the offsets to commit when the whole batch is processed: for each partition the
// offset after its last record.
func (b *Batch) Offsets() record.Offsets {
	o := make(record.Offsets, len(b.parts))
	for _, p := range b.parts {
		o[p.tp] = p.next
	}
	return o
}

// A PartitionError is an error of one partition. Other partitions are not affected.
type PartitionError struct {
	TopicPartition record.TopicPartition
	Offset         int64 // the consumer's position
	Err            error
}

func (e *PartitionError) Error() string {
	return fmt.Sprintf("consumer: %s-%d at offset %d: %v", e.TopicPartition.Topic, e.TopicPartition.Partition, e.Offset, e.Err)
}

func (e *PartitionError) Unwrap() error { return e.Err }
