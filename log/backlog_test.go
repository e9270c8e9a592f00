package log_test

import (
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// One reader goes through a backlog that does not fit into the allowed memory, and ten readers
// read parts of it. The memory that they hold does not grow with the log. The log has 128 MiB, 32
// MiB under the race detector, or 1 GiB with STRATA_EXPLORE. The limit is 64 MiB of heap above the
// heap at the start, garbage included.
func TestReadersOfALargeBacklogTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 128 MiB")
	}
	size := int64(log.Sampled(128<<20, 32<<20))
	if os.Getenv(exploreEnv) != "" {
		size = 1 << 30
	}
	const most = 64 << 20
	l, err := log.Open(t.TempDir(), log.Config{Sync: log.SyncNever, SegmentBytes: 32 << 20})
	require.NoError(t, err)
	rs := make([]record.Record, 500)
	for i := range rs {
		rs[i].Value = make([]byte, 1000)
	}
	for l.Stats().Bytes < size {
		_, err := l.Append(t.Context(), rs...)
		require.NoError(t, err)
	}
	end := l.EndOffset()

	var peak atomic.Uint64
	heap := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		for p := peak.Load(); m.HeapAlloc > p && !peak.CompareAndSwap(p, m.HeapAlloc); p = peak.Load() {
		}
	}
	runtime.GC()
	heap()
	idle := peak.Load()

	var wg sync.WaitGroup
	var done atomic.Bool
	var jumps atomic.Int64
	for i := range 10 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 3))
			for !done.Load() {
				from, n := rnd.Int64N(end), 0
				for r, err := range l.Records(from) {
					if err != nil || r.Offset != from+int64(n) {
						t.Errorf("offset %d, want %d: %v", r.Offset, from+int64(n), err)
						return
					}
					if n++; n > 500 {
						break
					}
				}
				jumps.Add(1)
			}
		})
	}
	next := int64(0)
	for r, err := range l.Records(0) {
		if err != nil || r.Offset != next {
			t.Fatalf("offset %d, want %d: %v", r.Offset, next, err)
		}
		if next++; next%10_000 == 0 {
			heap()
		}
	}
	done.Store(true)
	wg.Wait()
	require.Equal(t, end, next)
	t.Logf("%d MiB, %d reads elsewhere: at most %d KiB of heap above %d KiB", size>>20, jumps.Load(), (peak.Load()-idle)>>10, idle>>10)
	require.Less(t, peak.Load()-idle, uint64(most))
	require.NoError(t, l.Close())
}
