package segment

import (
	"math"
	"sort"
)

// offsetEntry has the position of the batch whose last offset is base + rel.
type offsetEntry struct{ rel, pos int32 }

// timeEntry has the largest timestamp up to the batch whose last offset is base + rel. That batch
// has it.
type timeEntry struct {
	ts  int64
	rel int32
}

// An index is both sparse indexes of a segment. The entries of the active segment live in memory
// and go to their files in large steps; a sealed segment's stay in their files, where each lookup
// reads the few entries that it needs.
//
// Entries are hints: a lookup checks the batch of an entry first. After a wrong entry the index is
// built again from the batches. But a time entry covers all batches before its own. After a cut,
// the entry of a removed batch would be accepted if the batch in its place has the same time. So no
// such entry may be left in the files, also after a power cut: see settleIndexes.
type index struct {
	loaded  bool // the entries are here; otherwise they are in the files
	removed bool // there are no files any more
	offsets []offsetEntry
	times   []timeEntry
	since   int // bytes appended since the last entry

	gen            int  // counts every change but appending
	flushedOffsets int  // entries of offsets that are in its file
	flushedTimes   int  // entries of times that are in its file
	rewritten      bool // entries were removed: the files are written again as a whole
	retryAt        int  // a flush failed: the next one has this many entries
}

// add enters a batch at pos, by Kafka's rule: an entry when more than interval bytes came since the
// last one (LogSegment.append).
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

// cut removes the entries of batches at or behind pos, or with offsets from next on.
func (x *index) cut(pos, next, base int64) {
	n, m := x.upTo(pos, next, base)
	x.rewritten = x.rewritten || n < x.flushedOffsets || m < x.flushedTimes
	x.gen++
	x.offsets, x.times = x.offsets[:n], x.times[:m]
}

// upTo returns how many entries there are of batches before pos with offsets below next.
func (x *index) upTo(pos, next, base int64) (offsets, times int) {
	offsets = sort.Search(len(x.offsets), func(i int) bool {
		return int64(x.offsets[i].pos) >= pos || base+int64(x.offsets[i].rel) >= next
	})
	times = sort.Search(len(x.times), func(i int) bool { return base+int64(x.times[i].rel) >= next })
	return offsets, times
}

// before returns the last entry at or below rel.
func (x *index) before(rel int64) (e offsetEntry, ok bool) {
	i := sort.Search(len(x.offsets), func(i int) bool { return int64(x.offsets[i].rel) > rel })
	if i == 0 {
		return offsetEntry{}, false
	}
	return x.offsets[i-1], true
}

// older returns the last entry with a timestamp below ts.
func (x *index) older(ts int64) (e timeEntry, ok bool) {
	i := sort.Search(len(x.times), func(i int) bool { return x.times[i].ts >= ts })
	if i == 0 {
		return timeEntry{}, false
	}
	return x.times[i-1], true
}

// same reports whether y has the entries of x; x may have the final time entry in addition.
func (x *index) same(y *index) bool {
	if len(x.offsets) != len(y.offsets) || len(x.times) < len(y.times) || len(x.times) > len(y.times)+1 || x.rewritten {
		return false
	}
	for i := range y.offsets {
		if x.offsets[i] != y.offsets[i] {
			return false
		}
	}
	for i := range y.times {
		if x.times[i] != y.times[i] {
			return false
		}
	}
	return true
}

// IndexFull reports whether an index has no room for another batch's entry, so that the segment
// must roll. One entry of the time index is reserved for the final entry. Only the writer may call
// it.
func (s *Segment) IndexFull() bool {
	return s.end.Load()&math.MaxUint32 >= s.indexRoomBelow && s.indexFull()
}

func (s *Segment) indexFull() bool {
	if s.loadIndex() != nil {
		return false // the next Append meets it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.index.offsets) >= s.cfg.IndexBytes/offsetEntrySize || len(s.index.times) >= s.cfg.IndexBytes/timeEntrySize-1
}

const maxRelativeOffset = math.MaxInt32

// Overflows reports whether the segment's indexes cannot express a batch with this last offset, so
// that the segment must roll first.
func (s *Segment) Overflows(lastOffset int64) bool { return !Reaches(s.base, lastOffset) }

// Reaches reports whether the indexes of a segment with this base can express a batch with this
// last offset.
func Reaches(base, lastOffset int64) bool { return lastOffset-base <= maxRelativeOffset }

// Trim drops cached data of a segment that is not expected to be used soon. A sealed segment reads
// the data again when it needs it.
func (s *Segment) Trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropIndexLocked()
	s.positions.clear()
}

// dropIndexLocked removes the entries from memory if the files have them and no writer adds more.
func (s *Segment) dropIndexLocked() {
	x := &s.index
	if s.active != nil && !s.sealed.Load() || x.removed || !x.loaded || x.rewritten || x.flushedOffsets != len(x.offsets) || x.flushedTimes != len(x.times) {
		return
	}
	*x = index{gen: x.gen + 1}
}
