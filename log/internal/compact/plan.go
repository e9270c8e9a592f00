package compact

import (
	"math"
	"slices"

	"github.com/stratalog/strata/internal/segment"
)

// A cleanableRange is the dirty part of a log that a compaction can process.
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

// plan finds the range by whole closed segments. The active segment has the offsets [base, end).
func (c *Pass) plan(closed []*segment.Segment, base, end int64) (r cleanableRange, err error) {
	r.firstDirty = c.FirstDirty
	if r.firstDirty < c.Start || r.firstDirty > end {
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
	r.firstUncleanable = min(c.Stable, base, young)
	for _, s := range dirty {
		if c.upper(s) > r.firstUncleanable { // a segment is cleaned completely or not at all
			r.firstUncleanable = min(r.firstUncleanable, s.Base())
			break
		}
		r.dirtyBytes += s.Size()
	}
	r.overdue = c.Limits.MaxLag > 0 && r.dirtyBytes > 0 && oldest < c.Now-c.Limits.MaxLag
	return r, nil
}

// ages returns the base of the first of segs with a record that is younger than the minimum lag,
// and the timestamp of the oldest record at the beginning of one of segs; math.MaxInt64 if there is
// none.
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

// upper returns the end of the range of s: the base of the next segment, since the last records of
// s may have been removed.
func (c *Pass) upper(s *segment.Segment) int64 {
	if i := slices.Index(c.Segments, s); i+1 < len(c.Segments) {
		return c.Segments[i+1].Base()
	}
	return max(s.NextOffset(), c.end)
}

// groups puts neighbouring segments below end together as long as they fit into one segment. No
// group extends beyond firstUncleanable.
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

// emptyNeighbours returns the runs of two and more closed segments without batches that end below
// end.
func (c *Pass) emptyNeighbours(end int64) (out [][]*segment.Segment) {
	var run []*segment.Segment
	for i, s := range c.Segments { // the active one ends the last run
		if i < len(c.Segments)-1 && s.Size() == 0 && c.upper(s) <= end {
			run = append(run, s)
			continue
		}
		if len(run) > 1 {
			out = append(out, run)
		}
		run = nil
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
