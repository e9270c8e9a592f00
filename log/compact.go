package log

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// A compaction is one pass over the closed segments of a log that keeps, of the records with the same key, only the last. It follows Kafka's cleaner
// (LogCleanerManager, Cleaner) so that either side can go on where the other stopped:
//
//	clean part [start, firstDirty) | dirty part [firstDirty, firstUncleanable) | not to be touched
//
// First the keys of the dirty part and their last offsets are gathered in a map of bounded size. Then everything before the end of what the map covers is
// written anew without the records that have a later one, segment by segment, small neighbours being merged, and each result is swapped in.
// The pass counts as done, and firstDirty moves, only when all of it is.
type compaction struct {
	fs       vfs.FS
	dir      string
	segment  segment.Config
	segments []*segment.Segment // ascending; the last is active
	now      int64              // ms
	limits   compactionLimits

	start      int64 // of the log
	firstDirty int64 // -1: none is known
	stable     int64 // records from here on may still change: last stable offset or high watermark

	// lastOf returns what a live producer wrote last, which must stay as an empty batch at least, so that its sequence is known. nil: no producers.
	lastOf func(producerID int64) (ProducerLast, bool)
	// replace makes install's segment take the place of old in the list; it fails without calling install if one of old is not what it was any more.
	replace func(old []*segment.Segment, install func() (*segment.Segment, error)) error
	// declare makes what is known of the segments elsewhere on disk fit the replacement, before the sources go. nil: nothing is known.
	declare func(old []*segment.Segment, now *segment.Segment) error
	// remove removes a source. nil: for good.
	remove func(*segment.Segment) error
}

// ProducerLast is the last trace of a producer that is still known: see Producers.
type ProducerLast struct {
	Offset int64 // of the last record with data, -1 if none is known any more
	Epoch  int16 // whose last marker stays then
}

// compactionLimits are the settings of a pass; times in ms.
type compactionLimits struct {
	segmentBytes    int64
	minDirtyRatio   float64
	minLag          int64
	maxLag          int64 // 0 or less: none
	deleteRetention int64
	mapBytes        int64
}

