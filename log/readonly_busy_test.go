package log

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// viewsEnv is the number of read-only opens of the tests beside a busy writer, for each kind of
// writer and each disk.
const viewsEnv = "STRATA_VIEWS"

func viewCount(t *testing.T, otherwise int) int {
	s := os.Getenv(viewsEnv)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// A busyWriter changes a log as fast as it can, and records which values a reader may see.
type busyWriter struct {
	cfg Config
	dir string
	ops []func(*busyWriter, *Log) error
	rnd *rand.Rand

	mu      sync.Mutex
	values  map[int64]map[string]*life // every value ever appended, by offset
	latest  map[string][]int64         // offsets of each key, ascending; not with truncation
	acked   int64                      // end offset
	cuts    int                        // truncations begun
	cutting bool
	steps   int
}

// A life is the time of a record in the log, from before its append to after its removal, in steps
// of the writer.
type life struct{ from, to int }

var busyKeys = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

func (w *busyWriter) append(l *Log) error {
	n := 1 + w.rnd.IntN(12)
	rs := make([]record.Record, n)
	w.mu.Lock()
	first := l.EndOffset()
	for i := range rs {
		key := busyKeys[w.rnd.IntN(len(busyKeys))]
		value := fmt.Sprintf("%d-%d-%0*d", first+int64(i), w.steps, 1+w.rnd.IntN(200), 0)
		rs[i] = record.String("", key, value)
		offset := first + int64(i)
		if w.values[offset] == nil {
			w.values[offset] = map[string]*life{}
		}
		w.values[offset][value] = &life{w.steps, math.MaxInt}
		w.latest[key] = append(w.latest[key], offset)
	}
	w.mu.Unlock()
	got, err := l.Append(context.Background(), rs...)
	if err != nil {
		return err
	}
	if got != first {
		return fmt.Errorf("appended at %d, not %d", got, first)
	}
	w.mu.Lock()
	w.acked = first + int64(n)
	w.mu.Unlock()
	return nil
}

func (w *busyWriter) roll(l *Log) error { return l.Roll() }

func (w *busyWriter) clean(l *Log) error {
	_, err := l.Clean(context.Background())
	return err
}

func (w *busyWriter) deleteRecords(l *Log) error {
	return l.DeleteRecords(l.StartOffset() + w.rnd.Int64N(l.EndOffset()-l.StartOffset()+1)/2)
}

func (w *busyWriter) truncate(l *Log) error {
	w.mu.Lock()
	w.cuts++
	w.cutting = true
	w.mu.Unlock()
	back := w.rnd.Int64N(60)
	var err error
	if w.rnd.IntN(6) == 0 {
		err = l.TruncateFully(l.StartOffset() + w.rnd.Int64N(50))
	} else {
		err = l.TruncateTo(max(l.EndOffset()-back, l.StartOffset()))
	}
	w.mu.Lock()
	w.cutting = false
	w.cuts++
	w.acked = l.EndOffset()
	for offset, values := range w.values {
		for _, v := range values {
			if offset >= w.acked || l.StartOffset() == w.acked { // restarted: no record is left
				v.to = min(v.to, w.steps)
			}
		}
	}
	w.mu.Unlock()
	return err
}

// run changes the log until stop is closed, and reopens it after 400 steps.
func (w *busyWriter) run(stop <-chan struct{}) error {
	for {
		l, err := Open(w.dir, w.cfg)
		if err != nil {
			return err
		}
		for range 400 {
			select {
			case <-stop:
				return l.Close()
			default:
			}
			w.steps++
			op := (*busyWriter).append
			if w.rnd.IntN(4) == 0 {
				op = w.ops[w.rnd.IntN(len(w.ops))]
			}
			if err := op(w, l); err != nil {
				return errors.Join(err, l.Close())
			}
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
}

// look opens the log read-only and checks every record that it reads.
func (w *busyWriter) look(t *testing.T, fsys vfs.FS) (changed bool) {
	w.mu.Lock()
	acked, cuts := w.acked, w.cuts
	w.mu.Unlock()
	l, err := OpenReadOnly(w.dir, Config{FS: fsys})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	start, end := l.StartOffset(), l.EndOffset()
	var seen []record.Record
	next := start
	for r, err := range l.Records(start) {
		if errors.Is(err, ErrChanged) {
			changed = true
			break
		}
		require.NoError(t, err, "log [%d, %d), read up to %d", start, end, next)
		require.GreaterOrEqual(t, r.Offset, next)
		next = r.Offset + 1
		seen = append(seen, r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkOneMoment(t, seen)
	if w.cuts != cuts || w.cutting { // it may be the log before a truncation or after it
		return changed
	}
	require.False(t, changed, "nobody truncated the log")
	require.GreaterOrEqual(t, end, acked, "acknowledged before the log was opened")
	byKey := map[string]int64{}
	for _, r := range seen {
		byKey[string(r.Key)] = r.Offset
	}
	if !w.cfg.Cleanup.Compacts() {
		require.Len(t, seen, int(end-start), "every record of [%d, %d)", start, end)
		return false
	}
	if cuts > 0 {
		return false
	}
	want := map[string]int64{}
	for key, offsets := range w.latest {
		for _, o := range offsets {
			if o >= start && o < end {
				want[key] = o
			}
		}
	}
	require.Equal(t, want, byKey, "the last record of each key in [%d, %d)", start, end)
	return false
}

// checkOneMoment checks that there was a moment at which the log had all of the records.
func (w *busyWriter) checkOneMoment(t *testing.T, seen []record.Record) {
	var last, first record.Record // the last one appended and the first one removed
	begin, end := 0, math.MaxInt
	for _, r := range seen {
		v := w.values[r.Offset][string(r.Value)]
		require.NotNil(t, v, "offset %d never had this value", r.Offset)
		if v.from >= begin {
			begin, last = v.from, r
		}
		if v.to < end {
			end, first = v.to, r
		}
	}
	require.LessOrEqual(t, begin, end, "the record at %d was appended after that at %d had been taken", last.Offset, first.Offset)
}

// busyWriters are kinds of writers. Sizes are so small that files are created and deleted all the
// time.
var busyWriters = []struct {
	name string
	cfg  Config
	ops  []func(*busyWriter, *Log) error
}{
	{"rolls and retention", Config{SegmentBytes: 2500, RetentionBytes: 12000, Sync: SyncNever},
		[]func(*busyWriter, *Log) error{(*busyWriter).roll, (*busyWriter).clean, (*busyWriter).deleteRecords}},
	{"space written ahead", Config{SegmentBytes: 4000, RetentionBytes: 30000},
		[]func(*busyWriter, *Log) error{(*busyWriter).roll, (*busyWriter).clean}},
	{"compaction", Config{SegmentBytes: 6000, Sync: SyncNever, Cleanup: CleanupCompact, MinDirtyRatio: 0.01},
		[]func(*busyWriter, *Log) error{(*busyWriter).roll, (*busyWriter).roll, (*busyWriter).clean}},
	{"truncation", Config{SegmentBytes: 2500, RetentionBytes: 12000, Sync: SyncNever},
		[]func(*busyWriter, *Log) error{(*busyWriter).roll, (*busyWriter).truncate, (*busyWriter).clean}},
	{"truncation of space written ahead", Config{SegmentBytes: 4000, RetentionBytes: 20000},
		[]func(*busyWriter, *Log) error{(*busyWriter).roll, (*busyWriter).truncate, (*busyWriter).clean}},
	{"everything", Config{SegmentBytes: 3000, Sync: SyncNever, RetentionBytes: 15000, Cleanup: CleanupCompact | CleanupDelete, MinDirtyRatio: 0.01},
		[]func(*busyWriter, *Log) error{(*busyWriter).roll, (*busyWriter).truncate, (*busyWriter).clean, (*busyWriter).deleteRecords}},
}

// quickDir is a directory with cheap syncs, so that a writer makes many changes in the time of a
// read.
func quickDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "strata-test")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// TestReadOnlyOpensBesideABusyWriter opens a log over and over while it is written to, and reads
// all of it. No open fails, and no read finds damage. No acknowledged record is missing, and each
// record that is read was appended.
func TestReadOnlyOpensBesideABusyWriter(t *testing.T) {
	t.Parallel()
	for _, disk := range []string{"memory", "files"} {
		views := viewCount(t, sampled(200, 50))
		for i, kind := range busyWriters {
			t.Run(disk+"/"+kind.name, func(t *testing.T) {
				fsys, dir := vfs.FS(vfs.Mem()), "/data/t-0"
				if disk == "files" {
					fsys, dir = vfs.OS(), filepath.Join(quickDir(t), "t-0")
				}
				cfg := kind.cfg
				cfg.FS = fsys
				w := &busyWriter{cfg: cfg, dir: dir, ops: kind.ops, rnd: rand.New(rand.NewPCG(uint64(i), 7)), values: map[int64]map[string]*life{}, latest: map[string][]int64{}}
				l, err := Open(dir, cfg)
				require.NoError(t, err)
				require.NoError(t, w.append(l))
				require.NoError(t, l.Close())
				stop, done := make(chan struct{}), make(chan error, 1)
				go func() { done <- w.run(stop) }()
				var changed atomic.Int64
				for range views {
					if w.look(t, fsys) {
						changed.Add(1)
					}
				}
				close(stop)
				require.NoError(t, <-done)
				t.Logf("%d opens beside %d operations, %d ended with ErrChanged", views, w.steps, changed.Load())
				require.False(t, w.look(t, fsys))
			})
		}
	}
}
