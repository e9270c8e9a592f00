package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// flushIndexEntries is how many entries are kept back before a write: one page of the offset index.
const flushIndexEntries = 512

// A flush selects the entries to write to the files.
type flush uint8

const (
	flushStep flush = iota // if there are many
	flushAll               // all that the files lack
	// flushFinal is flushAll with the time index's last entry, as on roll and close. Both files
	// exist afterwards.
	flushFinal
)

// flushIndex writes entries that are not in the files yet. For the writer.
func (s *Segment) flushIndex(how flush) error {
	s.indexing.Lock()
	defer s.indexing.Unlock()
	s.mu.Lock()
	x := &s.index
	if !x.loaded || x.removed {
		s.mu.Unlock()
		return nil
	}
	if how == flushFinal {
		x.addTime(s.newest, s.base)
	}
	if how == flushStep && (len(x.offsets)-x.flushedOffsets < flushIndexEntries || len(x.offsets) < x.retryAt) {
		s.mu.Unlock()
		return nil
	}
	w := s.pendingLocked()
	s.mu.Unlock()

	err := w.write(s, how == flushFinal)
	if how == flushFinal && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) {
		// A log has to be closed and rolled on a full disk too, or nothing of it could be deleted.
		// Without index files the next read or open builds the indexes again; half a file would
		// hide the newest timestamp.
		if rmErr := s.removeIndexFiles(); rmErr != nil {
			err = errors.Join(err, rmErr)
		} else {
			err, w = nil, indexWrite{gen: w.gen}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushedLocked(w, err)
	return err
}

// removeIndexFiles removes both index files, if they are there.
func (s *Segment) removeIndexFiles() error {
	var errs []error
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix} {
		if err := s.cfg.FS.Remove(s.name(suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// indexWrite has the bytes to write to both index files.
type indexWrite struct {
	gen            int // of the index that it comes from
	offsets, times fileWrite
}

// fileWrite has the bytes to write to one index file.
type fileWrite struct {
	entries int // that the file has afterwards
	pos     int64
	bytes   []byte
}

// pendingLocked returns the entries that the files do not have.
func (s *Segment) pendingLocked() indexWrite {
	x := &s.index
	if x.rewritten {
		x.flushedOffsets, x.flushedTimes = 0, 0
	}
	w := indexWrite{gen: x.gen, offsets: newFileWrite(offsetEntrySize, len(x.offsets), x.flushedOffsets), times: newFileWrite(timeEntrySize, len(x.times), x.flushedTimes)}
	for _, e := range x.offsets[x.flushedOffsets:] {
		w.offsets.bytes = e.appendTo(w.offsets.bytes)
	}
	for _, e := range x.times[x.flushedTimes:] {
		w.times.bytes = e.appendTo(w.times.bytes)
	}
	return w
}

// newFileWrite returns a fileWrite with room for the entries after the flushed ones.
func newFileWrite(size, entries, flushed int) fileWrite {
	return fileWrite{entries: entries, pos: int64(size) * int64(flushed), bytes: make([]byte, 0, size*(entries-flushed))}
}

// write writes both files. The times come first: recovery after a kill relies on a
// time index that reaches as far as the offset index.
func (w *indexWrite) write(s *Segment, always bool) error {
	if err := s.writeIndex(TimeIndexSuffix, w.times, always); err != nil {
		return err
	}
	return s.writeIndex(IndexSuffix, w.offsets, always)
}

// flushedLocked records the outcome of a write, unless the index was changed meanwhile.
func (s *Segment) flushedLocked(w indexWrite, err error) {
	x := &s.index
	if err != nil {
		x.retryAt = len(x.offsets) + flushIndexEntries
		return
	}
	if x.gen == w.gen {
		x.flushedOffsets, x.flushedTimes, x.rewritten, x.retryAt = w.offsets.entries, w.times.entries, false, 0
	}
}

// writeIndex writes the bytes of w, and cuts the file behind them. Without always, it does not open
// a file that has all entries.
func (s *Segment) writeIndex(suffix string, w fileWrite, always bool) (err error) {
	p, pos := w.bytes, w.pos
	if len(p) == 0 && pos > 0 && !always {
		return nil
	}
	f, err := s.cfg.FS.OpenFile(s.name(suffix), os.O_RDWR|os.O_CREATE, 0o600)
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
