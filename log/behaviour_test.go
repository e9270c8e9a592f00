package log_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// Tests of the first rows of the checklist, as a user of a log sees them.

// openAt opens the log in "log" and closes it with the test.
func openAt(t *testing.T, fsys vfs.FS, cfg log.Config) *log.Log {
	t.Helper()
	cfg.FS = fsys
	l, err := log.Open("log", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// at returns a record with a timestamp in seconds since 1970.
func at(seconds int64, value string) record.Record {
	return record.Record{Key: []byte("k"), Value: []byte(value), Timestamp: time.Unix(seconds, 0), Headers: []record.Header{{Key: "h", Value: []byte("v")}}}
}

// appendAll appends each record as a batch of its own.
func appendAll(t *testing.T, l *log.Log, rs ...record.Record) {
	t.Helper()
	for _, r := range rs {
		_, err := l.Append(t.Context(), r)
		require.NoError(t, err)
	}
}

// show returns the records of l from offset from on, each as text with all of its fields.
func show(t *testing.T, l *log.Log, from int64) (rs []string) {
	t.Helper()
	for r, err := range l.Records(from) {
		require.NoError(t, err)
		rs = append(rs, fmt.Sprint(r.Offset, r.LeaderEpoch, r.Timestamp.UnixMilli(), string(r.Key), string(r.Value), r.Headers))
	}
	return rs
}

// Row 2: a record that was written reads the same, regardless of the calls that follow.
func TestWrittenRecordsStayAsTheyWere(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := openAt(t, disk, log.Config{SegmentBytes: 2000, RetentionAge: log.Unlimited})
	_, err := l.Read(nil, 0, 1) // keeps later batches in memory, for readers at the end
	require.NoError(t, err)
	r := at(1, "first")
	for i := range 40 {
		r.Value = []byte(fmt.Sprint("value ", i))
		appendAll(t, l, r)
		copy(r.Value, "changed by its owner")
	}
	want := show(t, l, 0)
	require.Len(t, want, 40)
	for name, call := range map[string]func() error{
		"append with the same key":  func() error { _, err := l.Append(t.Context(), at(1, "first")); return err },
		"append that is refused":    func() error { _, _ = l.AppendBatch(t.Context(), []byte("no batch")); return nil },
		"append of an older record": func() error { _, err := l.Append(t.Context(), at(0, "old")); return err },
		"roll":                      l.Roll,
		"sync":                      l.Sync,
		"next leader":               func() error { return l.SetLeaderEpoch(7) },
		"clean":                     func() error { _, err := l.Clean(t.Context()); return err },
		"reconfigure":               func() error { return l.Reconfigure(log.Config{SegmentBytes: 500, RetentionAge: log.Unlimited}) },
		"deletion before":           func() error { return l.DeleteRecords(5) },
		"backup":                    func() error { return l.Backup(t.Context(), nil, "copy") },
		"what was read is written to": func() error {
			for from := l.StartOffset(); from < 40; from++ {
				p, err := l.Read(nil, from, 1)
				clear(p)
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		require.NoError(t, call(), name)
		require.Equal(t, want[l.StartOffset():], show(t, l, l.StartOffset())[:40-l.StartOffset()], name)
	}
	again := openAt(t, disk.Kill(), log.Config{})
	require.Equal(t, want[5:], show(t, again, 5)[:35], "after a kill")
}

// Row 3: records are read in the order of their appends, from any offset and regardless of how
// they were submitted.
func TestRecordsAreReadInTheOrderOfTheirAppends(t *testing.T) {
	t.Parallel()
	for _, policy := range []log.SyncPolicy{log.SyncOnAck, log.SyncNever} {
		l := openAt(t, vfs.Mem(), log.Config{SegmentBytes: 3000, Sync: policy, RetentionAge: log.Unlimited})
		var want []string
		var wg sync.WaitGroup
		for i := range int64(200) { // submitted without waiting: many share a round
			wg.Add(1)
			l.Submit(&log.Append{Batch: batchOf(t, i), LeaderEpoch: -1, Done: func(a *log.Append) { wg.Done() }})
			want = append(want, string(valueOf(i)))
		}
		wg.Wait()
		for i := range 50 { // batches of several records
			a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
			_, err := l.Append(t.Context(), at(1, a), at(2, b))
			require.NoError(t, err)
			want = append(want, a, b)
		}
		require.Greater(t, len(l.Segments()), 3)
		for _, from := range []int64{0, 1, 99, 200, 201, 255, 299} {
			var got []string
			for r, err := range l.Records(from) {
				require.NoError(t, err)
				require.Equal(t, from+int64(len(got)), r.Offset)
				got = append(got, string(r.Value))
			}
			require.Equal(t, want[from:], got, "Records from %d", from)
			require.Equal(t, want[from:], readAll(t, l, from), "Read from %d", from)
		}
	}
}

// readAll reads a log by Read in small steps.
func readAll(t *testing.T, l *log.Log, from int64) (values []string) {
	t.Helper()
	for from < l.EndOffset() {
		p, err := l.Read(nil, from, 300)
		require.NoError(t, err)
		require.NotEmpty(t, p)
		for len(p) > 0 {
			b, n, err := record.Parse(p)
			require.NoError(t, err)
			for r, err := range b.All() {
				require.NoError(t, err)
				if r.Offset >= from {
					values = append(values, string(r.Value))
				}
			}
			from, p = b.NextOffset(), p[n:]
		}
	}
	return values
}

// logFiles returns the names of the .log files, and of the .log files that wait to be deleted.
func logFiles(t *testing.T, fsys vfs.FS) (live, deleted []string) {
	t.Helper()
	entries, err := fsys.ReadDir("log")
	require.NoError(t, err)
	for _, e := range entries {
		switch {
		case strings.HasSuffix(e.Name(), ".log"):
			live = append(live, e.Name())
		case strings.Contains(e.Name(), ".log.") && strings.HasSuffix(e.Name(), ".deleted"):
			deleted = append(deleted, e.Name())
		}
	}
	return live, deleted
}

// Rows 20 and 21: a log consists of files named by their first offset. Only the last file changes.
// The files that retention removes disappear.
func TestALogIsFilesThatAreCreatedClosedAndDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		l := openAt(t, disk, log.Config{SegmentBytes: 1000, RetentionAge: time.Hour, DeleteDelay: time.Minute})
		closed := map[string]string{} // content of closed files when they were first seen
		for range 60 {
			_, err := l.Append(t.Context(), record.String("", "k", "value"))
			require.NoError(t, err)
			var names []string
			segments := l.Segments()
			for i, s := range segments {
				name := fmt.Sprintf("%020d.log", s.BaseOffset)
				names = append(names, name)
				require.Equal(t, i == len(segments)-1, s.Active, "the last one alone takes appends")
				if s.Active {
					continue
				}
				p, err := vfs.ReadFile(disk, filepath.Join("log", name))
				require.NoError(t, err)
				require.Len(t, p, int(s.Size))
				if closed[name] == "" {
					closed[name] = string(p)
				}
				require.Equal(t, closed[name], string(p), "a closed file does not change")
			}
			live, _ := logFiles(t, disk)
			require.Equal(t, names, live)
		}
		require.Greater(t, len(closed), 3)

		time.Sleep(2 * time.Hour)
		_, err := l.Clean(t.Context())
		require.NoError(t, err)
		live, deleted := logFiles(t, disk)
		require.Equal(t, []string{"00000000000000000060.log"}, live)
		require.Len(t, deleted, len(closed)+1, "by another name for as long as DeleteDelay says")
		time.Sleep(2 * time.Minute)
		_, deleted = logFiles(t, disk)
		require.Empty(t, deleted)
	})
}

// Row 24: a new segment size or age applies to an open log from the next append on.
func TestNewSegmentSizeAndAgeApplyToAnOpenLog(t *testing.T) {
	t.Parallel()
	l := openAt(t, vfs.Mem(), log.Config{RetentionAge: log.Unlimited})
	appendAll(t, l, slices.Repeat([]record.Record{at(1, "v")}, 100)...)
	require.Len(t, l.Segments(), 1)

	require.NoError(t, l.Reconfigure(log.Config{SegmentBytes: 1000, RetentionAge: log.Unlimited}))
	appendAll(t, l, slices.Repeat([]record.Record{at(1, "v")}, 100)...)
	segments := l.Segments()
	require.Greater(t, len(segments), 5, "smaller from now on")
	for _, s := range segments[1:] {
		require.LessOrEqual(t, s.Size, int64(1000))
	}

	require.NoError(t, l.Reconfigure(log.Config{SegmentAge: time.Hour, RetentionAge: log.Unlimited}))
	appendAll(t, l, slices.Repeat([]record.Record{at(1, "v")}, 100)...)
	require.Len(t, l.Segments(), len(segments), "large again, and all of one age")
	appendAll(t, l, at(1+3601, "v"))
	require.Len(t, l.Segments(), len(segments)+1, "an hour older than the segment's first record")
	require.NoError(t, l.Reconfigure(log.Config{SegmentAge: 2 * time.Hour, RetentionAge: log.Unlimited}))
	appendAll(t, l, at(1+3601+3601, "v"))
	require.Len(t, l.Segments(), len(segments)+1)
}

// Row 30: retention considers only age and size. A reader neither keeps a record longer nor
// removes it earlier.
func TestReadersNeitherHoldNorReleaseRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openAt(t, vfs.Mem(), log.Config{RetentionAge: time.Hour})
		for range 3 {
			_, err := l.Append(t.Context(), record.String("", "k", "v"))
			require.NoError(t, err)
			require.NoError(t, l.Roll())
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var seen []int64
		wg.Go(func() { // has read everything, and waits for more
			for r, err := range l.Follow(ctx, 0) {
				require.NoError(t, err)
				seen = append(seen, r.Offset)
			}
		})
		synctest.Wait()
		require.Equal(t, []int64{0, 1, 2}, seen)
		clean := func() {
			_, err := l.Clean(t.Context())
			require.NoError(t, err)
		}
		time.Sleep(time.Hour)
		clean()
		require.Len(t, show(t, l, 0), 3, "read by everybody, and still here")

		slow := l.Records(0) // is at the first record, and stays there
		for r, err := range slow {
			require.NoError(t, err)
			require.Zero(t, r.Offset)
			time.Sleep(time.Second)
			clean()
			break
		}
		require.EqualValues(t, 3, l.StartOffset(), "old, and gone although somebody waits here and another one is behind")
		_, err := l.Read(nil, 0, 1)
		require.ErrorIs(t, err, log.ErrOffsetOutOfRange)
		cancel()
		wg.Wait()
	})
}
