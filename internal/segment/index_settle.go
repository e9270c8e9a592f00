package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// settleIndexes cuts the index files after the entries that they share with the index up to to, and
// syncs them. It must run before new batches replace the batches of the other entries. After a
// power cut it runs also if the files look right: the process that cut them may have been killed
// before the cut was durable. Later entries may be written unsynced: each that a power cut leaves
// belongs to a present batch. Only the writer calls it.
func (s *Segment) settleIndexes(to end) error {
	s.indexing.Lock()
	defer s.indexing.Unlock()
	s.mu.Lock()
	x := &s.index
	if !x.loaded || x.removed {
		s.mu.Unlock()
		return nil
	}
	n, m := x.upTo(to.size, to.next, s.base)
	var offsets, times []byte
	for _, e := range x.offsets[:n] {
		offsets = e.appendTo(offsets)
	}
	for _, e := range x.times[:m] {
		times = e.appendTo(times)
	}
	gen := x.gen
	s.mu.Unlock()

	m, err := s.settleIndex(TimeIndexSuffix, timeEntrySize, times)
	if err == nil {
		n, err = s.settleIndex(IndexSuffix, offsetEntrySize, offsets)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		x.rewritten = true
		return fmt.Errorf("settle index: %w", err)
	}
	if x.gen == gen {
		x.flushedOffsets, x.flushedTimes, x.rewritten = n, m, false
	}
	return nil
}

// settleIndex settles one index file, if there is one, and returns how many entries it has then. A
// file that cannot be synced is removed: its next sync might succeed without these bytes.
func (s *Segment) settleIndex(suffix string, size int, entries []byte) (kept int, err error) {
	f, err := s.cfg.FS.OpenFile(s.name(suffix), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	length, err := f.Size()
	if err != nil {
		return 0, err
	}
	found := make([]byte, min(length, int64(len(entries))))
	n, err := f.ReadAt(found, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	for n = n / size * size; kept*size < n && string(found[kept*size:][:size]) == string(entries[kept*size:][:size]); {
		kept++
	}
	if length != int64(kept*size) {
		if err := f.Truncate(int64(kept * size)); err != nil {
			return 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, errors.Join(err, s.cfg.FS.Remove(s.name(suffix)))
	}
	return kept, nil
}
