package log

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

// The log is truncated and appended to during a slow sync: when the sync returns, the new records
// are not on stable storage. The next Sync writes them, regardless of the offset at which the
// first one began.
func TestTruncationDuringASyncLeavesNewRecordsToTheNextSync(t *testing.T) {
	for name, cut := range map[string]func(*Log) error{
		"to an offset":            func(l *Log) error { return l.TruncateTo(25) },
		"below the first segment": func(l *Log) error { return l.TruncateTo(15) },
		"fully":                   func(l *Log) error { return l.TruncateFully(25) },
	} {
		// the sync is of the active segment, or of a closed one
		for _, closed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.Mem()
				l := openClean(t, disk, Config{Sync: SyncNever})
				require.NoError(t, l.TruncateFully(20))
				for i := range 10 {
					appendKV(t, l, fmt.Sprint("k", i, "=old"))
				}
				disk.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Delay: time.Second, Times: vfs.Always})
				synced := make(chan error, 1)
				if closed {
					require.NoError(t, l.Roll()) // the sync runs in the background
					time.AfterFunc(time.Second, func() { synced <- nil })
				} else {
					go func() { synced <- l.Sync() }()
				}
				time.Sleep(500 * time.Millisecond)
				require.NoError(t, cut(l))
				start := l.EndOffset()
				for i := range 5 {
					appendKV(t, l, fmt.Sprint("k", i, "=new"))
				}
				require.NoError(t, <-synced)
				synctest.Wait()
				require.LessOrEqual(t, l.DurableOffset(), start, "%s: the sync has not covered what came after it", name)
				require.NoError(t, l.Sync())
				require.Equal(t, start+5, l.DurableOffset())
				want := logDump(t, l)
				after := openClean(t, disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}), Config{})
				require.Equal(t, want, logDump(t, after), "%s: after a power cut", name)
				require.NoError(t, after.Close())
				require.NoError(t, l.Close())
			})
		}
	}
}
