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

// Without a descriptor a sync does not reach the disk, so no record is in doubt. The log
// continues, and is synced automatically as soon as a descriptor is free.
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

// A log that is closed without a sync is not closed properly, for any reason: another process
// recovers it.
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

// Any other error of a sync leaves the log in doubt, also together with a lack of descriptors.
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
