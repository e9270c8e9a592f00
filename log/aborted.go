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

	"github.com/stratalog/strata/internal/segment"
)

// aborts has the aborted transactions for which the transaction index files are not reliable. The
// markers in the log are authoritative, and the files are derived from them, for Kafka and for an
// open that does not read the whole log. The files are valid below an offset: they have the
// transactions with a marker below it, on stable storage. Later ones are also kept here, until the
// writer has replaced the files (storeAborted). It does so before the owner's state above the
// offset is stored. So an open that uses that state finds complete files below it, and rebuilds the
// rest from the markers above (ResetAborted).
type aborts struct {
	mu sync.Mutex // a leaf; guards the fields below

	recent []segment.AbortedTxn // with markers at or above below, in order of those
	below  int64                // the files count for markers below this offset, if pending

	// pending means that the files lack some markers. news is the number of the newest entries of
	// recent that were not written to the files. Stored under mu.
	pending atomic.Bool
	news    atomic.Int64
}

// maxRecentAborts is how many aborted transactions are kept in memory before the files are
// replaced. 32 bytes each.
const maxRecentAborts = 1 << 16

// AppendAborted adds an aborted transaction, whose marker is in the log, after all others. Readers
// see it at once. It does not wait for the disk. The transaction index file gets the entry at the
// end of the round of appends, and the entry is on stable storage before an owner's snapshot above
// the marker is stored. An Owner calls AppendAborted in Written, one call at a time. It returns
// ErrReadOnly on a read-only log, and ErrClosed, without effect, on a closed one.
func (l *Log) AppendAborted(t segment.AbortedTxn) error {
	if l.readOnly {
		return ErrReadOnly
	}
	if e := l.ending.Load(); e != nil { // appends accepted before Close still call it while Close waits for them
		select {
		case <-e.done:
			return ErrClosed
		default:
		}
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

// ResetAborted replaces the aborted transactions whose markers are at or above below with ts, which
// is in the order of the markers. An owner that restores its state from a snapshot at below calls
// it after it has opened or truncated the log, with the transactions that it found in the batches
// from below on. Index entries from below on are ignored. Readers use ts when ResetAborted returns,
// even with an error: ErrReadOnly, ErrClosed, or the error of a file that could not be replaced. It
// blocks for the disk if it has to replace a file.
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

// indexAborted writes the entries since the last call to the files. Only processes that read the
// directory beside the log depend on it: after a failure storeAborted writes them later.
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

// storeAborted puts all of the transaction index on stable storage, even after failed attempts:
// files are replaced, not completed.
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

// resetAborted makes the files agree with the given transactions. With sync the result is on stable
// storage afterwards.
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

// noteAborted notes the hash of a segment's entries in the transaction index, for the state that is
// written next. next is the offset behind the segment. A hash that cannot be computed is unknown.
func (w *writer) noteAborted(s *segment.Segment, next int64) {
	a := &w.log.aborts
	a.mu.Lock()
	below, rest := int64(math.MaxInt64), []segment.AbortedTxn(nil)
	if a.pending.Load() {
		below = a.below
		rest = slices.Clone(a.recent[markersBelow(a.recent, s.Base()):markersBelow(a.recent, next)])
	}
	a.mu.Unlock()
	sum, err := s.SumAborted(below, rest)
	if err != nil {
		w.log.cfg.Load().Logger.Warn("transaction index cannot be read", "path", w.log.path, "err", err)
		sum = 0
	}
	s.NoteAborted(sum)
}

// CheckAborted compares the transaction index with the state of the log. Its error matches
// ErrCorrupt if entries are missing or changed: then the owner makes the index again from the
// markers, calls ResetAborted from offset 0 on, and NoteAborted. Segments without a hash in the
// state, as in earlier versions, are not compared.
func (l *Log) CheckAborted() error {
	for _, s := range l.list() {
		if err := s.CheckAborted(); err != nil {
			return fmt.Errorf("aborted transactions of %s: %w", l.path, l.orClosed(err))
		}
	}
	return nil
}

// NoteAborted records hashes of the present entries of the transaction index in the next state of
// the log. An owner that opens a log calls it when the entries are known to be right. It returns
// ErrReadOnly or ErrClosed.
func (l *Log) NoteAborted() error {
	return l.exclusively(func(w *writer) error {
		list := l.list()
		for i, s := range list[:len(list)-1] {
			w.noteAborted(s, list[i+1].Base())
		}
		return nil
	})
}

// cut removes the transactions with markers at or above end, the new end of the log.
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

// AbortedTxns returns the aborted transactions that may overlap the records of [from, upTo). It may
// return more than needed.
func (l *Log) AbortedTxns(from, upTo int64) ([]segment.AbortedTxn, error) {
	for {
		if l.closing.Load() {
			return nil, ErrClosed
		}
		// recent first: an entry that is written to the files meanwhile is found in both.
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
