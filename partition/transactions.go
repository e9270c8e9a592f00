package partition

import (
	"cmp"
	"slices"
)

// An openTxn is a transaction with data here and no marker yet.
type openTxn struct {
	first      int64 // offset of its first record
	producerID int64
}

// An endedTxn is a transaction whose marker is in the log.
type endedTxn struct {
	producerID  int64
	first, last int64 // first record, marker
	aborted     bool
	// lastStable is the first offset of the earliest other open transaction, else last+1, as in the
	// .txnindex.
	lastStable int64
}

// transactions has the transactions that limit the last stable offset. These are open ones, and
// ended ones whose marker is not yet below the high watermark, since a leader change could remove
// the marker. Kafka: ongoingTxns and unreplicatedTxns.
type transactions struct {
	open  []openTxn  // sorted by first
	ended []endedTxn // marker at or above the high watermark, in marker order
}

func (t *transactions) begin(pid, first int64) {
	i, _ := t.search(first)
	t.open = slices.Insert(t.open, i, openTxn{first, pid})
}

// end moves the transaction that began at first from open to ended.
func (t *transactions) end(pid, first int64, m marker) endedTxn {
	if i, ok := t.search(first); ok {
		t.open = slices.Delete(t.open, i, i+1)
	}
	e := endedTxn{producerID: pid, first: first, last: m.offset, aborted: m.aborted, lastStable: m.offset + 1}
	if len(t.open) > 0 {
		e.lastStable = t.open[0].first
	}
	t.ended = append(t.ended, e)
	return e
}

func (t *transactions) search(first int64) (int, bool) {
	return slices.BinarySearchFunc(t.open, first, func(o openTxn, first int64) int { return cmp.Compare(o.first, first) })
}

// advance drops ended transactions whose marker is below the high watermark.
func (t *transactions) advance(highWatermark int64) {
	n := 0
	for n < len(t.ended) && t.ended[n].last < highWatermark {
		n++
	}
	t.ended = slices.Delete(t.ended, 0, n)
}

// lastStable returns the last stable offset: the high watermark, or the first offset below it that
// belongs to an undecided transaction.
func (t *transactions) lastStable(highWatermark int64) int64 {
	lso := highWatermark
	if len(t.open) > 0 {
		lso = min(lso, t.open[0].first)
	}
	for i := range t.ended {
		lso = min(lso, t.ended[i].first)
	}
	return lso
}
