package segment

import (
	"errors"
	"fmt"
	"os"
)

// flushIndexEntries is how many entries are kept back before a write: one page of the offset index.
const flushIndexEntries = 512

// A flush says which entries go to the files.
type flush uint8

const (
	flushStep flush = iota // if there are many
	flushAll               // those that are not there
	// flushFinal is flushAll with the time index's last entry, as on roll and close. Both files
	// exist afterwards.
	flushFinal
)

// flushIndex writes entries that are not in the files yet. For the writer.
func (s *Segment) flushIndex(how flush) error {
	s.mu.Lock()
	x := &s.index
	if !x.loaded || x.removed {
		s.mu.Unlock()
		return nil
	}
	if how == flushFinal {
		x.addTime(s.newest, s.base)
	}
	if how == flushStep && (len(x.offsets)-x.flushedO < flushIndexEntries || len(x.offsets) < x.retryAt) {
		s.mu.Unlock()
		return nil
	}
	w := s.pendingLocked()
	s.mu.Unlock()

	err := w.write(s, how == flushFinal)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushedLocked(w, err)
	return err
}

// indexWrite is what is to be written of an index.
type indexWrite struct {
	gen                int
	entriesO, entriesT int // that the files have afterwards
	offsets, times     []byte
	posO, posT         int64
}

func (s *Segment) pendingLocked() indexWrite {
	x := &s.index
	if x.rewritten {
		x.flushedO, x.flushedT = 0, 0
	}
	w := indexWrite{gen: x.gen, entriesO: len(x.offsets), entriesT: len(x.times), posO: offsetEntrySize * int64(x.flushedO), posT: timeEntrySize * int64(x.flushedT)}
	w.offsets = make([]byte, 0, offsetEntrySize*(len(x.offsets)-x.flushedO))
	for _, e := range x.offsets[x.flushedO:] {
		w.offsets = e.appendTo(w.offsets)
	}
	w.times = make([]byte, 0, timeEntrySize*(len(x.times)-x.flushedT))
	for _, e := range x.times[x.flushedT:] {
		w.times = e.appendTo(w.times)
	}
	return w
}

// write writes both files. The times come first: recovery after a kill believes that the time index
// reaches as far as the offset index does.
func (w *indexWrite) write(s *Segment, always bool) error {
	if err := s.writeIndex(TimeIndexSuffix, w.times, w.posT, always); err != nil {
		return err
	}
	return s.writeIndex(IndexSuffix, w.offsets, w.posO, always)
}

func (s *Segment) flushedLocked(w indexWrite, err error) {
	x := &s.index
	if err != nil {
		x.retryAt = len(x.offsets) + flushIndexEntries
		return
	}
	if x.gen == w.gen {
		x.flushedO, x.flushedT, x.rewritten, x.retryAt = w.entriesO, w.entriesT, false, 0
	}
}

// writeIndex writes p at pos and cuts the file behind it.
func (s *Segment) writeIndex(suffix string, p []byte, pos int64, always bool) (err error) {
	if len(p) == 0 && pos > 0 && !always {
		return nil
	}
	f, err := s.cfg.FS.OpenFile(s.name(suffix), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if len(p) > 0 {
		if _, err := f.WriteAt(p, pos); err != nil {
			return fmt.Errorf("write index: %w", err)
		}
	}
	size, err := f.Size()
	if err == nil && size != pos+int64(len(p)) {
		err = f.Truncate(pos + int64(len(p)))
	}
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}
