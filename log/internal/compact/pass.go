package compact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// A Pass goes once over the closed segments of a log and keeps, of the records with the same key,
// only the last. It follows Kafka's cleaner (LogCleanerManager, Cleaner) so that either side can go
// on where the other stopped:
//
//	clean part [Start, FirstDirty) | dirty part [FirstDirty, firstUncleanable) | not to be touched
//
// First the keys of the dirty part and their last offsets are gathered in a map of bounded size.
// Then everything before the end of what the map covers is written anew without the records that
// have a later one, segment by segment, small neighbours being merged, and each Result is handed to
// Replace. The pass counts as done only when all of it is.
//
// All fields but LastOf are needed. A Pass is used once, by one goroutine.
type Pass struct {
	FS       vfs.FS
	Dir      string
	Segment  segment.Config     // of the results
	Segments []*segment.Segment // ascending; the last is active
	Now      int64              // ms
	Limits   Limits

	Start      int64 // of the log
	FirstDirty int64 // what Report.End of the pass before said; -1: none is known
	Stable     int64 // records from here on may still change: last stable offset or high watermark

	// LastOf returns what a live producer wrote last, which must stay as an empty batch at least,
	// so that its sequence is known. nil: no producers.
	LastOf func(producerID int64) (ProducerLast, bool)
	// Newest returns the largest timestamp of a segment in ms, or when it was last written to if
	// its records have none.
	Newest func(*segment.Segment) (int64, error)
	// Replace makes r take the place of its sources, or returns an error if one of them is not what
	// it was any more. It calls r.Commit, then r.Install.
	Replace func(r *Result) error

	aborted []segment.AbortedTxn // of all segments, in order of their markers; read once
}

// ProducerLast is the last trace of a producer that is still known: see Producers.
type ProducerLast struct {
	Offset int64 // of the last record with data, -1 if none is known any more
	Epoch  int16 // whose last marker stays then
}

// Limits are the settings of a pass; times in ms.
type Limits struct {
	SegmentBytes    int64
	MinDirtyRatio   float64
	MinLag          int64
	MaxLag          int64 // 0 or less: none
	DeleteRetention int64
	MapBytes        int64
}

// A Report says what a compaction did, or why it did nothing.
type Report struct {
	Skipped          string // why nothing was done; empty: it was
	FirstDirty       int64  // first offset that no earlier compaction had seen
	FirstUncleanable int64  // first offset that must stay as it is
	End              int64  // offsets below are compacted now
	DirtyRatio       float64
	MapFull          bool // the map took no more keys: the rest is for the next pass

	SegmentsBefore, SegmentsAfter int
	RecordsBefore, RecordsAfter   int64
	BytesBefore, BytesAfter       int64
}

// A cleanableRange is what a compaction would work on.
type cleanableRange struct {
	firstDirty, firstUncleanable int64
	cleanBytes, dirtyBytes       int64
	overdue                      bool // a dirty record is older than the maximum lag
}

func (r cleanableRange) ratio() float64 {
	if r.dirtyBytes == 0 {
		return 0
	}
	return float64(r.dirtyBytes) / float64(r.cleanBytes+r.dirtyBytes)
}

// plan finds the range by whole segments.
func (c *Pass) plan() (r cleanableRange, err error) {
	closed, active := c.Segments[:len(c.Segments)-1], c.Segments[len(c.Segments)-1]
	r.firstDirty = c.FirstDirty
	if r.firstDirty < c.Start || r.firstDirty > active.NextOffset() {
		r.firstDirty = c.Start
	}
	dirty := closed[len(closed):]
	for i, s := range closed {
		if c.upper(s) > r.firstDirty {
			dirty = closed[i:]
			break
		}
		r.cleanBytes += s.Size()
	}
	young, oldest, err := c.ages(dirty)
	if err != nil {
		return r, err
	}
	r.firstUncleanable = min(c.Stable, active.Base(), young)
	for _, s := range dirty {
		if c.upper(s) > r.firstUncleanable { // a segment is cleaned whole or not at all
			r.firstUncleanable = min(r.firstUncleanable, s.Base())
			break
		}
		r.dirtyBytes += s.Size()
	}
	r.overdue = c.Limits.MaxLag > 0 && r.dirtyBytes > 0 && oldest < c.Now-c.Limits.MaxLag
	return r, nil
}

