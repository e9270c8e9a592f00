package log

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// TestTornWriteThatCannotBeCutBackIsCutByTheNextOpen has a write that fails half-way, and its
// bytes cannot be truncated. Then the process is killed, or closes the log, or the power fails.
// The log opens with all acknowledged records.
func TestTornWriteThatCannotBeCutBackIsCutByTheNextOpen(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		for _, keep := range []int{1, 20, 61, 70, 200, -1} {
			for _, end := range []string{"kill", "close", "power cut"} {
				name := fmt.Sprint(policy, ", ", keep, " bytes kept, ", end)
				disk := vfs.Mem()
				l, err := Open("log", Config{FS: disk, Sync: policy})
				require.NoError(t, err)
				fill(t, l, 3)
				disk.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Err: syscall.EIO, Keep: keep})
				disk.Inject(vfs.Fault{Ops: vfs.OpTruncate, Pattern: "*.log", Times: vfs.Always, Err: syscall.EIO})
				var rs []record.Record
				for range 5 {
					rs = append(rs, record.Record{Value: make([]byte, 100)})
				}
				_, err = l.Append(t.Context(), rs...)
				require.ErrorIs(t, err, syscall.EIO, name)
				_, err = l.Append(t.Context(), rs...)
				require.ErrorIs(t, err, syscall.EIO, name)
				next := disk.Kill()
				switch end {
				case "close":
					require.Error(t, l.Close())
					next = disk.Kill()
				case "power cut":
					next = disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept})
				}
				_ = l.Close()
				for range 2 { // the result of recovery is durable
					l2, err := Open("log", Config{FS: next, Sync: policy})
					require.NoError(t, err, name)
					require.Len(t, values(t, l2), 3, name)
					require.NoError(t, l2.Close())
				}
			}
		}
	}
}

// TestFailedSyncOfRecoveryIsNotBelievedTheNextTime: the system marks pages clean that it could not
// sync, so that the sync of the next open succeeds.
func TestFailedSyncOfRecoveryIsNotBelievedTheNextTime(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Sync: SyncNever})
	require.NoError(t, err)
	fill(t, l, 5)
	next := disk.Kill()
	require.NoError(t, l.Close())
	next.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: syscall.EIO})
	_, err = Open("log", Config{FS: next})
	require.ErrorIs(t, err, syscall.EIO)
	l, err = Open("log", Config{FS: next})
	require.NoError(t, err)
	require.EqualValues(t, 5, l.DurableOffset())
	after := next.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	require.NoError(t, l.Close())
	l, err = Open("log", Config{FS: after})
	require.NoError(t, err)
	require.Len(t, values(t, l), 5)
	require.NoError(t, l.Close())
}
