package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"

	"github.com/stratalog/strata/vfs"
)

// Sizes of index entries (Kafka: OffsetIndex, TimeIndex). Both are big endian.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

func (e offsetEntry) appendTo(p []byte) []byte {
	p = binary.BigEndian.AppendUint32(p, uint32(e.rel))
	return binary.BigEndian.AppendUint32(p, uint32(e.pos))
}

func parseOffsetEntry(p []byte) offsetEntry {
	return offsetEntry{int32(binary.BigEndian.Uint32(p)), int32(binary.BigEndian.Uint32(p[4:]))}
}

func (e timeEntry) appendTo(p []byte) []byte {
	p = binary.BigEndian.AppendUint64(p, uint64(e.ts))
	return binary.BigEndian.AppendUint32(p, uint32(e.rel))
}

func parseTimeEntry(p []byte) timeEntry {
	return timeEntry{int64(binary.BigEndian.Uint64(p)), int32(binary.BigEndian.Uint32(p[8:]))}
}

// flushIndexEntries is how many entries are kept back before a write: one page of the offset index.
const flushIndexEntries = 512

// A flush says which entries go to the files.
type flush uint8

const (
	flushStep  flush = iota // if there are many
	flushAll                // those that are not there
	flushFinal              // and the time index's last one, as on roll and close; both files exist afterwards
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

// loadIndex reads the index files, if that has not been done. What is not a possible entry, and
// everything behind it, is left out.
func (s *Segment) loadIndex() error {
	s.mu.Lock()
	loaded := s.index.loaded || s.index.removed
	s.mu.Unlock()
	if loaded {
		return nil
	}
	x, err := s.readIndexes(s.Size())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.index.loaded && !s.index.removed {
		x.gen = s.index.gen + 1
		s.index = x
	}
	return nil
}

// readIndexes reads the files of a segment whose batches end at file position limit.
func (s *Segment) readIndexes(limit int64) (index, error) {
	offsets, err := s.readIndex(IndexSuffix)
	if err != nil {
		return index{}, err
	}
	times, err := s.readIndex(TimeIndexSuffix)
	if err != nil {
		return index{}, err
	}
	x := index{loaded: true, offsets: parseOffsets(offsets, limit), times: parseTimes(times)}
	x.flushedO, x.flushedT = len(x.offsets), len(x.times)
	x.rewritten = len(offsets) != offsetEntrySize*len(x.offsets) || len(times) != timeEntrySize*len(x.times)
	return x, nil
}

func (s *Segment) readIndex(suffix string) (p []byte, err error) {
	f, size, err := s.openIndex(suffix)
	if f == nil || err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	p = make([]byte, min(size, max(int64(s.cfg.IndexBytes), 64<<20)))
	n, err := f.ReadAt(p, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read index: %w", err)
	}
	return p[:n], nil
}

// openIndex opens an index file for reading; nil if there is none, or it may be another segment's.
func (s *Segment) openIndex(suffix string) (vfs.File, int64, error) {
	f, err := s.cfg.FS.OpenFile(s.name(suffix), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read index: %w", err)
	}
	if s.removed.Load() { // before its name was given to another, or it would not be set yet
		return nil, 0, f.Close()
	}
	size, err := f.Size()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("read index: %w", err), f.Close())
	}
	return f, size, nil
}

func parseOffsets(p []byte, limit int64) []offsetEntry {
	entries := make([]offsetEntry, 0, min(len(p), 1<<16)/offsetEntrySize)
	last := offsetEntry{-1, 0}
	for ; len(p) >= offsetEntrySize; p = p[offsetEntrySize:] {
		e := parseOffsetEntry(p)
		if e.rel <= last.rel || e.pos <= last.pos || int64(e.pos) >= limit {
			break
		}
		entries = append(entries, e)
		last = e
	}
	return entries
}

func parseTimes(p []byte) []timeEntry {
	entries := make([]timeEntry, 0, min(len(p), 1<<16)/timeEntrySize)
	last := timeEntry{-1, -1}
	for ; len(p) >= timeEntrySize; p = p[timeEntrySize:] {
		e := parseTimeEntry(p)
		if e.ts <= last.ts || e.rel < last.rel || e.rel < 0 {
			break
		}
		entries = append(entries, e)
		last = e
	}
	return entries
}

// fileEntries reads single entries of an index file, a page at a time.
type fileEntries struct {
	f    vfs.File
	size int // of an entry
	n    int // entries in the file
	page [entriesPage]byte
	from int64 // where page[:have] lies
	have int
	err  error
}

const entriesPage = 4080 // holds whole entries of either kind

// at returns entry i, nil after an error.
func (x *fileEntries) at(i int) []byte {
	pos := int64(i) * int64(x.size)
	if pos < x.from || pos+int64(x.size) > x.from+int64(x.have) {
		x.from, x.have = pos/entriesPage*entriesPage, 0
		n, err := x.f.ReadAt(x.page[:min(int64(entriesPage), int64(x.n)*int64(x.size)-x.from)], x.from)
		if err != nil && !errors.Is(err, io.EOF) && x.err == nil {
			x.err = fmt.Errorf("read index: %w", err)
		}
		x.have = n
	}
	at := pos - x.from
	if x.err != nil || at+int64(x.size) > int64(x.have) {
		return nil
	}
	return x.page[at : at+int64(x.size)]
}

// lastWhere returns the last entry for which is holds, given that it holds for those before it and
// not for those behind; nil if for none.
func (x *fileEntries) lastWhere(is func(p []byte) bool) []byte {
	i := sort.Search(x.n, func(i int) bool {
		p := x.at(i)
		return p == nil || !is(p)
	})
	if i == 0 || x.err != nil {
		return nil
	}
	return x.at(i - 1)
}

// entryBefore returns the last entry of the offset index at or below offset, unchecked.
func (s *Segment) entryBefore(offset int64) (e offsetEntry, ok bool, err error) {
	s.mu.Lock()
	if s.index.loaded || s.index.removed {
		e, ok = s.index.before(offset - s.base)
		s.mu.Unlock()
		return e, ok, nil
	}
	s.mu.Unlock()
	err = s.searchFile(IndexSuffix, offsetEntrySize, func(p []byte) bool { return int64(parseOffsetEntry(p).rel) <= offset-s.base }, func(p []byte) {
		e, ok = parseOffsetEntry(p), true
	})
	return e, ok, err
}

// entryOlder returns the last entry of the time index below ts, unchecked.
func (s *Segment) entryOlder(ts int64) (e timeEntry, ok bool, err error) {
	s.mu.Lock()
	if s.index.loaded || s.index.removed {
		e, ok = s.index.older(ts)
		s.mu.Unlock()
		return e, ok, nil
	}
	s.mu.Unlock()
	err = s.searchFile(TimeIndexSuffix, timeEntrySize, func(p []byte) bool { return parseTimeEntry(p).ts < ts }, func(p []byte) {
		e, ok = parseTimeEntry(p), true
	})
	return e, ok, err
}

func (s *Segment) searchFile(suffix string, entrySize int, is func(p []byte) bool, found func(p []byte)) (err error) {
	f, size, err := s.openIndex(suffix)
	if f == nil || err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	x := &fileEntries{f: f, size: entrySize, n: int(size / int64(entrySize))}
	if p := x.lastWhere(is); p != nil {
		found(p)
	}
	return x.err
}