// ages returns the base of the first of segs with a record that is younger than the minimum lag, and
// the timestamp of the oldest record at the beginning of one of segs; math.MaxInt64 if there is none.
func (c *Pass) ages(segs []*segment.Segment) (young, oldest int64, err error) {
	young, oldest = math.MaxInt64, math.MaxInt64
	for _, s := range segs {
		newest, err := c.Newest(s)
		if err != nil {
			return 0, 0, err
		}
		if c.Limits.MinLag > 0 && newest > c.Now-c.Limits.MinLag {
			young = min(young, s.Base())
		}
		if first, ok, err := s.FirstTimestamp(); err != nil {
			return 0, 0, err
		} else if ok && first > 0 {
			oldest = min(oldest, first)
		}
	}
	return young, oldest, nil
}

// upper returns the base of the segment after s, which is where the range of s ends: its own last
// records may be gone.
func (c *Pass) upper(s *segment.Segment) int64 {
	if i := slices.Index(c.Segments, s); i+1 < len(c.Segments) {
		return c.Segments[i+1].Base()
	}
	return s.NextOffset()
}

// Run does a pass if the dirty part is large or old enough. Cancelling ctx ends it at the next
// batch; what was replaced until then stays. rep.End is where the next pass begins; it holds also
// with an error that came after.
func (c *Pass) Run(ctx context.Context) (rep Report, err error) {
	r, err := c.plan()
	rep = Report{FirstDirty: r.firstDirty, FirstUncleanable: r.firstUncleanable, End: r.firstDirty, DirtyRatio: r.ratio()}
	switch {
	case err != nil:
		return rep, fmt.Errorf("plan compaction of %s: %w", c.Dir, err)
	case r.dirtyBytes == 0:
		rep.Skipped = "no closed segment has anything new that may be compacted"
		return rep, nil
	case !r.overdue && r.ratio() <= c.Limits.MinDirtyRatio:
		rep.Skipped = fmt.Sprintf("dirty ratio %.2f is not above %.2f", r.ratio(), c.Limits.MinDirtyRatio)
		return rep, nil
	}
	if err := c.removeLeftovers(); err != nil {
		return rep, fmt.Errorf("compact %s: %w", c.Dir, err)
	}
	if err := c.readAborted(); err != nil {
		return rep, fmt.Errorf("compact %s: %w", c.Dir, err)
	}
	m, err := c.gather(ctx, r)
	if err != nil {
		return rep, fmt.Errorf("compact %s: %w", c.Dir, err)
	}
	rep.MapFull = m.full()
	w := &compactWriter{Pass: c, keys: m, upper: r.firstUncleanable, rep: &rep}
	w.txns = newTxnFilter(w.keepAborted)
	for _, group := range c.groups(m.latest+1, r.firstUncleanable) {
		if err := w.group(ctx, group); err != nil {
			return rep, fmt.Errorf("compact %s: segments from offset %d: %w", c.Dir, group[0].Base(), err)
		}
	}
	rep.End = m.latest + 1
	return rep, nil
}

// gather maps the keys of the dirty part to their last offsets. Records of aborted transactions do
// not count.
func (c *Pass) gather(ctx context.Context, r cleanableRange) (*offsetMap, error) {
	m := newOffsetMap(c.Limits.MapBytes)
	m.latest = r.firstDirty - 1
	txns := newTxnFilter(nil)
	for _, s := range c.Segments {
		upper := c.upper(s)
		if upper <= r.firstDirty {
			continue
		}
		if s.Base() >= r.firstUncleanable {
			break
		}
		c.addAborted(txns, max(s.Base(), r.firstDirty), upper)
		full, err := c.gatherSegment(ctx, m, s, r.firstDirty, txns)
		if err != nil || full {
			return m, err
		}
		m.latest = upper - 1 // there may be nothing at the end
	}
	return m, nil
}

