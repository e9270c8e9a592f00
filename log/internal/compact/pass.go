package compact

import (
	"context"
	"fmt"

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

	// PurgeBelow bounds what is taken of which no later record tells: tombstones and the markers of
	// transactions at or above it stay.
	PurgeBelow int64

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
