package compact

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/vfs"
)

// A Pass processes the closed segments of a log once and keeps, of the records with the same key,
// only the last. It follows Kafka's cleaner (LogCleanerManager, Cleaner), so that Kafka and Strata
// can continue where the other stopped:
//
//	clean part [Start, FirstDirty) | dirty part [FirstDirty, firstUncleanable) | not to be touched
//
// First it collects the keys of the dirty part and their last offsets in a map of bounded size.
// Then it rewrites all segments up to the end of the part that the map covers, without the records
// that have a later one. It merges small neighbouring segments, and passes each Result to Replace.
// The pass is done only when all Results are.
//
// All fields except LastOf are required. A Pass is used once, by one goroutine.
type Pass struct {
	FS       vfs.FS
	Dir      string
	Segment  segment.Config     // of the results
	Segments []*segment.Segment // ascending; the last is active
	Now      int64              // ms
	Limits   Limits

	Start      int64 // log start offset
	FirstDirty int64 // Report.End of the previous pass; -1 if unknown
	Stable     int64 // last stable offset or high watermark: records from here on may still change

	// PurgeBelow is the bound for removing records without a trace: tombstones and transaction
	// markers at or above it are kept.
	PurgeBelow int64

	// LastOf returns the last append of a live producer, which is kept at least as an empty batch,
	// so that its sequence survives. nil means that there are no producers.
	LastOf func(producerID int64) (ProducerLast, bool)
	// Newest returns the largest timestamp of a segment in ms, or the time of its last write if its
	// records have none.
	Newest func(*segment.Segment) (int64, error)
	// Replace replaces the sources of r with r, or returns an error if one of the sources has
	// changed. It calls r.Commit, then r.Install.
	Replace func(r *Result) error

	aborted []segment.AbortedTxn // of all segments, in order of their markers; read once
	end     int64                // of the last segment, if it is above its last record; see Preview
	room    int64                // maximum size of a result in bytes; 0 means math.MaxInt32
}

// A ProducerLast has the last append of a known producer: see Producers.
type ProducerLast struct {
	Offset int64 // of the last record with data, or -1 if there is none
	Epoch  int16 // the epoch whose last marker is kept in that case
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

// A Report is the result of a compaction. A skipped compaction may have merged segments without
// batches.
type Report struct {
	Skipped          string // why nothing was done; empty if something was
	FirstDirty       int64  // first offset that no earlier compaction has processed
	FirstUncleanable int64  // first offset that must not be compacted
	End              int64  // offsets below are compacted now
	DirtyRatio       float64
	MapFull          bool // the map was full: the rest is left to the next pass

	SegmentsBefore, SegmentsAfter int
	RecordsBefore, RecordsAfter   int64
	BytesBefore, BytesAfter       int64
}

// mergeEmpty makes one segment of neighbours without batches, in a log that has nothing else to
// compact. A pass leaves them where the offsets of its sources are too far apart for one index.
func (c *Pass) mergeEmpty(ctx context.Context, r cleanableRange, rep *Report) error {
	groups := c.emptyNeighbours(min(r.firstDirty, r.firstUncleanable))
	if len(groups) == 0 {
		return nil
	}
	if err := c.removeLeftovers(); err != nil {
		return fmt.Errorf("compact %s: %w", c.Dir, err)
	}
	if err := c.readAborted(); err != nil {
		return fmt.Errorf("compact %s: %w", c.Dir, err)
	}
	w := &compactWriter{Pass: c, upper: r.firstUncleanable, rep: rep}
	w.txns = newTxnFilter(w.keepAborted)
	for _, group := range groups {
		if err := w.group(ctx, group); err != nil {
			return fmt.Errorf("compact %s: segments from offset %d: %w", c.Dir, group[0].Base(), err)
		}
	}
	return nil
}

// begin decides whether a pass over closed segments has enough to do. The active segment has the
// offsets [base, end). The Report has everything that is known before records are read.
func (c *Pass) begin(closed []*segment.Segment, base, end int64) (r cleanableRange, rep Report, err error) {
	r, err = c.plan(closed, base, end)
	rep = Report{FirstDirty: r.firstDirty, FirstUncleanable: r.firstUncleanable, End: r.firstDirty, DirtyRatio: r.ratio()}
	switch {
	case err != nil:
		err = fmt.Errorf("plan compaction of %s: %w", c.Dir, err)
	case r.dirtyBytes == 0:
		rep.Skipped = "no closed segment has anything new that may be compacted"
	case !r.overdue && r.ratio() <= c.Limits.MinDirtyRatio:
		rep.Skipped = fmt.Sprintf("dirty ratio %.2f is not above %.2f", r.ratio(), c.Limits.MinDirtyRatio)
	}
	return r, rep, err
}

// Preview returns the beginning of Run's Report: why the pass does nothing, or where it begins.
// Unless rollAt is negative, all Segments are taken as closed, with an empty active segment at
// rollAt. Preview changes nothing.
func (c *Pass) Preview(rollAt int64) (rep Report, err error) {
	if rollAt >= 0 {
		c.end = rollAt
		_, rep, err = c.begin(c.Segments, rollAt, rollAt)
		return rep, err
	}
	closed, active := c.split()
	_, rep, err = c.begin(closed, active.Base(), active.NextOffset())
	return rep, err
}

// split returns the closed segments and the active one.
func (c *Pass) split() (closed []*segment.Segment, active *segment.Segment) {
	n := len(c.Segments) - 1
	return c.Segments[:n], c.Segments[n]
}

// Run runs the pass if the dirty part is large or old enough. If ctx ends, the pass ends at the
// next batch; segments that are replaced by then stay replaced. rep.End is the start of the next
// pass. It is valid also with a later error.
func (c *Pass) Run(ctx context.Context) (rep Report, err error) {
	closed, active := c.split()
	r, rep, err := c.begin(closed, active.Base(), active.NextOffset())
	switch {
	case err != nil:
		return rep, err
	case r.dirtyBytes == 0:
		return rep, c.mergeEmpty(ctx, r, &rep)
	case rep.Skipped != "":
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
