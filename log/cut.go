package log

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/vfs"
)

// A Cut is the content of a log at one instant: its records from the start offset to EndOffset.
// Taking a cut reads no file and does not wait, so that the cuts of many logs can be of the same
// instant; they can be copied later. Appends, compaction, deletion and retention after that instant
// do not affect the cut: the files of removed segments stay on disk until Release.
//
// A truncation invalidates the cut: Backup returns ErrChanged then. A Cut must not be used
// concurrently.
type Cut struct {
	l          *Log
	segments   []*segment.Segment // acquired; at least one
	start, end int64
	epochs     []epochEntry
	purged     Purged
	cuts       int64 // durability.cuts before
}

// Cut returns the present content of the log. The caller must release it. Cut takes no lock, does
// no I/O and does not wait. It returns ErrClosed, ErrReadOnly, or the sticky error of a broken log.
func (l *Log) Cut() (*Cut, error) {
	for {
		if err := l.refusal(); err != nil {
			return nil, fmt.Errorf("cut %s: %w", l.path, err)
		}
		c := &Cut{l: l, cuts: l.durability.cuts.Load(), epochs: l.epochs.list()}
		// The list is stored before an end in it, and start moves before the list loses segments in
		// front. So in this order the list has everything from start to end; truncations meanwhile
		// are counted in cuts.
		c.end = l.segments.end.Load()
		c.segments = l.list()
		c.start = min(max(l.segments.start.Load(), c.segments[0].Base()), c.end)
		c.purged = l.Purged() // after the list: it covers the records that are missing there
		// An epoch begins at the end before its first batch, and is removed after its last one.
		// The epochs have not changed in the meantime, so they belong to the offsets from start to
		// end.
		if slices.Equal(c.epochs, l.epochs.list()) && c.acquire() {
			return c, nil
		}
	}
}

// acquire keeps the segments of the cut readable, and drops segments that begin after its end. It
// returns false, with nothing acquired, if one was removed in the meantime.
func (c *Cut) acquire() bool {
	n := len(c.segments)
	for n > 1 && c.segments[n-1].Base() > c.end {
		n--
	}
	c.segments = slices.Clone(c.segments[:n])
	for i, s := range c.segments {
		if !s.Acquire() {
			c.segments = c.segments[:i]
			c.Release()
			return false
		}
	}
	return true
}

// StartOffset returns the offset of the first record of the cut.
func (c *Cut) StartOffset() int64 { return c.start }

// EndOffset returns the offset after the last record of the cut.
func (c *Cut) EndOffset() int64 { return c.end }

// Backup copies the cut as Log.Backup copies a log, once: it returns ErrChanged if the log was
// truncated since the cut was taken.
func (c *Cut) Backup(ctx context.Context, fsys vfs.FS, dir string) error {
	if fsys == nil {
		fsys = c.l.cfg.Load().FS
	}
	err := checkVacant(fsys, dir)
	if err == nil {
		err = c.copyTo(ctx, fsys, dir)
	}
	if errors.Is(err, errChanged) {
		err = ErrChanged
	}
	if err != nil {
		return fmt.Errorf("backup %s to %s: %w", c.l.path, dir, err)
	}
	return nil
}

// Release allows the files that the cut keeps on disk to be deleted. It is idempotent.
func (c *Cut) Release() {
	for _, s := range c.segments {
		if err := s.Release(); err != nil {
			c.l.cfg.Load().Logger.Warn("file of a removed segment stays until the next open", "path", s.Path(), "err", err)
		}
	}
	c.segments = nil
}
