package verify

import (
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
	"github.com/stratalog/strata/record"
)

// openTxns are the transactions that are open at some offset of a log: first offset by producer id.
type openTxns map[int64]int64

// abortIndex has the entries of a transaction index, by the offset of the marker.
type abortIndex struct {
	path    string
	entries map[int64]abortEntry
}

type abortEntry struct {
	kafkafile.AbortedTxn
	pos int64
}

func (s *seg) readAborts(r io.ReaderAt, size int64, path string) error {
	s.aborts = abortIndex{path, map[int64]abortEntry{}}
	last := s.base - 1
	return kafkafile.ReadTxnIndex(r, size, func(pos int64, e kafkafile.AbortedTxn) error {
		if e.Version != 0 || e.ProducerID < 0 || e.FirstOffset < 0 || e.FirstOffset >= e.LastOffset || e.LastOffset <= last ||
			e.LastStable < 0 || e.LastStable > e.LastOffset+1 {
			return &entryError{pos, "no entry of an aborted transaction"}
		}
		last = e.LastOffset
		s.aborts.entries[e.LastOffset] = abortEntry{e, pos}
		return nil
	})
}

// txn follows the transactions and checks the index entry of an abort marker.
func (s *seg) txn(pos int64, b *record.Batch) {
	if !b.IsTransactional() {
		return
	}
	first, open := s.txns[b.ProducerID]
	if !b.IsControl() {
		if !open {
			s.txns[b.ProducerID] = b.BaseOffset
		}
		return
	}
	kind, _, err := b.Control()
	if err != nil && !errors.Is(err, record.ErrEmpty) {
		s.damage(s.name, pos, "control record: %v", err)
		return
	}
	delete(s.txns, b.ProducerID)
	e, indexed := s.aborts.entries[b.BaseOffset]
	delete(s.aborts.entries, b.BaseOffset)
	switch {
	case err != nil: // compaction has removed the marker
	case kind != record.ControlAbort && indexed:
		s.wrongAbort(b.BaseOffset, s.aborts.path, e.pos, "an aborted transaction that ends at %d, where it was committed", b.BaseOffset)
	case kind != record.ControlAbort:
	case open && !indexed:
		s.wrongAbort(b.BaseOffset, s.path(s.segmentFile(s.base, ".txnindex")), -1, "no entry for the transaction of producer %d that was aborted at %d", b.ProducerID, b.BaseOffset)
	case indexed:
		s.abort(e, b, txnSpan{first, open})
	}
}

type txnSpan struct {
	first int64
	known bool
}

// abort checks the entry of an abort marker.
func (s *seg) abort(e abortEntry, b *record.Batch, span txnSpan) {
	if e.ProducerID != b.ProducerID {
		s.damage(s.aborts.path, e.pos, "producer %d, where the marker is of %d", e.ProducerID, b.ProducerID)
		return
	}
	if s.part.gaps || s.segments[0] != 0 {
		return // transactions may have begun in a segment that was removed
	}
	if span.known && e.FirstOffset != span.first {
		s.damage(s.aborts.path, e.pos, "first offset %d, where the transaction began at %d", e.FirstOffset, span.first)
	}
	stable := b.BaseOffset + 1
	for _, first := range s.txns {
		stable = min(stable, first)
	}
	if e.LastStable != stable {
		s.damage(s.aborts.path, e.pos, "last stable offset %d, where it was %d", e.LastStable, stable)
	}
}

// abortsDone reports entries without a marker.
func (s *seg) abortsDone() {
	for offset, e := range s.aborts.entries {
		switch {
		case len(s.damages) > 0 && offset < s.next:
		case offset >= s.next:
			s.ahead(s.aborts.path, "a transaction that was aborted at %d, behind the last batch", offset)
		default:
			s.wrongAbort(offset, s.aborts.path, e.pos, "a transaction that was aborted at %d, where there is no marker", offset)
		}
	}
}

// wrongAbort reports that the transaction index disagrees with the marker at an offset. It is
// damage if the next open will not read the marker, because of a clean shutdown or because a
// producer snapshot is above it. Otherwise it is a note.
func (s *seg) wrongAbort(offset int64, path string, pos int64, format string, args ...any) {
	hidden := s.facts.clean
	for name := range s.files {
		digits, ok := strings.CutSuffix(name, ".snapshot")
		at, err := strconv.ParseInt(digits, 10, 64)
		hidden = hidden || ok && err == nil && at > offset
	}
	if hidden {
		s.damage(path, pos, format, args...)
		return
	}
	s.note(path, format+"; the log was not closed in order, and the next open makes it anew", args...)
}
