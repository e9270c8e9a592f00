package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"

	"github.com/stratalog/strata/record"
)

// loadNewest reads the last entry of the time index of a clean segment, which holds its largest timestamp.
func (s *Segment) loadNewest() (err error) {
	if s.Size() == 0 {
		return nil
	}
	f, err := s.cfg.FS.OpenFile(s.file(TimeIndexSuffix), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return s.scanNewest()
	}
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	if size < timeEntrySize || size%timeEntrySize != 0 {
		return s.scanNewest()
	}
	var e [timeEntrySize]byte
	if _, err := f.ReadAt(e[:], size-timeEntrySize); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read index: %w", err)
	}
	ts, rel := int64(binary.BigEndian.Uint64(e[:])), int32(binary.BigEndian.Uint32(e[8:]))
	if ts < 0 || rel < 0 || s.base+int64(rel) >= s.NextOffset() {
		return s.scanNewest()
	}
	s.newest.Store(&timestampAt{ts, s.base + int64(rel)})
	return nil
}

// scanNewest finds the largest timestamp in the batches: the time index is missing or wrong.
func (s *Segment) scanNewest() error {
	newest := timestampAt{-1, s.base}
	err := s.Headers(0, func(b *record.Batch, _ int64) bool {
		if b.MaxTimestamp > newest.ts {
			newest = timestampAt{b.MaxTimestamp, b.LastOffset()}
		}
		return true
	})
	s.newest.Store(&newest)
	return err
}

// OffsetAt returns the first record with a timestamp of ts (ms) or later and an offset of least or more; ok is false if there is none.
func (s *Segment) OffsetAt(ts, least int64) (offset, found int64, ok bool, err error) {
	if newest, _ := s.MaxTimestamp(); newest < ts {
		return 0, 0, false, nil
	}
	s.mu.Lock()
	err = s.loadIndexLocked()
	from := int64(0)
	if err == nil {
		// Up to the entry before, every timestamp is smaller: the search begins behind it.
		times := s.index.times
		if i := sort.Search(len(times), func(i int) bool { return times[i].ts >= ts }); i > 0 {
			from = s.index.before(s.base+int64(times[i-1].rel), s.base)
		}
	}
	s.mu.Unlock()
	if err != nil {
		return 0, 0, false, err
	}
	err = s.Headers(from, func(b *record.Batch, pos int64) bool {
		if b.MaxTimestamp < ts || b.LastOffset() < least {
			return true
		}
		offset, found, ok, err = s.firstAt(pos, b.Size(), ts, least)
		return !ok && err == nil
	})
	return offset, found, ok, err
}

// firstAt looks for the record in one batch.
func (s *Segment) firstAt(pos int64, size int, ts, least int64) (offset, found int64, ok bool, err error) {
	p, err := s.ReadRange(nil, pos, size)
	if err != nil {
		return 0, 0, false, err
	}
	b, err := record.ParseUnverified(p)
	if err != nil || b.IsControl() {
		return 0, 0, false, err
	}
	for r, err := range b.All() {
		if err != nil {
			return 0, 0, false, err
		}
		if ms := r.Timestamp.UnixMilli(); ms >= ts && r.Offset >= least {
			return r.Offset, ms, true, nil
		}
	}
	return 0, 0, false, nil
}

// Truncate removes the batch that holds offset and everything behind it, so that NextOffset is offset or less. It does not sync.
func (s *Segment) Truncate(offset int64) error {
	pos, err := s.Locate(offset)
	if err != nil {
		return fmt.Errorf("truncate: %w", err)
	}
	next, newest := s.base, timestampAt{-1, s.base}
	err = s.Headers(0, func(b *record.Batch, at int64) bool {
		if at >= pos {
			return false
		}
		next = b.NextOffset()
		if b.MaxTimestamp > newest.ts {
			newest = timestampAt{b.MaxTimestamp, b.LastOffset()}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("truncate: %w", err)
	}
	if err := s.cutAborted(next); err != nil {
		return fmt.Errorf("truncate: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = false
	s.changes++
	if err := s.writableLocked(); err != nil {
		return err
	}
	if err := s.active.file.Truncate(pos); err != nil {
		return fmt.Errorf("truncate %s: %w", s.path, err)
	}
	s.index.cut(pos, next, s.base)
	s.checked.cut(pos)
	s.hint.Store(nil)
	s.newest.Store(&newest)
	s.next.Store(next)
	s.size.Store(pos)
	s.alloc = pos
	return s.flushIndexLocked(true)
}
