package log

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// From now on the disk of refuse fails syncs of logs, suspect files, and renames of the log's
// directory.
func refuse(disk *vfs.MemFS) (heal func()) {
	var all []func()
	for _, f := range []vfs.Fault{{Ops: vfs.OpSync, Pattern: "*.log"}, {Ops: vfs.OpCreate, Pattern: suspectFile + "*"}, {Ops: vfs.OpRename, Pattern: "log"}} {
		f.Times, f.Err = vfs.Always, syscall.ENOSPC
		all = append(all, disk.Inject(f))
	}
	return func() {
		for _, heal := range all {
			heal()
		}
	}
}

// lostValue has its own pages in the file: later appends do not write them again.
var lostValue = bytes.Repeat([]byte("lost"), 4000)

// leaveUnnoted returns a disk on which the last sync of a log failed. The suspect file that
// records it could not be written.
func leaveUnnoted(t *testing.T, policy SyncPolicy, end string) *vfs.MemFS {
	t.Helper()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Sync: policy})
	require.NoError(t, err)
	fill(t, l, 3)
	require.NoError(t, l.Sync())
	heal := refuse(disk)
	switch _, _ = l.Append(t.Context(), record.Record{Value: lostValue}); end {
	case "close":
		require.ErrorIs(t, l.Close(), syscall.ENOSPC)
	case "remove":
		require.ErrorIs(t, l.Remove(), syscall.ENOSPC)
	case "open": // and the sync of recovery
		killed := disk.Kill()
		require.Error(t, l.Close())
		disk, heal = killed, refuse(killed)
		_, err = Open("log", Config{FS: disk, Sync: policy})
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	heal()
	require.False(t, exists(t, disk, "../log/"+suspectFile), "the disk took a note")
	return disk
}

// TestFailedSyncThatCouldNotBeNotedIsNotForgotten has a disk that fails everything, including the
// suspect file of a failed sync. It works again when the same process opens the log the next time.
func TestFailedSyncThatCouldNotBeNotedIsNotForgotten(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		for _, end := range []string{"close", "remove", "open"} {
			t.Run(fmt.Sprint(policy, " ", end), func(t *testing.T) {
				disk := leaveUnnoted(t, policy, end)
				l, err := Open("log", Config{FS: disk, Sync: policy})
				require.NoError(t, err)
				had := l.EndOffset()
				require.EqualValues(t, 4, had)
				fill(t, l, 2)
				require.NoError(t, l.Sync())
				after := disk.CrashWith(lostAll())
				require.NoError(t, l.Close())
				require.Nil(t, vfs.Note(disk, "/log/"+suspectFile), "remembered for ever")
				require.False(t, exists(t, disk, "../log/"+suspectFile), "and noted again")
				l, err = Open("log", Config{FS: after, Sync: policy})
				require.NoError(t, err)
				require.Len(t, values(t, l), int(had)+2)
				require.NoError(t, l.Close())
			})
		}
	}
}

// TestRemovedLogLeavesNoDoubtAboutTheNext: the log that is created in its place is another one.
func TestRemovedLogLeavesNoDoubtAboutTheNext(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Sync: SyncNever})
	require.NoError(t, err)
	fill(t, l, 1)
	heal := refuse(disk)
	require.ErrorIs(t, l.Sync(), syscall.ENOSPC)
	require.NotNil(t, vfs.Note(disk, "/log/"+suspectFile))
	heal()
	require.Error(t, l.Remove())
	require.Nil(t, vfs.Note(disk, "/log/"+suspectFile))
	_, err = disk.Stat("log")
	require.Error(t, err)
}

// leaveTorn ends the log on disk with a write that failed half-way, and could neither be truncated
// nor noted. keep is the number of its bytes in the file.
func leaveTorn(t *testing.T, disk *vfs.MemFS, keep int) {
	t.Helper()
	l, err := Open("log", Config{FS: disk, Sync: SyncNever})
	require.NoError(t, err)
	fill(t, l, 3)
	disk.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Err: syscall.EIO, Keep: keep})
	heal := disk.Inject(vfs.Fault{Ops: vfs.OpChange &^ vfs.OpWrite, Times: vfs.Always, Err: syscall.EIO})
	_, err = l.Append(t.Context(), record.Record{Value: make([]byte, 500)})
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, l.Close(), syscall.EIO)
	heal()
}

