package log_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func TestSecondOpenInTheProcessIsRefused(t *testing.T) {
	l, fsys := openMem(t, exploreConfig(log.SyncOnAck))
	cfg := exploreConfig(log.SyncOnAck)
	cfg.FS = fsys
	_, err := log.Open(exploreDir, cfg)
	require.ErrorIs(t, err, log.ErrLocked)
	_, err = appendID(l, 0)
	require.NoError(t, err, "the first is unaffected")
	require.NoError(t, l.Close())
	require.Equal(t, []int64{0}, reread(t, fsys).ids)
}

const lockEnv = "STRATA_TEST_LOCKED_LOG"

// TestSecondProcessIsRefusedUntilTheFirstIsKilled runs this test binary again as the other
// process.
func TestSecondProcessIsRefusedUntilTheFirstIsKilled(t *testing.T) {
	if dir := os.Getenv(lockEnv); dir != "" {
		l, err := log.Open(dir, log.Config{})
		if err == nil {
			_, err = appendID(l, 0)
		}
		fmt.Println("opened", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or until the parent exits
		return
	}
	dir := filepath.Join(t.TempDir(), "t-0")
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondProcessIsRefusedUntilTheFirstIsKilled$")
	cmd.Env = append(os.Environ(), lockEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "opened <nil>\n", line)
	// time that passes here is time that Open waits by its own choice
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := log.Open(dir, log.Config{})
		require.ErrorIs(t, err, log.ErrLocked)
		require.Less(t, time.Since(start), time.Second)
	})
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	l, err := log.Open(dir, log.Config{})
	require.NoError(t, err)
	f, err := readLog(l)
	require.NoError(t, err)
	require.Equal(t, []int64{0}, f.ids)
	require.NoError(t, l.Close())
}

// TestClockJumps appends records whose times jump back and forth, as after changes of the clock.
func TestClockJumps(t *testing.T) {
	synctest.TestFor(t, 21*365*24*time.Hour, func(t *testing.T) {
		cfg := exploreConfig(log.SyncOnAck)
		cfg.RetentionBytes, cfg.RetentionAge = 0, time.Hour
		l, fsys := openMem(t, cfg)
		base := time.Now()
		jumps := []time.Duration{0, time.Second, -time.Hour, 10 * 365 * 24 * time.Hour, -10 * 365 * 24 * time.Hour, 0, 0, 2 * time.Second}
		largest := base
		for i := range 40 {
			at := base.Add(jumps[i%len(jumps)] + time.Duration(i)*time.Millisecond)
			if at.After(largest) {
				largest = at
			}
			offset, err := l.Append(t.Context(), record.Record{Value: valueOf(int64(i)), Timestamp: at})
			require.NoError(t, err)
			require.EqualValues(t, i, offset, "offsets do not depend on the clock")
		}
		segments := len(l.Segments())
		require.Greater(t, segments, 3)
		for _, at := range []time.Time{base.Add(-24 * time.Hour), base, base.Add(time.Hour), largest} {
			offset, err := l.OffsetAt(at)
			require.NoError(t, err)
			require.Equal(t, firstAt(t, l, at), offset, "first record at or after %v", at)
		}
		_, err := l.Clean(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(40), l.EndOffset())
		require.NotEmpty(t, l.Segments())
		time.Sleep(20 * 365 * 24 * time.Hour)
		_, err = l.Clean(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(40), l.EndOffset(), "the active segment is not deleted, or its end is kept")
		offset, err := appendID(l, 40)
		require.NoError(t, err)
		require.EqualValues(t, 40, offset)
		require.NoError(t, l.Close())
		_ = fsys
	})
}

// firstAt returns the offset of the first record at or after a time, found by a scan, or the end
// offset if there is none.
func firstAt(t *testing.T, l *log.Log, at time.Time) int64 {
	for r, err := range l.Records(l.StartOffset()) {
		require.NoError(t, err)
		if r.Timestamp.UnixMilli() >= at.UnixMilli() {
			return r.Offset
		}
	}
	return l.EndOffset()
}

// TestSlowDiskIsSharedByManyAppends: with syncs of 50 ms, 64 writers of 10 records each take about
// ten syncs, not 640.
func TestSlowDiskIsSharedByManyAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, fsys := openMem(t, log.Config{RetentionAge: log.Unlimited})
		fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Delay: 50 * time.Millisecond, Times: vfs.Always})
		start := time.Now()
		var wg sync.WaitGroup
		errs := make(chan error, 64)
		for w := range int64(64) {
			wg.Go(func() {
				for i := range int64(10) {
					if _, err := appendID(l, w*10+i); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		require.NoError(t, <-errs)
		require.Less(t, time.Since(start), 30*50*time.Millisecond)
		require.EqualValues(t, 640, l.EndOffset())
		require.NoError(t, l.Close())
	})
}

// TestOneSlowSyncDelaysOneLogOnly: a sync of one log that takes 5 s does not delay the other logs
// of the directory.
func TestOneSlowSyncDelaysOneLogOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		dir, err := log.OpenDirectory("/data", log.DirectoryConfig{FS: fsys})
		require.NoError(t, err)
		logs := make([]*log.Log, 3)
		for i := range logs {
			logs[i], err = log.Open(fmt.Sprintf("/data/t-%d", i), log.Config{FS: fsys, Dir: dir, RetentionAge: log.Unlimited})
			require.NoError(t, err)
			_, err = appendID(logs[i], 0)
			require.NoError(t, err)
		}
		var hit atomic.Bool
		fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
			if e.Op == vfs.OpSync && filepath.Dir(e.Name) == "/data/t-0" {
				hit.Store(true)
			}
		}})
		fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Delay: 5 * time.Second})
		slow := make(chan error)
		go func() {
			_, err := appendID(logs[0], 1)
			slow <- err
		}()
		synctest.Wait()
		require.True(t, hit.Load())
		for id := int64(1); id < 50; id++ {
			for _, l := range logs[1:] {
				start := time.Now()
				_, err := appendID(l, id)
				require.NoError(t, err)
				require.Less(t, time.Since(start), 100*time.Millisecond)
			}
		}
		require.NoError(t, <-slow)
		for _, l := range logs {
			require.NoError(t, l.Close())
		}
		require.NoError(t, dir.Close())
	})
}

