package log

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// Checklist row L4: a start after a kill syncs each log once, in the replay. It leaves the
// reserved space for later appends. The offsets that it reports as durable are durable.
func TestAStartAfterAKillSyncsEachLogOnce(t *testing.T) {
	t.Parallel()
	const logs = 4 * replayShare
	s := openSharing(t, vfs.Mem(), logs)
	require.NoError(t, s.append("first"))
	require.NoError(t, s.append("more"))
	killed := s.fs.Kill()

	d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: killed})
	require.NoError(t, err)
	require.EqualValues(t, logs, killed.Count(vfs.OpSync), "by the replay")
	opened := make([]*Log, logs)
	for i := range opened {
		opened[i], err = Open(logPath(i), Config{FS: killed, Dir: d})
		require.NoError(t, err)
		require.Equal(t, opened[i].EndOffset(), opened[i].DurableOffset())
		require.Positive(t, opened[i].Recovery().JournalBytes)
	}
	require.EqualValues(t, logs, killed.Count(vfs.OpSync))
	require.Zero(t, killed.Count(vfs.OpTruncate))
	for i := range opened {
		require.Equal(t, []string{"first", "more"}, valuesAfter(t, killed.CrashWith(lostAll()), i))
	}

	// Reserved space is released on Close; appends before that use it.
	require.NoError(t, (&sharing{fs: killed, dir: d, logs: opened[:1]}).append("again"))
	for i, l := range opened {
		require.NoError(t, l.Close())
		info, err := killed.Stat(filePath(logPath(i), 0, ".log"))
		require.NoError(t, err)
		require.Equal(t, l.Size(), info.Size())
	}
	require.NoError(t, d.Close())
	require.Equal(t, []string{"first", "more", "again"}, valuesAfter(t, killed.CrashWith(lostAll()), 0))
	s.close(t)
}

// The sync of a replay holds for one state of one log. Another log that has taken its place since
// does not count as synced.
func TestAReplayVouchesForTheLogItWasMadeForAlone(t *testing.T) {
	t.Parallel()
	s := openSharing(t, vfs.Mem(), 2)
	require.NoError(t, s.append("first"))
	killed := s.fs.Kill()
	d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: killed})
	require.NoError(t, err)
	require.NoError(t, killed.RemoveAll(logPath(0)))
	require.NoError(t, killed.Rename(logPath(1), logPath(0)))
	f, err := killed.OpenFile(filePath(logPath(0), 0, ".log"), os.O_RDWR, 0)
	require.NoError(t, err)
	size := s.logs[1].Size()
	p := make([]byte, size)
	_, err = f.ReadAt(p, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(p, 0) // as if it had just been copied, and not synced
	require.NoError(t, err)
	require.NoError(t, f.Close())
	before := killed.Count(vfs.OpSync)
	l, err := Open(logPath(0), Config{FS: killed, Dir: d})
	require.NoError(t, err)
	require.Greater(t, killed.Count(vfs.OpSync), before)
	require.NoError(t, l.Close())
	require.NoError(t, d.Close())
	s.close(t)
}

// Under another policy reserved space is truncated, and that is on stable storage before the log
// is used. A segment that is closed without a sync must not get it back.
func TestReservedSpaceThatAStartGivesBackStaysAway(t *testing.T) {
	t.Parallel()
	s := openSharing(t, vfs.Mem(), 2)
	require.NoError(t, s.append("first"))
	killed := s.fs.Kill()
	d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: killed})
	require.NoError(t, err)
	l, err := Open(logPath(0), Config{FS: killed, Dir: d, Sync: SyncNever})
	require.NoError(t, err)
	info, err := killed.CrashWith(lostAll()).Stat(filePath(logPath(0), 0, ".log"))
	require.NoError(t, err)
	require.Equal(t, l.Size(), info.Size())
	require.NoError(t, l.Close())
	require.NoError(t, d.Close())
	s.close(t)
}