// TestTornWriteThatCouldNotBeNotedIsCutByTheNextOpen: the process keeps the end of the log in
// memory.
func TestTornWriteThatCouldNotBeNotedIsCutByTheNextOpen(t *testing.T) {
	t.Parallel()
	for _, keep := range []int{1, 61, 70, 200, -1, 1 << 20} {
		disk := vfs.Mem()
		leaveTorn(t, disk, keep)
		for range 2 {
			l, err := Open("log", Config{FS: disk})
			require.NoError(t, err, "%d bytes kept", keep)
			require.Len(t, values(t, l), 3, "%d bytes kept", keep)
			require.NoError(t, l.Close())
		}
	}
}

// TestTornWriteIsNotCutIfSomebodyElseHasHadTheLog: another process opens the log in between. It
// has no note of the torn write, takes the complete batches of it, and appends.
func TestTornWriteIsNotCutIfSomebodyElseHasHadTheLog(t *testing.T) {
	t.Parallel()
	const path = "/log/" + suspectFile
	disk := vfs.Mem()
	leaveTorn(t, disk, 1<<20)
	mark := vfs.Note(disk, path)
	require.NotNil(t, mark)
	vfs.RemoveNote(disk, path)
	other := openMem(t, disk)
	fill(t, other, 2)
	require.NoError(t, other.Close())
	vfs.SetNote(disk, path, mark)
	l := openMem(t, disk)
	require.Len(t, values(t, l), 3+1+2)
	require.NoError(t, l.Close())
}

// journalAndUnsyncedWrite returns the disk of a killed process with logs whose journal has
// entries, and the end of the first log. The last write of that log, a large one, was never
// synced.
func journalAndUnsyncedWrite(t *testing.T) (killed *vfs.MemFS, end int64) {
	t.Helper()
	disk := vfs.Mem()
	s := openSharing(t, disk, 4)
	file := filepath.Join(logPath(0), "00000000000000000000.log")
	first := s.logs[0]
	for first.durability.settled() {
		require.NoError(t, s.append("shared"))
	}
	var once sync.Once
	stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpSync && e.Name == file {
			once.Do(func() { killed = disk.Kill() })
		}
	}})
	_, err := first.Append(t.Context(), record.Record{Value: bytes.Repeat([]byte("large"), journalRound)})
	require.NoError(t, err)
	stop()
	end = first.EndOffset()
	s.close(t)
	require.NotNil(t, killed)
	return killed, end
}

// TestFailedSyncOfAReplayIsNotBelievedTheNextTime: the replay of a journal syncs a file that has
// more than the journal's bytes.
func TestFailedSyncOfAReplayIsNotBelievedTheNextTime(t *testing.T) {
	t.Parallel()
	killed, end := journalAndUnsyncedWrite(t)
	killed.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: syscall.EIO, Times: vfs.Always})
	_, err := OpenDirectory(sharedDir, DirectoryConfig{FS: killed})
	require.ErrorIs(t, err, syscall.EIO)
	killed = killed.Kill()
	d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: killed})
	require.NoError(t, err)
	l, err := Open(logPath(0), Config{FS: killed, Dir: d})
	require.NoError(t, err)
	require.Equal(t, end, l.EndOffset())
	require.Equal(t, end, l.DurableOffset())
	after := killed.CrashWith(lostAll())
	require.NoError(t, errors.Join(l.Close(), d.Close()))
	require.Len(t, valuesAfter(t, after, 0), int(end), "what was called durable is gone")
}

