package compact

import (
	"slices"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
)

// A txnFilter follows the transactions of a log during compaction, batch by batch in offset order.
// It determines which batches were aborted, and which markers end a transaction without remaining
// records. Kafka: CleanedTransactionMetadata.
type txnFilter struct {
	aborted []segment.AbortedTxn   // not begun yet, by first offset
	open    map[int64]*abortedOpen // begun, by producer id
	// committed has the producers with records that were read since their last marker.
	committed map[int64]bool
	keep      func(segment.AbortedTxn) error
}

type abortedOpen struct {
	txn  segment.AbortedTxn
	seen bool // a batch of it still exists
}

// newTxnFilter returns a filter that passes the index entries still needed to keep, in order of
// their markers. keep may be nil.
func newTxnFilter(keep func(segment.AbortedTxn) error) *txnFilter {
	return &txnFilter{open: map[int64]*abortedOpen{}, committed: map[int64]bool{}, keep: keep}
}

// add adds aborted transactions of the part of the log that is read next. It may get the same ones
// again.
func (f *txnFilter) add(txns []segment.AbortedTxn) {
	f.aborted = append(f.aborted, txns...)
	slices.SortStableFunc(f.aborted, func(a, b segment.AbortedTxn) int {
		switch {
		case a.FirstOffset < b.FirstOffset:
			return -1
		case a.FirstOffset > b.FirstOffset:
			return 1
		}
		return 0
	})
}

// begin moves the transactions that have begun at offset from aborted to open.
func (f *txnFilter) begin(offset int64) {
	n := 0
	for ; n < len(f.aborted) && f.aborted[n].FirstOffset <= offset; n++ {
		if txn := f.aborted[n]; f.open[txn.ProducerID] == nil {
			f.open[txn.ProducerID] = &abortedOpen{txn: txn}
		}
	}
	f.aborted = f.aborted[n:]
}

// discard reports whether b is not needed any more: it has records of an aborted transaction, or
// is a marker without records before it.
func (f *txnFilter) discard(b *record.Batch) (bool, error) {
	f.begin(b.LastOffset())
	if b.IsControl() {
		return f.marker(b)
	}
	if !b.IsTransactional() {
		return false, nil
	}
	if a := f.open[b.ProducerID]; a != nil {
		a.seen = true
		return true, nil
	}
	f.committed[b.ProducerID] = true
	return false, nil
}

func (f *txnFilter) marker(b *record.Batch) (bool, error) {
	if b.RecordCount == 0 {
		return true, nil // an earlier pass removed its marker
	}
	kind, _, err := b.Control()
	if err != nil {
		return false, err
	}
	switch kind {
	case record.ControlAbort:
		a := f.open[b.ProducerID]
		delete(f.open, b.ProducerID)
		if a == nil || !a.seen {
			return true, nil
		}
		// This pass removes its records. Readers of the old segments, and the log after a crash
		// before the swap, still need its marker and index entry.
		if f.keep != nil {
			err = f.keep(a.txn)
		}
		return false, err
	case record.ControlCommit:
		had := f.committed[b.ProducerID]
		delete(f.committed, b.ProducerID)
		return !had, nil
	}
	return false, nil
}