// TestCloseUnblocksEverything closes a log during appends, waits and reads: all of them return,
// and no file stays open.
func TestCloseUnblocksEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		w := watchFiles(fsys.FaultFS)
		cfg := exploreConfig(log.SyncOnAck)
		cfg.FS, cfg.RetentionBytes = fsys, 0
		l, err := log.Open(exploreDir, cfg)
		require.NoError(t, err)
		fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Delay: 20 * time.Millisecond, Times: vfs.Always})
		var wg sync.WaitGroup
		acked := make([][]int64, 8)
		ends := make(chan error, len(acked)+1) // result of each goroutine
		for g := range acked {
			wg.Go(func() {
				for id := int64(g) * 1000; ; id++ {
					offset, err := appendID(l, id)
					if err != nil {
						ends <- err
						return
					}
					acked[g] = append(acked[g], offset)
				}
			})
		}
		followed := 0
		wg.Go(func() {
			for _, err := range l.Follow(context.Background(), 0) {
				if err != nil {
					ends <- err
					return
				}
				followed++
			}
		})
		time.Sleep(time.Second)
		closed := make(chan error, 3)
		for range 3 {
			go func() { closed <- l.Close() }()
		}
		for range 3 {
			require.NoError(t, <-closed)
		}
		wg.Wait()
		for range len(acked) + 1 {
			require.ErrorIs(t, <-ends, log.ErrClosed)
		}
		require.Positive(t, followed)
		require.Empty(t, w.leaked())
		for _, err := range []error{l.Sync(), l.Roll(), l.DeleteRecords(1), l.TruncateTo(1)} {
			require.ErrorIs(t, err, log.ErrClosed)
		}
		_, err = l.Read(nil, 0, 1)
		require.ErrorIs(t, err, log.ErrClosed)
		l, err = log.Open(exploreDir, cfg)
		require.NoError(t, err)
		f, err := readLog(l)
		require.NoError(t, err)
		for _, offsets := range acked {
			for _, o := range offsets {
				require.Less(t, o, f.end)
			}
		}
		require.NoError(t, l.Close())
	})
}

// TestCancelledWaitsReturnAtOnce cancels appends that are queued behind an append that cannot be
// cancelled. See also submit_test.go.
func TestCancelledWaitsReturnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, fsys := openMem(t, exploreConfig(log.SyncOnAck))
		fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Delay: time.Minute, Times: vfs.Always})
		first := make(chan error)
		go func() {
			_, err := appendID(l, 0)
			first <- err
		}()
		synctest.Wait()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		value := valueOf(1)
		_, err := l.Append(ctx, record.Record{Value: value})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		clear(value) // the caller owns the bytes of the record again, and the bytes of a batch
		var b record.Builder
		b.Append(&record.Record{Value: valueOf(2)})
		batch, err := b.Build(record.None)
		require.NoError(t, err)
		_, err = l.AppendBatch(ctx, batch)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = l.AppendBatch(ctx, batch)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		clear(batch)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		for _, err = range l.Follow(ctx, l.EndOffset()) {
			break
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		require.NoError(t, <-first)
		_, err = appendID(l, 3) // is queued behind the others
		require.NoError(t, err)
		require.NoError(t, l.Close())
		require.Equal(t, []int64{0, 1, 2, 3}, reread(t, fsys).ids, "an accepted append takes place, with the bytes it was given")
	})
}

// TestBytesAreNotShared changes the bytes that were passed in and the bytes that were returned.
func TestBytesAreNotShared(t *testing.T) {
	l, fsys := openMem(t, exploreConfig(log.SyncOnAck))
	var b record.Builder
	for id := range int64(20) {
		value := valueOf(id)
		if id%2 == 0 {
			_, err := l.Append(t.Context(), record.Record{Key: value[:1], Value: value})
			require.NoError(t, err)
			clear(value)
			continue
		}
		b.Append(&record.Record{Value: value})
		batch, err := b.Build(record.None)
		require.NoError(t, err)
		before := slices.Clone(batch)
		ctx := t.Context()
		if id%4 == 1 { // cannot end: the batch need not be copied
			ctx = context.Background()
		}
		_, err = l.AppendBatch(ctx, batch)
		require.NoError(t, err)
		require.Equal(t, before, batch, "the caller's batch is not written to")
		clear(batch)
	}
	want, err := allBytes(l)
	require.NoError(t, err)
	for range 2 {
		got, err := allBytes(l)
		require.NoError(t, err)
		require.Equal(t, want, got)
		clear(got)
		for r, err := range l.Records(0) {
			require.NoError(t, err)
			id, err := idOf(r.Value)
			require.NoError(t, err)
			require.Equal(t, r.Offset, id)
		}
	}
	require.NoError(t, l.Close())
	require.Len(t, reread(t, fsys).ids, 20)
}
