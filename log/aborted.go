package log

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/segment"
)

// aborts are the aborted transactions that the files of the transaction index cannot be relied on
// for. The markers in the log are the truth, and those files derived from it: Kafka reads them, and
// an open that need not read all of the log. Files count below an offset; they hold what has its
// marker there, on stable storage. What is above is kept here as well, until the writer has
// replaced the files (storeAborted), which it does before the owner's state above is stored: so
// whoever opens the log and goes by that state finds the files whole below it, and the markers
// above, from which he makes the rest anew (ResetAborted).
type aborts struct {
	mu sync.Mutex // a leaf; guards the fields below

	recent []segment.AbortedTxn // with markers at or above below, in order of those
	below  int64                // the files count for markers below this offset, if pending

	// pending: the files do not count for all markers. news: how many of the last of recent the
	// files were not told of yet. Stored under mu.
	pending atomic.Bool
	news    atomic.Int64
}

// maxRecentAborts is how many aborted transactions are kept in memory before the files are
// replaced. 32 bytes each.
const maxRecentAborts = 1 << 16

// AppendAborted adds an aborted transaction, whose marker is in the log, behind all others. Readers
// find it at once. It waits for no disk: the file of the index gets it with the end of the round of
// appends, and holds it on stable storage before a snapshot of the owner is stored above the
// marker. An Owner calls it in Written, one at a time; it returns ErrReadOnly on a log that is only
// read.
func (l *Log) AppendAborted(t segment.AbortedTxn) error {
	if l.readOnly {
		return ErrReadOnly
	}
	a := &l.aborts
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.pending.Load() {
		a.below = t.LastOffset
	}
	a.recent = append(a.recent, t)
	a.news.Add(1)
	a.pending.Store(true)
	return nil
}

// ResetAborted makes ts, in order of their markers, the aborted transactions whose markers are at
// or above below. Who opens or cuts the log calls it with what the batches from there on say, where
// the state of its owner that it goes by was stored at below: what the files say from there on is
// worth nothing. Readers go by ts when it returns, also with an error: ErrReadOnly, ErrClosed, or
// that of a file which could not be replaced. It blocks for the disk if one has to be.
func (l *Log) ResetAborted(below int64, ts []segment.AbortedTxn) error {
	return l.exclusively(func(w *writer) error {
		a := &l.aborts
		a.mu.Lock()
		a.below, a.recent = below, slices.Clone(ts)
		a.news.Store(0)
		a.pending.Store(true)
		a.mu.Unlock()
		if len(ts) > maxRecentAborts {
			return w.storeAborted()
		}
		return w.resetAborted(below, ts, false)
	})
}

// indexAborted writes what came since the last call into the files. Nothing relies on that but who
// reads the directory beside the log: a failure only leaves it to storeAborted.
func (w *writer) indexAborted() {
	l := w.log
	a := &l.aborts
	a.mu.Lock()
	news := a.recent[len(a.recent)-int(a.news.Swap(0)):]
	many := len(a.recent) >= max(maxRecentAborts, w.manyAborts)
	a.mu.Unlock()
	for _, t := range news {
		list := l.list()
		if i := floor(list, t.LastOffset); i >= 0 {
			w.warnOfAborts(list[i].AppendAborted(t))
		}
	}
	if many {
		w.warnOfAborts(w.storeAborted())
	}
}

func (w *writer) warnOfAborts(err error) {
	if err != nil {
		l := w.log
		l.cfg.Load().Logger.Warn("transaction index lacks an aborted transaction until it is written again", "path", l.path, "err", err)
	}
}

// storeAborted has all of the transaction index on stable storage, whatever came of earlier
// attempts: files are replaced, not completed.
func (w *writer) storeAborted() error {
	a := &w.log.aborts
	if !a.pending.Load() {
		return nil
	}
	a.mu.Lock()
	below, recent := a.below, a.recent
	a.mu.Unlock()
	if err := w.resetAborted(below, recent, true); err != nil {
		w.manyAborts = 2 * len(recent) // not at each of those to come
		return err
	}
	w.manyAborts = 0
	a.begin()
	return nil
}

