package consumer

import (
	"cmp"
	"container/heap"
	"errors"
	"strings"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// A chunk is what one fetch brought of a partition, decoded as it is handed out.
type chunk struct {
	d       *delivery // that it was fetched for
	rest    []byte
	records record.Iterator
	inBatch bool
	from    int64 // offsets below are skipped
	next    int64 // offset after the last batch looked at
	epoch   int32
	aborted abortedHeap
	pids    map[int64]bool // producers whose batches are aborted, from here on
	err     error          // what cannot be decoded: nothing behind it is handed out

	mem      *fetchBuffer // that rest aliases, referenced; nil: nobody uses it again
	inflated bool         // some records do not alias mem, but what they were decompressed to
}

func newChunk(d *delivery, from int64, fp *partition.FetchedPartition) chunk {
	ch := chunk{d: d, rest: fp.Bytes, from: from, next: from}
	if len(fp.Aborted) > 0 {
		ch.aborted = append(ch.aborted, fp.Aborted...)
		heap.Init(&ch.aborted)
		ch.pids = map[int64]bool{}
	}
	return ch
}

func (ch *chunk) left() bool { return ch.inBatch || len(ch.rest) > 0 || ch.err != nil }

// keepBytes says that records of the chunk are handed out by value, to somebody who may keep them.
func (ch *chunk) keepBytes() { ch.mem = nil }

// atMost returns how many records are left, at most n. It believes headers only as far as the bytes
// behind them can hold records.
func (ch *chunk) atMost(n int) int {
	const least = 7 // bytes of a record
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

// record decodes the next visible record into r. It returns false at the end of the chunk, and for
// bytes that cannot be decoded an error, the same again when it is called again.
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

// batch opens the next batch that is to be seen: no control batches, nothing of aborted
// transactions.
func (ch *chunk) batch() (bool, error) {
	for len(ch.rest) > 0 {
		b, err := record.ParseUnverified(ch.rest) // verified by the one who read it from the file
		if errors.Is(err, record.ErrShort) {
			ch.rest = nil
			return false, nil
		}
		if err != nil {
			return false, err
		}
		ch.rest = ch.rest[b.Size():]
		ch.next = max(ch.next, b.NextOffset())
		if b.LastOffset() < ch.from || ch.hidden(&b) || b.RecordCount == 0 {
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

// hidden applies the list of aborted transactions to a batch (Kafka: CompletedFetch).
func (ch *chunk) hidden(b *record.Batch) bool {
	if ch.pids != nil && b.HasProducerID() {
		for len(ch.aborted) > 0 && ch.aborted[0].FirstOffset <= b.LastOffset() {
			ch.pids[heap.Pop(&ch.aborted).(partition.AbortedTxn).ProducerID] = true
		}
	}
	if b.IsControl() {
		if kind, _, err := b.Control(); err == nil && kind == record.ControlAbort {
			delete(ch.pids, b.ProducerID)
		}
		return true
	}
	return b.IsTransactional() && ch.pids[b.ProducerID]
}

// abortedHeap is a heap of transactions by first offset.
type abortedHeap []partition.AbortedTxn

func (h abortedHeap) Len() int           { return len(h) }
func (h abortedHeap) Less(i, j int) bool { return h[i].FirstOffset < h[j].FirstOffset }
func (h abortedHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *abortedHeap) Push(x any)        { *h = append(*h, x.(partition.AbortedTxn)) }
func (h *abortedHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func compareTP(a, b record.TopicPartition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
