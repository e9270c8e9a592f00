package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"sort"
)

// Sizes of index entries (Kafka: OffsetIndex, TimeIndex).
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

// offsetEntry says where the batch lies whose last offset is base + rel.
type offsetEntry struct{ rel, pos int32 }

// timeEntry says that ts is the largest timestamp up to the batch whose last offset is base + rel, which has it.
type timeEntry struct {
	ts  int64
	rel int32
}

// An index is both sparse indexes of a segment. Those of the active segment live in memory and go to their files in large steps; a
// sealed segment's stay in their files until somebody looks something up, and are dropped with Trim.
type index struct {
	loaded    bool
	offsets   []offsetEntry
	times     []timeEntry
	since     int // bytes appended since the last entry
	flushedO  int // entries that are in the files
	flushedT  int
	rewritten bool // entries were taken back: the files are written anew
}

// indexFlushEntries is how many entries are kept back before a write: one page of the offset index.
const indexFlushEntries = 512

// add enters a batch at pos, by Kafka's rule: an entry when more than interval bytes came since the last one (LogSegment.append).
func (x *index) add(b BatchInfo, base, pos int64, newest timestampAt, interval int) {
	if x.since > interval {
		x.offsets = append(x.offsets, offsetEntry{int32(b.LastOffset - base), int32(pos)})
		x.addTime(newest, base)
		x.since = 0
	}
	x.since += b.Size
}

// addTime enters the largest timestamp so far, unless that is no larger than the last entry's.
func (x *index) addTime(n timestampAt, base int64) {
	if n.ts < 0 || len(x.times) > 0 && x.times[len(x.times)-1].ts >= n.ts {
		return
	}
	x.times = append(x.times, timeEntry{n.ts, int32(n.offset - base)})
}

// cut takes back the entries of batches at or behind pos, or with offsets from next on.
func (x *index) cut(pos, next, base int64) {
	n := sort.Search(len(x.offsets), func(i int) bool {
		return int64(x.offsets[i].pos) >= pos || base+int64(x.offsets[i].rel) >= next
	})
	m := sort.Search(len(x.times), func(i int) bool { return base+int64(x.times[i].rel) >= next })
	x.rewritten = x.rewritten || n < x.flushedO || m < x.flushedT
	x.offsets, x.times = x.offsets[:n], x.times[:m]
}

// before returns the position of the last entry at or below offset; 0 if there is none.
func (x *index) before(offset, base int64) int64 {
	i := sort.Search(len(x.offsets), func(i int) bool { return base+int64(x.offsets[i].rel) > offset })
	if i == 0 {
		return 0
	}
	return int64(x.offsets[i-1].pos)
}

// IndexFull reports whether an index has no room for another batch's entry, so that the segment must roll.
// One slot of the time index is kept for the final entry.
func (s *Segment) IndexFull() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.index.offsets) >= s.cfg.IndexBytes/offsetEntrySize || len(s.index.times) >= s.cfg.IndexBytes/timeEntrySize-1
}

// flushIndexLocked writes entries that are not in the files yet. final adds the time index's last entry, as on roll and close,
// and makes sure that both files exist.
func (s *Segment) flushIndexLocked(final bool) error {
	x := &s.index
	if !x.loaded {
		return nil
	}
	if final {
		x.addTime(*s.newest.Load(), s.base)
	}
	if !final && len(x.offsets)-x.flushedO < indexFlushEntries {
		return nil
	}
	if x.rewritten {
		x.flushedO, x.flushedT = 0, 0
	}
	offsets := make([]byte, 0, offsetEntrySize*(len(x.offsets)-x.flushedO))
	for _, e := range x.offsets[x.flushedO:] {
		offsets = binary.BigEndian.AppendUint32(offsets, uint32(e.rel))
		offsets = binary.BigEndian.AppendUint32(offsets, uint32(e.pos))
	}
	times := make([]byte, 0, timeEntrySize*(len(x.times)-x.flushedT))
	for _, e := range x.times[x.flushedT:] {
		times = binary.BigEndian.AppendUint64(times, uint64(e.ts))
		times = binary.BigEndian.AppendUint32(times, uint32(e.rel))
	}
	err := errors.Join(
		s.writeIndex(IndexSuffix, offsets, offsetEntrySize*int64(x.flushedO), final),
		s.writeIndex(TimeIndexSuffix, times, timeEntrySize*int64(x.flushedT), final))
	if err != nil {
		return err
	}
	x.flushedO, x.flushedT, x.rewritten = len(x.offsets), len(x.times), false
	return nil
}

