package log

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// A power cut tears the first batch of a log that was never synced, and recovery truncates its
// file to 0 bytes. That truncation may not be on the disk: the sync failed, or the process was
// killed before it. The next open does not check that. A Directory that was closed properly
// records nothing about such a log. So bytes that a second power cut restores are cut off again
// (row D2 of the checklist).
func TestLogThatWasCutToNothingOpensAfterThePowerCutThatBringsItsBytesBack(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncNever, SyncOnAck} {
		for _, end := range []string{"sync failed", "killed"} {
			disk := tornFirstBatch(t)
			d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
			require.NoError(t, err)
			var killed *vfs.MemFS
			stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
				if e.Op == vfs.OpSync && killed == nil {
					killed = disk.Kill()
				}
			}})
			heal := disk.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: syscall.EIO})
			_, err = Open("data/t-0", Config{Dir: d, Sync: policy})
			require.ErrorIs(t, err, syscall.EIO)
			stop()
			heal()
			require.NoError(t, d.Close())
			if end == "killed" {
				disk = killed
			}
			for range 2 { // the second time the directory was closed in order
				d, err = OpenDirectory("data", DirectoryConfig{FS: disk})
				require.NoError(t, err)
				l, err := Open("data/t-0", Config{Dir: d, Sync: policy})
				require.NoError(t, err)
				require.Zero(t, l.EndOffset())
				require.NoError(t, errors.Join(l.Close(), d.Close()))
			}
			disk = disk.CrashWith(lostAll())
			d, err = OpenDirectory("data", DirectoryConfig{FS: disk})
			require.NoError(t, err)
			l, err := Open("data/t-0", Config{Dir: d, Sync: policy})
			require.NoError(t, err, "%v, %s", policy, end)
			fill(t, l, 2)
			require.Len(t, values(t, l), 2)
			require.NoError(t, errors.Join(l.Close(), d.Close()))
		}
	}
}

// tornFirstBatch returns the disk after a power cut of a log that was never synced. It has its
// only batch without the first 40 bytes, and no record of where the log ends.
func tornFirstBatch(t *testing.T) *vfs.MemFS {
	t.Helper()
	disk := vfs.Mem()
	o := openWeak(t, disk, SyncNever)
	fill(t, o.log, 1)
	cut := disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept})
	require.NoError(t, errors.Join(o.log.Close(), o.dir.Close()))
	f, err := cut.OpenFile("data/t-0/00000000000000000000.log", os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, 40), 0)
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
	return cut
}
