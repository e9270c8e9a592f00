package verify

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// Compaction has removed the records before the cut, and the remaining ones were deleted. For a
// moment only the state file has the log's end.
func TestACutInsideAGapIsNoDamageWhereverItIsInterrupted(t *testing.T) {
	disk, ctx := vfs.Mem(), context.Background()
	l, err := log.Open("log", log.Config{FS: disk, Cleanup: log.CleanupCompact, MinDirtyRatio: 0.01})
	require.NoError(t, err)
	for i := range 12 {
		_, err := l.Append(ctx, record.String("", []string{"a", "b", "c", "c"}[min(i, 3)], "v"))
		require.NoError(t, err)
	}
	require.NoError(t, l.Roll())
	_, err = l.Append(ctx, record.String("", "c", "last"))
	require.NoError(t, err)
	require.NoError(t, l.Roll())
	_, err = l.Append(ctx, record.String("", "d", "v"))
	require.NoError(t, err)
	_, err = l.Clean(ctx)
	require.NoError(t, err)
	require.NoError(t, l.DeleteRecords(8))
	// Guards the variables below while the log is open: it also syncs in the background.
	var mu sync.Mutex
	var disks []*vfs.MemFS
	var calls []string
	stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange != 0 {
			mu.Lock()
			defer mu.Unlock()
			disks, calls = append(disks, disk.Kill()), append(calls, e.String())
		}
	}})
	require.NoError(t, l.TruncateTo(8))
	stop()
	require.NoError(t, l.Close())
	require.NotEmpty(t, disks)
	for i, d := range disks {
		_, fs := check(t, d, "log")
		require.Empty(t, damages(fs), "killed before %s", calls[i])
	}
	_, fs := check(t, disk, "log")
	require.Empty(t, damages(fs))
}
