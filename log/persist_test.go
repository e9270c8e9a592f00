package log

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func TestSyncPutsTheRecoveryPointOnTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		l, err := Open("log", Config{FS: disk, Sync: SyncNever})
		require.NoError(t, err)
		point := func() int64 {
			st, _, err := readState(disk, "log")
			require.NoError(t, err)
			return st.RecoveryPoint
		}
		fill(t, l, 10)
		require.NoError(t, l.Sync())
		require.EqualValues(t, 10, point())

		// Under load the state is not written with each sync.
		before := disk.Count(vfs.OpRename)
		for range 100 {
			fill(t, l, 1)
			require.NoError(t, l.Sync())
		}
		require.Equal(t, before, disk.Count(vfs.OpRename))
		require.EqualValues(t, 10, point())
		time.Sleep(persistEvery)
		require.NoError(t, l.Sync())
		require.EqualValues(t, 110, point())
		require.NoError(t, l.Sync(), "there is nothing new")
		require.Equal(t, before+1, disk.Count(vfs.OpRename))

		for range persistBytes >> 19 {
			_, err := l.Append(t.Context(), record.Record{Value: make([]byte, 1<<19)})
			require.NoError(t, err)
		}
		require.NoError(t, l.Sync())
		require.Equal(t, l.EndOffset(), point(), "much was written")
		require.NoError(t, l.Close())
	})
}

// TestDamageToWhatWasSyncedIsNoTornWrite: without the recovery point the damaged batch would pass
// for a write that a power cut tore. It would be truncated, with everything behind it.
func TestDamageToWhatWasSyncedIsNoTornWrite(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Sync: SyncNever})
	require.NoError(t, err)
	fill(t, l, 10)
	require.NoError(t, l.Sync())
	path, size := l.active().Path(), l.active().Size()
	next := disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	require.NoError(t, l.Close())
	next.Inject(vfs.Fault{Ops: vfs.OpRead, Pattern: filepath.Base(path), Times: vfs.Always, Flip: true, Bit: 8 * (size/2 + 65)})
	_, err = Open("log", Config{FS: next})
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt)
}