// A CompactionReport says what a compaction did, or why it did nothing.
type CompactionReport struct {
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
func (c *compaction) plan() (r cleanableRange, err error) {
	active := c.segments[len(c.segments)-1]
	r.firstDirty = c.firstDirty
	if r.firstDirty < c.start || r.firstDirty > active.NextOffset() {
		r.firstDirty = c.start
	}
	r.firstUncleanable = min(c.stable, active.Base())
	oldest := int64(math.MaxInt64)
	for _, s := range c.segments[:len(c.segments)-1] {
		if c.upper(s) <= r.firstDirty {
			r.cleanBytes += s.Size()
			continue
		}
		ts, err := largestTimestamp(c.fs, s)
		if err != nil {
			return r, err
		}
		if c.limits.minLag > 0 && ts > c.now-c.limits.minLag {
			r.firstUncleanable = min(r.firstUncleanable, s.Base())
		}
		if first, ok, err := s.FirstTimestamp(); err != nil {
			return r, err
		} else if ok && first > 0 {
			oldest = min(oldest, first)
		}
	}
	for _, s := range c.segments[:len(c.segments)-1] {
		if c.upper(s) <= r.firstDirty {
			continue
		}
		if c.upper(s) > r.firstUncleanable { // a segment is cleaned whole or not at all
			r.firstUncleanable = min(r.firstUncleanable, s.Base())
			break
		}
		r.dirtyBytes += s.Size()
	}
	r.overdue = c.limits.maxLag > 0 && r.dirtyBytes > 0 && oldest < c.now-c.limits.maxLag
	return r, nil
}

// upper returns the base of the segment after s, which is where the range of s ends: its own last records may be gone.
func (c *compaction) upper(s *segment.Segment) int64 {
	if i := slices.Index(c.segments, s); i+1 < len(c.segments) {
		return c.segments[i+1].Base()
	}
	return s.NextOffset()
}

// run does a pass if the dirty part is large or old enough. rep.End is where the next pass begins; it holds also with an error that came after.
func (c *compaction) run(ctx context.Context) (rep CompactionReport, err error) {
	r, err := c.plan()
	rep = CompactionReport{FirstDirty: r.firstDirty, FirstUncleanable: r.firstUncleanable, End: r.firstDirty, DirtyRatio: r.ratio()}
	switch {
	case err != nil:
		return rep, fmt.Errorf("plan compaction of %s: %w", c.dir, err)
	case r.dirtyBytes == 0:
		rep.Skipped = "no closed segment has anything new that may be compacted"
		return rep, nil
	case !r.overdue && r.ratio() <= c.limits.minDirtyRatio:
		rep.Skipped = fmt.Sprintf("dirty ratio %.2f is not above %.2f", r.ratio(), c.limits.minDirtyRatio)
		return rep, nil
	}
	m, err := c.gather(ctx, r)
	if err != nil {
		return rep, fmt.Errorf("compact %s: %w", c.dir, err)
	}
	rep.MapFull = m.full()
	w := &compactWriter{compaction: c, keys: m, upper: r.firstUncleanable, rep: &rep}
	w.txns = newTxnFilter(w.keepAborted)
	for _, group := range c.groups(m.latest+1, r.firstUncleanable) {
		if err := w.group(ctx, group); err != nil {
			return rep, fmt.Errorf("compact %s: segments from offset %d: %w", c.dir, group[0].Base(), err)
		}
	}
	rep.End = m.latest + 1
	return rep, nil
}

// gather maps the keys of the dirty part to their last offsets. Records of aborted transactions do not count.
func (c *compaction) gather(ctx context.Context, r cleanableRange) (*offsetMap, error) {
	m := newOffsetMap(c.limits.mapBytes)
	m.latest = r.firstDirty - 1
	txns := newTxnFilter(nil)
	for _, s := range c.segments {
		upper := c.upper(s)
		if upper <= r.firstDirty {
			continue
		}
		if s.Base() >= r.firstUncleanable {
			break
		}
		if err := c.addAborted(txns, max(s.Base(), r.firstDirty), upper); err != nil {
			return nil, err
		}
		full, err := c.gatherSegment(ctx, m, s, r.firstDirty, txns)
		if err != nil || full {
			return m, err
		}
		m.latest = upper - 1 // there may be nothing at the end
	}
	return m, nil
}

// gatherSegment reports whether the map took no more.
func (c *compaction) gatherSegment(ctx context.Context, m *offsetMap, s *segment.Segment, from int64, txns *txnFilter) (full bool, err error) {
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

// addAborted tells txns of the aborted transactions that have records or their marker in [from, upper).
func (c *compaction) addAborted(txns *txnFilter, from, upper int64) error {
	for _, s := range c.segments {
		if c.upper(s) <= from {
			continue
		}
		found, done, err := s.Aborted(from, upper)
		if err != nil {
			return err
		}
		txns.add(found)
		if done {
			return nil
		}
	}
	return nil
}

// groups puts neighbours below end together as long as they fit into one segment. A group never reaches across firstUncleanable.
func (c *compaction) groups(end, firstUncleanable int64) [][]*segment.Segment {
	var out [][]*segment.Segment
	var size, indexes int64
	for _, s := range c.segments[:len(c.segments)-1] {
		if s.Base() >= end || s.Base() >= firstUncleanable {
			break
		}
		index := c.indexSize(s)
		fits := len(out) > 0 && size+s.Size() <= c.limits.segmentBytes && indexes+index <= int64(c.indexBytes()) &&
			(s.Size() == 0 || c.upper(s)-1-out[len(out)-1][0].Base() <= math.MaxInt32)
		if !fits {
			out, size, indexes = append(out, nil), 0, 0
		}
		out[len(out)-1] = append(out[len(out)-1], s)
		size, indexes = size+s.Size(), indexes+index
	}
	return out
}

func (c *compaction) indexBytes() int {
	if c.segment.IndexBytes > 0 {
		return c.segment.IndexBytes
	}
	return segment.DefaultIndexBytes
}

// indexSize returns the size of the larger index of s, 0 if there is none.
func (c *compaction) indexSize(s *segment.Segment) (size int64) {
	for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix} {
		if info, err := c.fs.Stat(filePath(c.dir, s.Base(), suffix)); err == nil {
			size = max(size, info.Size())
		}
	}
	return size
}
