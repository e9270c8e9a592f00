package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// byKey compacts a log of positions of ships. It keeps the last position of every ship, and of a
// sunk ship (a tombstone) finally nothing.
func byKey(ctx context.Context, dir string, out io.Writer) error {
	cfg := log.Config{Cleanup: log.CleanupCompact, MinDirtyRatio: 0.01, DeleteRetention: 50 * time.Millisecond, Sync: log.SyncNever}
	return with(dir, "key", cfg, func(l *log.Log) error {
		for i := range 30 {
			r := record.String("", []string{"Argo", "Bounty", "Calypso"}[i%3], fmt.Sprint("position ", i/3))
			if _, err := l.Append(ctx, r); err != nil {
				return err
			}
		}
		// no value: a tombstone
		if _, err := l.Append(ctx, record.Record{Key: []byte("Bounty")}); err != nil {
			return err
		}
		if err := l.Roll(); err != nil { // the active segment is never compacted
			return err
		}
		if err := compact(ctx, l, "Compaction: the last record of each key remains, at its offset.", out); err != nil {
			return err
		}
		select { // the tombstone remains for DeleteRetention, for readers that are behind it
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, err := l.Append(ctx, record.String("", "Argo", "position 10")); err != nil {
			return err
		}
		if err := l.Roll(); err != nil {
			return err
		}
		return compact(ctx, l, "A later compaction: delete.retention.ms has passed for the tombstone.", out)
	})
}

func compact(ctx context.Context, l *log.Log, title string, out io.Writer) error {
	rep, err := l.Clean(ctx)
	if err != nil {
		return err
	}
	c := rep.Compaction
	if c == nil || c.Skipped != "" {
		return fmt.Errorf("nothing was compacted: %+v", c)
	}
	fmt.Fprintf(out, "%s %d records in %d bytes became %d in %d.\n", title, c.RecordsBefore, c.BytesBefore, c.RecordsAfter, c.BytesAfter)
	for r, err := range l.Records(l.StartOffset()) {
		if err != nil {
			return err
		}
		value := string(r.Value)
		if r.Value == nil {
			value = "(tombstone)"
		}
		fmt.Fprintf(out, "  %2d  %-7s  %s\n", r.Offset, r.Key, value)
	}
	fmt.Fprintln(out)
	return nil
}

// fineness applies the same retention to logs with smaller and larger segments.
func fineness(ctx context.Context, dir string, out io.Writer) error {
	fmt.Fprintln(out, "200 records, one a minute, 50 minutes of retention: with smaller segments the log is closer to 50 records, and has more files.")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "segment bytes\tsegments\tafterwards\trecords left\tof them too old\t")
	for _, size := range []int64{4 << 10, 16 << 10, 64 << 10, 1 << 20} {
		cfg := log.Config{SegmentBytes: size, RetentionAge: 50 * time.Minute, SegmentAge: log.DefaultSegmentAge, Sync: log.SyncNever}
		err := with(dir, fmt.Sprint("fineness-", size), cfg, func(l *log.Log) error {
			if err := fill(ctx, l, 200, time.Minute); err != nil {
				return err
			}
			before := len(l.Segments())
			if _, err := l.Clean(ctx); err != nil {
				return err
			}
			left := l.EndOffset() - l.StartOffset()
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t\n", size, before, len(l.Segments()), left, left-50)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return w.Flush()
}
