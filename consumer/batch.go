package consumer

import (
	"fmt"
	"iter"

	"github.com/stratalog/strata/record"
)

// A Batch is what one Poll returned: records of one or more partitions. It is read-only and safe for concurrent use.
type Batch struct {
	parts []batchPart
	n     int
}

type batchPart struct {
	tp      record.TopicPartition
	records []record.Record
}

func (b *Batch) add(tp record.TopicPartition, rs []record.Record) {
	b.parts = append(b.parts, batchPart{tp, rs})
	b.n += len(rs)
}

// Len returns the number of records.
func (b *Batch) Len() int { return b.n }

// Partitions yields each partition with its records, in offset order. The records alias garbage-collected memory and may be kept, read-only.
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

// Offsets returns what to commit once the whole batch is processed: for each partition the offset after its last record.
func (b *Batch) Offsets() record.Offsets {
	o := make(record.Offsets, len(b.parts))
	for _, p := range b.parts {
		o[p.tp] = p.records[len(p.records)-1].Offset + 1
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
