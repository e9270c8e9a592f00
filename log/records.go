package log

import (
	"context"
	"iter"
	"math"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
)

// Batches yields the batches from the one that contains offset from to the present end of the log.
// A batch is valid until the next one. An error is yielded once and ends the iteration.
func (l *Log) Batches(from int64) iter.Seq2[*record.Batch, error] {
	return l.batches(from, l.read)
}

// HeldFrom returns the first offset from which Held may find batches. It is at most StartOffset.
func (l *Log) HeldFrom() int64 { return l.list()[0].Base() }

// Held is Batches including records that DeleteRecords has hidden from readers, if no Clean has
// removed them yet. An Owner rebuilds its state from them, since a producer's last batch may be
// there. If from is below the first batch, Held begins with that batch.
func (l *Log) Held(from int64) iter.Seq2[*record.Batch, error] {
	return l.batches(max(from, l.list()[0].Base()), func(dst []byte, from int64, max int, upTo int64) ([]byte, error) {
		n := len(dst)
		out, err := l.readSegments(dst, from, max)
		return cutAt(out, n, upTo), l.vouch(from, err)
	})
}

func (l *Log) batches(from int64, read func(dst []byte, from int64, max int, upTo int64) ([]byte, error)) iter.Seq2[*record.Batch, error] {
	return func(yield func(*record.Batch, error) bool) {
		if l.closing.Load() {
			yield(nil, ErrClosed)
			return
		}
		end := l.segments.end.Load()
		segment.BatchesOf(from, func(dst []byte, from int64) ([]byte, error) {
			if from >= end {
				return dst, nil
			}
			return read(dst, from, readBytes, end)
		})(yield)
	}
}

// Records yields the records from offset from to the present end of the log, except those of
// control batches. Key, value and header values alias garbage-collected memory: they may be kept,
// but not written to. A kept record keeps up to 3 MiB of neighbouring records in memory too. To
// keep a few of many records, Clone them. An error is yielded once and ends the iteration.
func (l *Log) Records(from int64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		l.records(from, yield)
	}
}

// Follow is Records, but waits at the end for more records, without polling. If ctx ends, the
// iteration ends without an error. If the log is closed, it yields ErrClosed.
func (l *Log) Follow(ctx context.Context, from int64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for ctx.Err() == nil {
			next, ok := l.records(from, yield)
			if !ok {
				return
			}
			from = next
			if err := l.waitEnd(ctx, from); err != nil {
				if ctx.Err() == nil {
					yield(record.Record{}, err)
				}
				return
			}
		}
	}
}

// records yields the present records and returns the offset to continue at; ok is false if the loop
// was left or an error was yielded.
func (l *Log) records(from int64, yield func(record.Record, error) bool) (next int64, ok bool) {
	if l.closing.Load() {
		yield(record.Record{}, ErrClosed)
		return from, false
	}
	var m readMemory
	cuts := l.durability.cuts.Load() // before the end
	for end := l.readable(); from < end; {
		dst, size := m.next()
		p, err := l.read(dst, from, size, end)
		if err != nil {
			yield(record.Record{}, err)
			return from, false
		}
		if len(p) == 0 {
			return l.pastGap(from, end, cuts), true
		}
		p = m.took(p)
		for len(p) > 0 {
			b, err := record.ParseUnverified(p)
			if err != nil {
				yield(record.Record{}, err)
				return from, false
			}
			if !b.IsControl() && !yieldRecords(&b, from, yield) {
				return from, false
			}
			p, from = p[b.Size():], b.NextOffset()
			m.batch = b.Size()
		}
	}
	return from, true
}

// pastGap returns the offset to continue at when nothing was found in [from, end). It is end, since
// compaction or a truncation after it has left no batch there. If the log was truncated since cuts
// and then end were read, the searched records may have been removed and their offsets reused: then
// it is from.
func (l *Log) pastGap(from, end, cuts int64) int64 {
	if l.readable() < end || l.durability.cuts.Load() != cuts {
		return from
	}
	return end
}

// yieldRecords yields the records of a batch at or above from; false if the loop was left.
func yieldRecords(b *record.Batch, from int64, yield func(record.Record, error) bool) bool {
	it, err := b.Records(math.MaxInt32) // the log accepted the batch, however large it is when it is decompressed
	if err != nil {
		yield(record.Record{}, err)
		return false
	}
	var r record.Record
	for {
		more, err := it.Next(&r)
		if err != nil {
			yield(record.Record{}, err)
			return false
		}
		if !more {
			return true
		}
		if r.Offset >= from && !yield(r, nil) {
			return false
		}
	}
}