// gatherSegment reports whether the map took no more.
func (c *Pass) gatherSegment(ctx context.Context, m *offsetMap, s *segment.Segment, from int64, txns *txnFilter) (full bool, err error) {
	for b, err := range s.Batches(max(from, s.Base())) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return false, err
		}
		discard, err := txns.discard(b)
		if err != nil {
			return false, err
		}
		if !discard && !b.IsControl() {
			if full, err := gatherBatch(m, b, from); err != nil || full {
				return full, err
			}
		}
		m.latest = max(m.latest, b.LastOffset())
	}
	return false, nil
}

func gatherBatch(m *offsetMap, b *record.Batch, from int64) (full bool, err error) {
	it, err := b.Records(math.MaxInt32) // it was accepted once
	if err != nil {
		return false, err
	}
	var r record.Record
	for {
		ok, err := it.Next(&r)
		if err != nil || !ok {
			return false, err
		}
		if r.Key == nil || r.Offset < from {
			continue
		}
		if m.full() && m.get(r.Key) < 0 {
			return true, nil
		}
		m.put(r.Key, r.Offset)
		m.latest = max(m.latest, r.Offset)
	}
}

// readAborted reads the transaction indexes of all segments, each once: whoever looks for the
// transactions of one segment has to look at all that follow, since it may hold only their
// beginning.
func (c *Pass) readAborted() error {
	for _, s := range c.Segments {
		found, _, err := s.Aborted(0, math.MaxInt64)
		if err != nil {
			return err
		}
		c.aborted = append(c.aborted, found...)
	}
	return nil
}

// addAborted tells txns of the aborted transactions that have records or their marker in [from,
// upper).
func (c *Pass) addAborted(txns *txnFilter, from, upper int64) {
	i, _ := slices.BinarySearchFunc(c.aborted, from, func(t segment.AbortedTxn, from int64) int { return cmp.Compare(t.LastOffset, from) })
	var found []segment.AbortedTxn
	for _, t := range c.aborted[i:] {
		if t.FirstOffset < upper {
			found = append(found, t)
		}
		if t.LastStableOffset >= upper { // of the others all records come later
			break
		}
	}
	txns.add(found)
}

// groups puts neighbours below end together as long as they fit into one segment. A group never
// reaches across firstUncleanable.
func (c *Pass) groups(end, firstUncleanable int64) [][]*segment.Segment {
	var out [][]*segment.Segment
	var size, indexes int64
	for _, s := range c.Segments[:len(c.Segments)-1] {
		if s.Base() >= end || s.Base() >= firstUncleanable {
			break
		}
		index := c.indexSize(s)
		fits := len(out) > 0 && size+s.Size() <= c.Limits.SegmentBytes && indexes+index <= int64(c.indexBytes()) &&
			(s.Size() == 0 || c.upper(s)-1-out[len(out)-1][0].Base() <= math.MaxInt32)
		if !fits {
			out, size, indexes = append(out, nil), 0, 0
		}
		out[len(out)-1] = append(out[len(out)-1], s)
		size, indexes = size+s.Size(), indexes+index
	}
	return out
}

func (c *Pass) indexBytes() int {
	if c.Segment.IndexBytes > 0 {
		return c.Segment.IndexBytes
	}
	return segment.DefaultIndexBytes
}

// indexSize returns the size of the larger index of s, 0 if there is none.
func (c *Pass) indexSize(s *segment.Segment) (size int64) {
	for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix} {
		if info, err := c.FS.Stat(filePath(c.Dir, s.Base(), suffix)); err == nil {
			size = max(size, info.Size())
		}
	}
	return size
}
