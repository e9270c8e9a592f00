package log

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// closedDirectory returns a disk with a directory that was closed properly. The log dir/t-0 had
// offsets 3 to 6, and the checkpoints have its entries.
func closedDirectory(t *testing.T) *vfs.MemFS {
	t.Helper()
	disk := vfs.Mem()
	d, err := OpenDirectory("dir", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	l, err := Open("dir/t-0", Config{Dir: d})
	require.NoError(t, err)
	fill(t, l, 6)
	require.NoError(t, l.DeleteRecords(3))
	require.NoError(t, l.Close())
	require.NoError(t, d.Close())
	for _, name := range []string{recoveryPointFile, logStartFile} {
		p, err := vfs.ReadFile(disk, "dir/"+name)
		require.NoError(t, err)
		require.Contains(t, string(p), "t 0 ")
	}
	return disk
}

// openBeside opens dir/t-0: alone if d is nil.
func openBeside(t *testing.T, disk *vfs.MemFS, d *Directory) *Log {
	t.Helper()
	l, err := Open("dir/t-0", Config{FS: disk, Dir: d})
	require.NoError(t, err)
	return l
}

// A new log under the name of a removed one is not checked against the removed log's entries in
// the checkpoints. That holds for every way of removal, and for every crash before its first
// state.
func TestLogIsNotJudgedByTheCheckpointsOfARemovedOne(t *testing.T) {
	t.Parallel()
	remove := func(t *testing.T, disk *vfs.MemFS, d *Directory) { require.NoError(t, openBeside(t, disk, d).Remove()) }
	for name, c := range map[string]struct {
		alone   bool // no Directory is open
		removed func(t *testing.T, disk *vfs.MemFS, d *Directory)
	}{
		"removed":       {removed: remove},
		"removed twice": {removed: func(t *testing.T, disk *vfs.MemFS, d *Directory) { remove(t, disk, d); remove(t, disk, d) }},
		"removed, begun, closed and removed": {removed: func(t *testing.T, disk *vfs.MemFS, d *Directory) {
			remove(t, disk, d)
			l := openBeside(t, disk, d)
			fill(t, l, 9)
			require.NoError(t, l.Close())
			remove(t, disk, d)
		}},
		"removed alone": {alone: true, removed: remove},
		"removed by somebody else": {removed: func(t *testing.T, disk *vfs.MemFS, _ *Directory) {
			require.NoError(t, disk.RemoveAll("dir/t-0"))
			require.NoError(t, disk.SyncDir("dir"))
		}},
		"removed by somebody else, opened alone": {alone: true, removed: func(t *testing.T, disk *vfs.MemFS, _ *Directory) {
			require.NoError(t, disk.RemoveAll("dir/t-0"))
			require.NoError(t, disk.SyncDir("dir"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := closedDirectory(t)
			var d *Directory
			if !c.alone {
				var err error
				d, err = OpenDirectory("dir", DirectoryConfig{FS: disk})
				require.NoError(t, err)
			}
			c.removed(t, disk, d)
			var l *Log
			all := moments(disk, randomCrashes(disk, 8), func() { l = openBeside(t, disk, d) })
			requireNew(t, disk, 0) // beside the writer
			all = append(all, moments(disk, randomCrashes(disk, 8), func() {
				_, err := l.Append(t.Context(), record.String("", "", "new"))
				require.NoError(t, err)
			})...)
			for _, m := range all {
				requireNew(t, m.disk, -1)
				openNew(t, m.disk, -1)
			}
			require.Greater(t, len(all), 50)
			openNew(t, disk.CrashWith(lostAll()), 1)
			require.NoError(t, l.Close())
			if d != nil {
				require.NoError(t, d.Close())
			}
			openNew(t, disk, 1)
		})
	}
}

// requireNew checks dir/t-0 without changing it. There is no log, or the new one, with n records;
// n is -1 for any number.
func requireNew(t *testing.T, disk *vfs.MemFS, n int) {
	t.Helper()
	_, planErr := PlanRecovery("dir/t-0", Config{FS: disk})
	l, err := OpenReadOnly("dir/t-0", Config{FS: disk})
	if n < 0 && errors.Is(err, fs.ErrNotExist) {
		require.ErrorIs(t, planErr, fs.ErrNotExist)
		return
	}
	require.NoError(t, err)
	requireOnlyNew(t, l, n)
}

// openNew is requireNew for a log that is opened for writing.
func openNew(t *testing.T, disk *vfs.MemFS, n int) {
	t.Helper()
	d, err := OpenDirectory("dir", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	requireOnlyNew(t, openBeside(t, disk, d), n)
	require.NoError(t, d.Close())
}

func requireOnlyNew(t *testing.T, l *Log, n int) {
	t.Helper()
	require.Zero(t, l.StartOffset())
	got := values(t, l)
	if n >= 0 {
		require.Len(t, got, n)
	}
	require.Subset(t, []string{"new"}, got)
	require.LessOrEqual(t, len(got), 1)
	require.NoError(t, l.Close())
}

// A power cut during or after the open that follows a kill removes no part of such a log. That
// open syncs the names and the state that the killed process left.
func TestLogBegunAgainIsDurableAfterAKill(t *testing.T) {
	t.Parallel()
	disk := closedDirectory(t)
	d, err := OpenDirectory("dir", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	require.NoError(t, openBeside(t, disk, d).Remove())
	var l *Log
	all := moments(disk, func(vfs.Event) []*vfs.MemFS { return []*vfs.MemFS{disk.Kill()} }, func() { l = openBeside(t, disk, d) })
	require.NoError(t, l.Close())
	require.NoError(t, d.Close())
	for _, m := range all {
		d, err := OpenDirectory("dir", DirectoryConfig{FS: m.disk})
		require.NoError(t, err)
		var l *Log
		for _, again := range moments(m.disk, randomCrashes(m.disk, 8), func() { l = openBeside(t, m.disk, d) }) {
			openNew(t, again.disk, -1)
		}
		_, err = l.Append(t.Context(), record.String("", "", "new"))
		require.NoError(t, err)
		openNew(t, m.disk.CrashWith(lostAll()), 1)
		require.NoError(t, l.Close())
		require.NoError(t, d.Close())
	}
}

// A failed open leaves no log, or files that the next open takes for the new log.
func TestFaultWhileALogIsBegunAgainLeavesNoneOrTheNewOne(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		disk := closedDirectory(t)
		faulty := vfs.Faulty(disk)
		d, err := OpenDirectory("dir", DirectoryConfig{FS: faulty})
		require.NoError(t, err)
		l, err := Open("dir/t-0", Config{Dir: d, FS: faulty})
		require.NoError(t, err)
		require.NoError(t, l.Remove())
		faulty.Inject(vfs.Fault{Ops: vfs.OpChange, After: n, Err: syscall.EIO})
		l, failed := Open("dir/t-0", Config{Dir: d, FS: faulty})
		if failed != nil {
			require.ErrorIs(t, failed, syscall.EIO)
			requireNew(t, disk.Crash(uint64(n)), -1)
			openNew(t, disk.Kill(), -1)
			l, err = Open("dir/t-0", Config{Dir: d, FS: faulty})
			require.NoError(t, err, "call %d", n)
			for seed := range uint64(8) {
				openNew(t, disk.Crash(seed), -1)
			}
		}
		require.Zero(t, l.StartOffset())
		_, err = l.Append(t.Context(), record.String("", "", "new"))
		if failed != nil {
			require.NoError(t, err)
			openNew(t, disk.CrashWith(lostAll()), 1)
		}
		_ = l.Close()
		_ = d.Close()
		if failed == nil {
			require.Greater(t, n, 5)
			return
		}
	}
}

// A log elsewhere has only the last element of its path in common with the log that the
// checkpoints of its Directory name. Neither is taken for the other.
func TestLogElsewhereIsNotTakenForItsDirectorysOwn(t *testing.T) {
	t.Parallel()
	disk := closedDirectory(t)
	want, err := vfs.ReadFile(disk, "dir/"+recoveryPointFile)
	require.NoError(t, err)
	d, err := OpenDirectory("dir", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	for range 2 { // the second time it has a file, and no state
		l, err := Open("elsewhere/t-0", Config{Dir: d})
		require.NoError(t, err)
		require.Zero(t, l.StartOffset())
		require.NoError(t, l.Close())
	}
	require.NoError(t, d.Close())
	got, err := vfs.ReadFile(disk, "dir/"+recoveryPointFile)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// Logs without an entry in the checkpoints cause no additional sync.
func TestOnlyALogThatTheCheckpointsNameGetsAStateAtOnce(t *testing.T) {
	t.Parallel()
	disk := closedDirectory(t)
	d, err := OpenDirectory("dir", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	require.NoError(t, openBeside(t, disk, d).Remove())
	for name, syncs := range map[string]int64{"dir/t-0": 3, "dir/t-1": 0} {
		before := disk.Count(vfs.OpSync | vfs.OpSyncDir)
		l, err := Open(name, Config{Dir: d})
		require.NoError(t, err)
		require.Equal(t, syncs, disk.Count(vfs.OpSync|vfs.OpSyncDir)-before, name)
		require.NoError(t, l.Close())
	}
	require.NoError(t, d.Close())
}
