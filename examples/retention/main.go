// Command retention shows the deletion of records: by age, by size, by request, and by key. It
// prints for every Clean which segments it deleted, which it kept, and why.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "retention:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "strata-retention-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, part := range []func(context.Context, string, io.Writer) error{bySize, byAge, byRequest, byKey, fineness} {
		if err := part(ctx, dir, out); err != nil {
			return err
		}
	}
	return nil
}

// with opens a log below dir, lets f work with it and closes it.
func with(dir, name string, cfg log.Config, f func(*log.Log) error) error {
	l, err := log.Open(filepath.Join(dir, name), cfg)
	if err != nil {
		return err
	}
	return errors.Join(f(l), l.Close())
}

// fill appends n records of about 1 KiB each, one per batch. The timestamp of the last is now,
// and each earlier timestamp is step before the next.
func fill(ctx context.Context, l *log.Log, n int, step time.Duration) error {
	value, now := []byte(strings.Repeat("x", 950)), time.Now()
	for i := range n {
		r := record.Record{Value: value, Timestamp: now.Add(-time.Duration(n-1-i) * step)}
		if _, err := l.Append(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func bySize(ctx context.Context, dir string, out io.Writer) error {
	fmt.Fprintln(out, "100 records of 1 KiB in segments of 16 KiB: a full segment is closed, the next one takes the appends.")
	return with(dir, "size", log.Config{SegmentBytes: 16 << 10, RetentionBytes: 40 << 10, Sync: log.SyncNever}, func(l *log.Log) error {
		if err := fill(ctx, l, 100, 0); err != nil {
			return err
		}
		if err := table(l, out); err != nil {
			return err
		}
		return clean(ctx, l, "Retention by size, 40 KiB: old segments are deleted as long as at least that much remains.", out)
	})
}

func byAge(ctx context.Context, dir string, out io.Writer) error {
	return with(dir, "age", log.Config{SegmentBytes: 16 << 10, RetentionAge: time.Hour, SegmentAge: log.DefaultSegmentAge, Sync: log.SyncNever}, func(l *log.Log) error {
		if err := fill(ctx, l, 100, time.Minute); err != nil { // the first is 99 minutes old
			return err
		}
		return clean(ctx, l, "Retention by age, one hour, with a record a minute: a segment is deleted when its newest record is too old.", out)
	})
}

func byRequest(ctx context.Context, dir string, out io.Writer) error {
	return with(dir, "request", log.Config{SegmentBytes: 16 << 10, Sync: log.SyncNever}, func(l *log.Log) error {
		if err := fill(ctx, l, 40, 0); err != nil {
			return err
		}
		if err := l.DeleteRecords(25); err != nil {
			return err
		}
		_, err := l.Read(nil, 24, 1<<10)
		if !errors.Is(err, log.ErrOffsetOutOfRange) {
			return fmt.Errorf("record 24 can still be read: %v", err)
		}
		fmt.Fprintf(out, "DeleteRecords(25): the log starts at %d at once; reading 24: %v\n", l.StartOffset(), err)
		return clean(ctx, l, "The next Clean deletes the files, whole segments only.", out)
	})
}

// table prints the segments of a log.
func table(l *log.Log, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "offsets\tbytes\t\t")
	for _, s := range l.Segments() {
		state := "closed"
		if s.Active {
			state = "active"
		}
		fmt.Fprintf(w, "[%d, %d)\t%d\t%s\t\n", s.BaseOffset, s.NextOffset, s.Size, state)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// clean prints the decision of Clean for every segment.
func clean(ctx context.Context, l *log.Log, title string, out io.Writer) error {
	rep, err := l.Clean(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, title)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range rep.Segments {
		verdict := "stays"
		if s.Removed {
			verdict = "goes"
		}
		fmt.Fprintf(w, "  [%d, %d)\t%s\t%s\n", s.BaseOffset, s.NextOffset, verdict, s.Reason)
	}
	fmt.Fprintf(w, "  the log is [%d, %d) now\n\n", rep.StartOffset, l.EndOffset())
	return w.Flush()
}