// resetAborted brings the files in line with what is known. sync says that the disk has to have
// that afterwards, too.
func (w *writer) resetAborted(below int64, rest []segment.AbortedTxn, sync bool) error {
	l := w.log
	list := l.list()
	first := max(floor(list, below), 0)
	for i, s := range list[first:] {
		n := len(rest)
		if next := first + i + 1; next < len(list) {
			n = markersBelow(rest, list[next].Base())
		}
		from := markersBelow(rest[:n], s.Base()) // else retention has taken their segment
		if err := s.ResetAborted(below, rest[from:n], sync); err != nil {
			return fmt.Errorf("%s: %w", l.path, err)
		}
		rest = rest[n:]
	}
	return nil
}

// markersBelow returns how many of ts have markers below offset.
func markersBelow(ts []segment.AbortedTxn, offset int64) int {
	n, _ := slices.BinarySearchFunc(ts, offset, func(t segment.AbortedTxn, offset int64) int { return cmp.Compare(t.LastOffset, offset) })
	return n
}

// cut forgets the transactions with markers at or above end, where the log ends now.
func (a *aborts) cut(end int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.pending.Load() {
		a.below = end
	}
	a.recent = slices.Clip(a.recent[:markersBelow(a.recent, end)])
	a.below = min(a.below, end)
	a.news.Store(0)
	a.pending.Store(true)
}

// begin makes the files count for all markers.
func (a *aborts) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recent = nil
	a.news.Store(0)
	a.pending.Store(false)
}

// overlapping returns those of recent that matter for records of [from, upTo), and the offset of
// the first marker that the files do not count for.
func (a *aborts) overlapping(from, upTo int64) (ts []segment.AbortedTxn, below int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.pending.Load() {
		return nil, math.MaxInt64
	}
	for _, t := range a.recent[markersBelow(a.recent, from):] {
		if t.FirstOffset < upTo {
			ts = append(ts, t)
		}
		if t.LastStableOffset >= upTo {
			break
		}
	}
	return ts, a.below
}

// stable returns where the first transaction began that the files do not count for; MaxInt64:
// none.
func (a *aborts) stable() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := int64(math.MaxInt64)
	for _, t := range a.recent {
		first = min(first, t.FirstOffset)
	}
	return first
}

// AbortedTxns returns the aborted transactions that matter for records of [from, upTo); there may
// be more than needed.
func (l *Log) AbortedTxns(from, upTo int64) ([]segment.AbortedTxn, error) {
	for {
		if l.closing.Load() {
			return nil, ErrClosed
		}
		// First: what goes from there to the files meanwhile is found in both.
		recent, below := l.aborts.overlapping(from, upTo)
		list := l.list()
		i := floor(list, from)
		if i < 0 {
			return nil, fmt.Errorf("%w: %d", ErrOffsetOutOfRange, from)
		}
		var ts []segment.AbortedTxn
		var err error
		if from < below {
			ts, err = abortedTxns(list[i:], from, upTo)
			ts = append(ts[:markersBelow(ts, below)], recent...)
		} else {
			ts = recent
		}
		if errors.Is(err, segment.ErrClosed) && !l.closing.Load() && l.durability.failed() == nil { // removed meanwhile: look at the new list
			runtime.Gosched()
			continue
		}
		if err == nil && l.closing.Load() { // no index may mean that it was removed
			return nil, ErrClosed
		}
		if err != nil {
			return nil, fmt.Errorf("aborted transactions of %s: %w", l.path, l.orClosed(err))
		}
		return ts, nil
	}
}

func abortedTxns(list []*segment.Segment, from, upTo int64) (ts []segment.AbortedTxn, err error) {
	for _, s := range list {
		found, done, err := s.Aborted(from, upTo)
		if err != nil {
			return nil, err
		}
		ts = append(ts, found...)
		if done {
			break
		}
	}
	return ts, nil
}
