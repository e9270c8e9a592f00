package replication

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Ten thousand partitions that were written once and then closed are opened. The test logs their
// cost, and checks that nothing runs for them. STRATA_SCALE=1 runs it in full on the operating
// system's files. Without it there are a thousand partitions.
func TestIdlePartitionsCostLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("writes many files")
	}
	n := 1000
	if os.Getenv("STRATA_SCALE") != "" {
		n = 10000
	}
	dir := t.TempDir()
	c, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "big", topic.Config{Partitions: n, Properties: properties("flush.messages", "9223372036854775807")}))
	fill(t, c, n)
	require.NoError(t, c.Close())

	goroutines, before := runtime.NumGoroutine(), heap()
	start := time.Now()
	c, err = Open(Config{Dir: dir})
	require.NoError(t, err)
	took := time.Since(start)
	each := (heap() - before) / n
	t.Logf("%d partitions: open %v, %d B of heap each, %d goroutines more, %d descriptors", n, took, each, runtime.NumGoroutine()-goroutines, descriptors())
	require.Equal(t, n, c.Stats().OpenPartitions)
	if n == 10000 { // fewer depend on other processes: TestOpenMakesFewCallsForEachPartition
		require.Less(t, took, 5*time.Second)
	}
	require.Less(t, each, 4<<10)
	require.Less(t, runtime.NumGoroutine()-goroutines, 20)
	require.Less(t, descriptors(), 700)

	start = time.Now()
	resp, err := c.Fetch(t.Context(), ask("big", n, partition.FetchRequest{MaxBytes: 1000}))
	require.NoError(t, err)
	require.Len(t, resp.Partitions, n)
	t.Logf("fetch of all %d partitions: %v", n, time.Since(start))
	start = time.Now()
	require.NoError(t, c.Close())
	t.Logf("close: %v", time.Since(start))
}

func fill(t *testing.T, c *Cluster, n int) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		wg.Add(1)
		c.Produce(&partition.ProduceRequest{TopicPartition: at("big", int32(i)), Batch: batch(fmt.Sprint(i)), Done: func(r partition.ProduceResult) {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			require.NoError(t, r.Err)
		}})
	}
	wg.Wait()
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// descriptors returns the number of files that the process has open, or 0 if it is unknown.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

func TestPartitionsThatWereNeverWrittenCostAlmostNothing(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	before, calls := heap(), fsys.Count(vfs.OpAny)
	create(t, c, "big", 10000)
	require.Less(t, (heap()-before)/10000, 300, "bytes each")
	require.Less(t, fsys.Count(vfs.OpAny)-calls, int64(100), "calls for all of them")
	create(t, c, "small", 1)
	require.ErrorIs(t, c.CreateTopic(t.Context(), "larger", topic.Config{Partitions: 10001}), ErrPolicyViolation)
	require.NoError(t, c.AddPartitions(t.Context(), "big", 20000))
}