// TestFailedSyncOfAReplayLeavesAnOlderMarkAlone: the mark has the end of a write that could not be
// truncated. This disk cannot even report that the mark exists.
func TestFailedSyncOfAReplayLeavesAnOlderMarkAlone(t *testing.T) {
	t.Parallel()
	killed, end := journalAndUnsyncedWrite(t)
	file := filepath.Join(logPath(0), "00000000000000000000.log")
	info, err := killed.Stat(file)
	require.NoError(t, err)
	older := manifest.State{End: end, RecoveryPoint: end, Segments: []manifest.Segment{{Size: info.Size()}}}
	mark := filepath.Join(logPath(0), suspectFile)
	require.NoError(t, vfs.WriteFile(killed, mark, older.AppendTo(nil)))

	heal := killed.Inject(vfs.Fault{Ops: vfs.OpStat, Pattern: suspectFile, Err: syscall.EIO, Times: vfs.Always})
	killed.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: filepath.Base(file), Err: syscall.EIO})
	_, err = OpenDirectory(sharedDir, DirectoryConfig{FS: killed})
	require.ErrorIs(t, err, syscall.EIO)
	heal()
	p, err := vfs.ReadFile(killed, mark)
	require.NoError(t, err)
	require.Equal(t, older.AppendTo(nil), p)

	// The same process has both failures in memory.
	d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: killed})
	require.NoError(t, err)
	l, err := Open(logPath(0), Config{FS: killed, Dir: d})
	require.NoError(t, err)
	require.Equal(t, end, l.DurableOffset())
	after := killed.CrashWith(lostAll())
	require.NoError(t, errors.Join(l.Close(), d.Close()))
	require.Len(t, valuesAfter(t, after, 0), int(end), "what was called durable is gone")
}

// TestNoteOfAFailedSyncIsTriedAgainBeforeTheLogIsGivenUp: the suspect file can be written then,
// and another process has to find it.
func TestNoteOfAFailedSyncIsTriedAgainBeforeTheLogIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"close", "remove", "open"} {
		disk := vfs.Mem()
		l, err := Open("log", Config{FS: disk, Sync: SyncNever})
		require.NoError(t, err)
		fill(t, l, 3)
		if end == "open" {
			killed := disk.Kill()
			require.NoError(t, l.Close())
			disk = killed
		}
		disk.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: syscall.EIO})
		disk.Inject(vfs.Fault{Ops: vfs.OpCreate, Pattern: suspectFile + "*", Times: 1 + noteTries, Err: syscall.EIO})
		disk.Inject(vfs.Fault{Ops: vfs.OpRename, Pattern: "log", Err: syscall.EIO})
		switch end {
		case "close":
			require.ErrorIs(t, l.Close(), syscall.EIO)
		case "remove":
			require.ErrorIs(t, l.Remove(), syscall.EIO)
		case "open":
			_, err = Open("log", Config{FS: disk, Sync: SyncNever})
			require.ErrorIs(t, err, syscall.EIO)
		}
		require.True(t, exists(t, disk, "../log/"+suspectFile), end)
		require.Nil(t, vfs.Note(disk, "/log/"+suspectFile), end)
	}
}

// TestTornWriteInALogThatWasBrokenMeanwhileIsNotedToo: a sync fails during the write, and its note
// does not have the torn write.
func TestTornWriteInALogThatWasBrokenMeanwhileIsNotedToo(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Sync: SyncNever})
	require.NoError(t, err)
	fill(t, l, 3)
	disk.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Err: syscall.EIO, Keep: 1 << 20})
	disk.Inject(vfs.Fault{Ops: vfs.OpTruncate, Pattern: "*.log", Times: vfs.Always, Err: syscall.EIO})
	stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpWrite && filepath.Ext(e.Name) == ".log" {
			_ = l.breakWith(errors.New("a sync in the background"))
		}
	}})
	_, err = l.Append(t.Context(), record.Record{Value: make([]byte, 500)})
	require.ErrorIs(t, err, l.Err())
	stop()
	killed := disk.Kill()
	require.Error(t, l.Close())
	l = openMem(t, killed)
	require.Len(t, values(t, l), 3)
	require.EqualValues(t, 3, l.Recovery().CutOffset)
	require.NoError(t, l.Close())
}

// TestLogWhoseLastSyncFailedWasNotClosedInOrder fails the sync of Close, which also covers bytes
// that were truncated.
func TestLogWhoseLastSyncFailedWasNotClosedInOrder(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Sync: SyncNever})
	require.NoError(t, err)
	fill(t, l, 3)
	require.NoError(t, l.Sync())
	disk.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: syscall.EIO})
	require.ErrorIs(t, l.Close(), syscall.EIO)
	require.True(t, exists(t, disk, "../log/"+suspectFile), "the next open believes its sync")
	l = openMem(t, disk)
	require.False(t, l.Recovery().Clean)
	require.Len(t, values(t, l), 3)
	require.NoError(t, l.Close())
}
