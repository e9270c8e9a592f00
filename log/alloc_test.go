package log

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func openBench(tb testing.TB, cfg Config) *Log {
	tb.Helper()
	l, err := Open(tb.TempDir(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.Close()) })
	return l
}

func benchRecords(n, size int) []record.Record {
	rs := make([]record.Record, n)
	for i := range rs {
		rs[i].Value = make([]byte, size)
	}
	return rs
}

func TestAppendAllocatesLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	for _, policy := range []SyncPolicy{SyncNever, SyncOnAck} {
		l := openBench(t, Config{Sync: policy})
		rs, ctx := benchRecords(100, 100), context.Background()
		run := func() {
			_, err := l.Append(ctx, rs...)
			require.NoError(t, err)
		}
		for range 100 {
			run()
		}
		require.Less(t, testing.AllocsPerRun(200, run), 2.0, "0.02 per record, policy %v", policy)
	}
}

func TestReadIntoABufferDoesNotAllocate(t *testing.T) {
	l := openBench(t, Config{Sync: SyncNever})
	rs := benchRecords(10, 100)
	for range 1000 {
		_, err := l.Append(t.Context(), rs...)
		require.NoError(t, err)
	}
	buf := make([]byte, 0, 64<<10)
	from := int64(0)
	run := func() {
		p, err := l.Read(buf, from, cap(buf))
		if err != nil || len(p) == 0 {
			t.Fatal(err)
		}
		for n := 0; n < len(p); {
			_, next, size := batchExtent(p[n:])
			n, from = n+size, next
		}
		from %= l.EndOffset()
	}
	run()
	require.Zero(t, testing.AllocsPerRun(200, run))
}

func TestTenThousandIdleLogsAreCheap(t *testing.T) {
	n := sampled(10_000, 1000)
	if testing.Short() {
		n = 1000
	}
	disk := vfs.Mem()
	d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	goroutines := runtime.NumGoroutine()
	for i := range n { // before the measurement: files in memory are not counted
		l, err := Open(fmt.Sprintf("data/idle-%d", i), Config{Dir: d})
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
	logs := make([]*Log, n)
	before := heap()
	for i := range logs {
		logs[i], err = Open(fmt.Sprintf("data/idle-%d", i), Config{Dir: d})
		require.NoError(t, err)
	}
	each := (heap() - before) / int64(n)
	require.LessOrEqual(t, each, int64(8<<10))
	t.Logf("%d bytes of heap each", each)
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	require.Zero(t, d.files.Len(), "open files")
	for _, l := range logs {
		require.NoError(t, l.Close())
	}
	require.NoError(t, d.Close())
}
