package consumer

import (
	"cmp"
	"errors"
	"strings"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// A chunk is the result of one fetch for a partition. Its records are decoded as they are handed
// out.
type chunk struct {
	d       *delivery // delivery that it was fetched for
	rest    []byte
	records record.Iterator
	inBatch bool
	from    int64 // offsets below are skipped
	next    int64 // offset after the last batch looked at
	epoch   int32 // of the batch of the last record
	last    int32 // of the last batch looked at; -1: none
	aborted partition.AbortedFilter
	err     error // decoding error: later records are not handed out

	mem      *fetchBuffer // memory of rest, referenced; nil: it is not reused
	inflated bool         // some records alias their decompressed bytes instead of mem
}

func newChunk(d *delivery, from int64, fp *partition.FetchedPartition) chunk {
	return chunk{d: d, rest: fp.Bytes, from: from, next: from, last: -1, aborted: partition.NewAbortedFilter(fp.Aborted)}
}

func (ch *chunk) left() bool { return ch.inBatch || len(ch.rest) > 0 || ch.err != nil }

// keepBytes records that the chunk's records are handed out by value to code that may keep them.
func (ch *chunk) keepBytes() { ch.mem = nil }

// atMost returns the number of remaining records, at most n. It limits the counts of headers to the
// number of records that can fit in the bytes behind them.
func (ch *chunk) atMost(n int) int {
	const least = 7 // bytes of the smallest record
	left := 0
	if ch.inBatch {
		left = ch.records.Left()
	}
	for rest := ch.rest; left < n; {
		b, err := record.ParseUnverified(rest)
		if err != nil {
			break
		}
		left += min(int(b.RecordCount), b.Size()/least)
		rest = rest[b.Size():]
	}
	return min(left, n)
}

// record decodes the next visible record into r. It returns false at the end of the chunk. For
// bytes that cannot be decoded it returns an error, and the same one in later calls.
func (ch *chunk) record(tp record.TopicPartition, r *record.Record) (bool, error) {
	for ch.err == nil {
		if !ch.inBatch {
			more, err := ch.batch()
			if err != nil {
				ch.err = err
				break
			}
			if !more {
				return false, nil
			}
		}
		ok, err := ch.records.Next(r)
		if err != nil {
			ch.err = err
			break
		}
		if !ok {
			ch.inBatch = false
			continue
		}
		if r.Offset >= ch.from {
			r.Topic, r.Partition, r.LeaderEpoch = tp.Topic, tp.Partition, ch.epoch
			return true, nil
		}
	}
	return false, ch.err
}

// batch opens the next visible batch. It skips control batches and aborted transactions.
func (ch *chunk) batch() (bool, error) {
	for len(ch.rest) > 0 {
		b, err := record.ParseUnverified(ch.rest) // verified when it was read from the file
		if errors.Is(err, record.ErrShort) {
			ch.rest = nil
			return false, nil
		}
		if err != nil {
			return false, err
		}
		ch.rest = ch.rest[b.Size():]
		ch.next, ch.last = max(ch.next, b.NextOffset()), b.LeaderEpoch
		if ch.d != nil {
			ch.d.epoch.Store(ch.last) // before offsets of the batch are committed
		}
		if b.LastOffset() < ch.from || ch.aborted.Hides(&b) || b.RecordCount == 0 {
			continue
		}
		if ch.records, err = b.Records(0); err != nil {
			return false, err
		}
		ch.inflated = ch.inflated || b.Codec() != record.None
		ch.inBatch, ch.epoch = true, b.LeaderEpoch
		return true, nil
	}
	return false, nil
}

func compareTP(a, b record.TopicPartition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
