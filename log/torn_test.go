package log

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// tornLog returns a disk on which the log's last append failed. The given number of its bytes is
// in the file, and could not be truncated. The log is still open.
func tornLog(t *testing.T, policy SyncPolicy, keep int) (*vfs.MemFS, *Log) {
	t.Helper()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Sync: policy})
	require.NoError(t, err)
	fill(t, l, 3)
	disk.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Err: syscall.EIO, Keep: keep})
	heal := disk.Inject(vfs.Fault{Ops: vfs.OpTruncate, Pattern: "*.log", Times: vfs.Always, Err: syscall.EIO})
	_, err = l.Append(t.Context(), record.Record{Value: make([]byte, 500)})
	require.ErrorIs(t, err, syscall.EIO)
	heal()
	return disk, l
}

// Checklist row D17: a read-only log shows no record of a refused append, regardless of how many
// of its bytes are in the file. That holds beside the log that could not truncate it, after a kill
// and after a power cut. Open finds the same records, and PlanRecovery reports the same as
// Recovery does then.
func TestReadOnlyLogShowsNothingOfATornWrite(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		for _, keep := range []int{1, 61, 200, -1} {
			for _, end := range []string{"none", "kill", "power cut"} {
				t.Run(fmt.Sprint(policy, ", ", keep, " bytes kept, ", end), func(t *testing.T) {
					disk, l := tornLog(t, policy, keep)
					next := disk
					switch end {
					case "kill":
						next = disk.Kill()
					case "power cut":
						next = disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept})
					}
					for range 2 {
						shown, err := OpenReadOnly("log", Config{FS: next})
						require.NoError(t, err)
						require.Len(t, values(t, shown), 3)
						require.EqualValues(t, 3, shown.EndOffset())
						require.NoError(t, shown.Close())
					}
					plan, err := PlanRecovery("log", Config{FS: next})
					require.NoError(t, err)
					_ = l.Close()
					l, err = Open("log", Config{FS: next, Sync: policy})
					require.NoError(t, err)
					require.Len(t, values(t, l), 3)
					require.Equal(t, l.Recovery(), plan)
					require.Len(t, plan.Steps, 1)
					require.EqualValues(t, 3, plan.CutOffset)
					require.Positive(t, plan.CutBytes)
					require.NoError(t, l.Close())
				})
			}
		}
	}
}

// A mark that is written while the log is being opened counts, too.
func TestReadOnlyOpenMeetsTheMarkOfATornWriteAtAnyCall(t *testing.T) {
	t.Parallel()
	// SyncNever has a provisional state
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		meetTheMark(t, policy)
	}
}

// meetTheMark writes the mark of a log under the given policy before each call of an open.
func meetTheMark(t *testing.T, policy SyncPolicy) {
	disk, l := tornLog(t, policy, -1)
	require.Error(t, l.Close())
	const mark = "log/" + suspectFile
	text, err := vfs.ReadFile(disk, mark)
	require.NoError(t, err)
	require.NoError(t, disk.Remove(mark))
	for n, more := 0, true; more; n++ {
		next, calls := disk.Kill(), 0
		stop := next.Observe(vfs.Observer{Before: func(vfs.Event) {
			if calls++; calls == n+1 {
				require.NoError(t, vfs.WriteFile(next, mark, text))
			}
		}})
		shown, err := OpenReadOnly("log", Config{FS: next})
		stop()
		require.NoError(t, err)
		if more = calls > n; more {
			require.EqualValues(t, 3, shown.EndOffset(), "%v, the mark came before call %d", policy, n+1)
		}
		require.NoError(t, shown.Close())
	}
}

// A reader that was open before the torn write was truncated reports that the log has changed.
func TestReaderOfATornLogNoticesThatItIsCutAndGoesOn(t *testing.T) {
	t.Parallel()
	disk, l := tornLog(t, SyncNever, 300)
	shown, err := OpenReadOnly("log", Config{FS: disk})
	require.NoError(t, err)
	require.Error(t, l.Close())
	l, err = Open("log", Config{FS: disk, Sync: SyncNever})
	require.NoError(t, err)
	fill(t, l, 4)
	_, err = shown.Read(nil, 0, 1000)
	require.ErrorIs(t, err, ErrChanged)
	require.NoError(t, shown.Close())
	shown, err = OpenReadOnly("log", Config{FS: disk})
	require.NoError(t, err)
	require.Len(t, values(t, shown), 7)
	require.NoError(t, shown.Close())
	require.NoError(t, l.Close())
}

func markOn(t *testing.T, disk *vfs.MemFS) manifest.State {
	t.Helper()
	p, err := vfs.ReadFile(disk, "log/"+suspectFile)
	require.NoError(t, err)
	mark, err := manifest.Parse(p)
	require.NoError(t, err)
	return mark
}

// One torn write is recorded only in the memory of this process, another one in the suspect file.
// After a failed open, the next open, of another process, finds both.
func TestWhatIsNotedAndWhatIsRememberedAreOneMark(t *testing.T) {
	t.Parallel()
	disk, l := tornLog(t, SyncNever, -1)
	require.Error(t, l.Close())
	mark := markOn(t, disk)
	mark.Segments, mark.RecoveryPoint = nil, 0
	vfs.SetNote(disk, "/log/"+suspectFile, mark.AppendTo(nil))
	heal := disk.Inject(vfs.Fault{Ops: vfs.OpTruncate, Pattern: "*.log", Times: vfs.Always, Err: syscall.EIO})
	_, err := Open("log", Config{FS: disk, Sync: SyncNever})
	require.ErrorIs(t, err, syscall.EIO)
	heal()
	mark = markOn(t, disk)
	require.Len(t, mark.Segments, 1)
	require.Zero(t, mark.RecoveryPoint)
	l, err = Open("log", Config{FS: disk.Kill(), Sync: SyncNever})
	require.NoError(t, err)
	require.Len(t, values(t, l), 3)
	require.NoError(t, l.Close())
}