// writeIndex writes p at pos and cuts the file behind it.
func (s *Segment) writeIndex(suffix string, p []byte, pos int64, always bool) (err error) {
	if len(p) == 0 && !always {
		return nil
	}
	f, err := s.cfg.FS.OpenFile(s.file(suffix), os.O_RDWR|os.O_CREATE, 0o644)
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
	return err
}

// loadIndexLocked reads the index files, if that has not been done. What is not a possible entry, and everything behind it, is left out:
// indexes are hints, and the batches have the last word.
func (s *Segment) loadIndexLocked() error {
	x := &s.index
	if x.loaded {
		return nil
	}
	if s.removed { // the files of that name are gone, or another segment's
		x.loaded = true
		return nil
	}
	offsets, err := s.readIndex(IndexSuffix)
	if err != nil {
		return err
	}
	times, err := s.readIndex(TimeIndexSuffix)
	if err != nil {
		return err
	}
	x.offsets, x.times = parseOffsets(offsets, s.limit()), parseTimes(times)
	x.flushedO, x.flushedT = len(x.offsets), len(x.times)
	x.rewritten = len(offsets) != offsetEntrySize*len(x.offsets) || len(times) != timeEntrySize*len(x.times)
	x.loaded = true
	return nil
}

// limit bounds the positions that an index may point at.
func (s *Segment) limit() int64 {
	if size := s.Size(); size > 0 {
		return size
	}
	return s.alloc
}

func (s *Segment) readIndex(suffix string) ([]byte, error) {
	f, err := s.cfg.FS.OpenFile(s.file(suffix), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	p := make([]byte, min(size, max(int64(s.cfg.IndexBytes), 64<<20)))
	n, err := f.ReadAt(p, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read index: %w", err)
	}
	return p[:n], nil
}

func parseOffsets(p []byte, limit int64) []offsetEntry {
	entries := make([]offsetEntry, 0, len(p)/offsetEntrySize)
	last := offsetEntry{-1, 0}
	for ; len(p) >= offsetEntrySize; p = p[offsetEntrySize:] {
		e := offsetEntry{int32(binary.BigEndian.Uint32(p)), int32(binary.BigEndian.Uint32(p[4:]))}
		if e.rel <= last.rel || e.pos <= last.pos || int64(e.pos) >= limit {
			break
		}
		entries = append(entries, e)
		last = e
	}
	return entries
}

func parseTimes(p []byte) []timeEntry {
	entries := make([]timeEntry, 0, len(p)/timeEntrySize)
	last := timeEntry{-1, -1}
	for ; len(p) >= timeEntrySize; p = p[timeEntrySize:] {
		e := timeEntry{int64(binary.BigEndian.Uint64(p)), int32(binary.BigEndian.Uint32(p[8:]))}
		if e.ts <= last.ts || e.rel < last.rel || e.rel < 0 {
			break
		}
		entries = append(entries, e)
		last = e
	}
	return entries
}

// Trim drops what is in memory only to be fast: the indexes of a sealed segment, which the next lookup reads again.
func (s *Segment) Trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed && !s.removed && !s.index.rewritten && s.index.flushedO == len(s.index.offsets) {
		s.index = index{}
	}
	s.hint.Store(nil)
}

const maxRelativeOffset = math.MaxInt32

// Overflows reports whether a batch with this last offset is out of reach of the segment's indexes, so that the segment must roll first.
func (s *Segment) Overflows(lastOffset int64) bool { return lastOffset-s.base > maxRelativeOffset }
