package segment

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/stratalog/strata/vfs"
)

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

// lastWhere returns the last entry for which is returns true, or nil. Up to that entry is must be
// true, and false for all later ones.
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
