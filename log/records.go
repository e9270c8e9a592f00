package log

import (
	"context"
	"iter"
	"math"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
)

// Batches yields the batches from the one that holds offset from up to the present end. They are
// valid until the next one. An error is yielded once and ends it.
func (l *Log) Batches(from int64) iter.Seq2[*record.Batch, error] {
	return l.batches(from, l.read)
}

// HeldFrom returns the offset from which on Held finds batches, if there are any: at most
// StartOffset.
func (l *Log) HeldFrom() int64 { return l.list()[0].Base() }

// Held is Batches also for what DeleteRecords has taken away from readers and no Clean has removed
// yet: an Owner rebuilds its state from that, since a producer's last batch may lie there. It
// begins with the first batch held if from is below that.
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

// Records yields the records from offset from up to the present end, without those of control
// batches. Key, value and header values alias memory that is garbage collected: they may be kept,
// read-only. What is kept keeps up to 3 MiB of its neighbours, too: of many records, keep few only
// as a Clone. An error is yielded once and ends it.
func (l *Log) Records(from int64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		l.records(from, yield)
	}
}

// Follow yields the records from offset from on, and waits at the end for more, without polling,
// until ctx is done, which ends it without an error, or the log is closed, which yields ErrClosed.
// Otherwise it is Records.
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

// records yields what there is and returns the offset to go on at; ok is false if the loop was left
// or an error yielded.
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

// pastGap returns where to read on when nothing was found in [from, end): at end, since compaction
// or a truncation behind it has left no batch there. If the log was cut since cuts was read and
// then end, what was looked for may be gone and its offsets given again: at from.
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
