package log

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

// For want of descriptors a sync asks nothing of the disk, so nothing is in doubt: the log goes on,
// and is synced as soon as there are some, without being asked.
func TestSyncWithoutADescriptorIsTriedAgain(t *testing.T) {
	lost := vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}
	for _, want := range []error{syscall.EMFILE, syscall.ENFILE} {
		for _, pattern := range []string{"*.index", "*.timeindex", "*index"} {
			t.Run(fmt.Sprint(want, pattern), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					disk := vfs.Mem()
					l := openClean(t, disk, Config{Sync: SyncInterval(time.Second)})
					fill(t, l, 3)
					heal := disk.Inject(vfs.Fault{Ops: vfs.OpOpen, Pattern: pattern, Times: vfs.Always, Err: want})
					require.NoError(t, l.Roll())
					synctest.Wait()
					fill(t, l, 2)
					time.Sleep(5 * time.Second)
					require.NoError(t, l.Err())
					require.Zero(t, l.DurableOffset())
					require.ErrorIs(t, l.Sync(), want)
					heal()
					time.Sleep(2 * time.Second)
					require.EqualValues(t, 5, l.DurableOffset(), "though nothing is written any more")
					fill(t, l, 1)
					time.Sleep(2 * time.Second)
					require.EqualValues(t, 6, l.DurableOffset())
					after := disk.CrashWith(lost)
					require.NoError(t, l.Close())
					l = openClean(t, after, Config{})
					require.EqualValues(t, 6, l.EndOffset())
					require.NoError(t, l.Close())
				})
			})
		}
	}
}

// A log that is closed without having been synced is not closed in order, whatever kept it from
// that: another process recovers it.
func TestLogThatCannotBeSyncedForWantOfADescriptorIsNotClosedInOrder(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := openClean(t, disk, Config{Sync: SyncInterval(time.Hour)})
	fill(t, l, 3)
	heal := disk.Inject(vfs.Fault{Ops: vfs.OpOpen, Pattern: "*.index", Times: vfs.Always, Err: syscall.EMFILE})
	require.NoError(t, l.Roll())
	require.ErrorIs(t, l.Sync(), syscall.EMFILE)
	require.ErrorIs(t, l.Close(), syscall.EMFILE)
	heal()
	l = openClean(t, disk.Kill(), Config{})
	require.False(t, l.Recovery().Clean)
	require.EqualValues(t, 3, l.EndOffset())
	require.NoError(t, l.Close())
}

// What else a sync fails with leaves the log in doubt, also beside a want of descriptors.
func TestUnaskedIsAllOfAnErrorOrNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{syscall.EMFILE, true},
		{fmt.Errorf("open: %w", syscall.ENFILE), true},
		{errors.Join(syscall.EMFILE, fmt.Errorf("b: %w", syscall.EMFILE)), true},
		{errors.Join(syscall.EMFILE, syscall.EIO), false},
		{fmt.Errorf("sync: %w", errors.Join(syscall.EIO, syscall.ENFILE)), false},
		{syscall.EIO, false},
		{errors.New("EMFILE"), false},
		{nil, false},
	} {
		require.Equal(t, c.want, unasked(c.err), "%v", c.err)
	}
}
