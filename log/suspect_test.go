package log

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// unknownBoot is a file system without a boot id: runs of the machine look the same.
type unknownBoot struct{ vfs.FS }

func (unknownBoot) BootID() string { return "" }

// After a failed fsync Linux marks the pages clean, and a later fsync succeeds without writing
// them. The next open writes those bytes again before it syncs.
func TestReopeningAfterAFailedSyncMakesTheDataDurableForReal(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{true, false} {
		disk := vfs.Mem()
		// No space is preallocated: no truncation writes the page again by chance.
		l, err := Open("log", Config{FS: disk, Sync: SyncNever})
		require.NoError(t, err)
		_, err = l.Append(t.Context(), record.String("", "", "first"))
		require.NoError(t, err)
		require.NoError(t, l.Sync())
		_, err = l.Append(t.Context(), record.String("", "", "second"))
		require.NoError(t, err)
		disk.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: errors.New("input/output error")})
		require.Error(t, l.Sync())
		require.EqualValues(t, 1, l.DurableOffset())
		before := disk
		if killed {
			before = disk.Kill()
		}
		_ = l.Close()
		// Same boot: the lost page is still in memory, and is marked clean.
		again := openMem(t, before)
		end := again.EndOffset()
		require.EqualValues(t, 2, end)
		require.Equal(t, end, again.DurableOffset())
		for seed := range uint64(10) {
			after := openMem(t, before.Crash(seed))
			require.Equal(t, end, after.EndOffset(), "what was readable has disappeared")
			require.NoError(t, after.Close())
		}
		require.NoError(t, again.Close())
	}
}

// Without a boot id, a failed sync may always be of this run of the machine.
func TestFailedSyncIsMadeUpForWhereRunsOfTheMachineAreNotTold(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := Config{FS: unknownBoot{disk}, Sync: SyncNever}
	l, err := Open("log", cfg)
	require.NoError(t, err)
	fill(t, l, 1)
	require.NoError(t, l.Sync())
	fill(t, l, 1)
	disk.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: errors.New("input/output error")})
	require.Error(t, l.Sync())
	_ = l.Close()
	l, err = Open("log", cfg)
	require.NoError(t, err)
	require.NoError(t, l.Sync())
	require.EqualValues(t, 2, l.DurableOffset())
	after := disk.CrashWith(lostAll())
	require.NoError(t, l.Close())
	cfg.FS = unknownBoot{after}
	l, err = Open("log", cfg)
	require.NoError(t, err)
	require.Len(t, values(t, l), 2)
	require.NoError(t, l.Close())
}
