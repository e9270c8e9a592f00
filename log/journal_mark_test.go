package log

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// journalWorld returns a disk whose logs have acknowledged records only in the journal: after a
// power cut, and after a kill.
func journalWorld(t *testing.T, fsys *vfs.MemFS, value string) (cut, killed *vfs.MemFS) {
	t.Helper()
	s := openSharing(t, fsys, 3)
	require.NoError(t, s.append(value))
	cut, killed = s.fs.CrashWith(lostAll()), s.fs.Kill()
	s.close(t)
	require.False(t, exists(t, s.fs, markFile), "closed in order")
	return cut, killed
}

func requireMissingJournal(t *testing.T, err error) {
	t.Helper()
	var damage *CorruptError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, filepath.Join(sharedDir, journalFile), damage.Path)
	require.ErrorContains(t, err, "restore it, or remove "+markFile+" beside it to give them up")
}

// openAllWays opens the directory, one of its logs alone, and that log read-only. It returns the
// three errors.
func openAllWays(fsys vfs.FS) (errs []error) {
	d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: fsys})
	if err == nil {
		err = d.Close()
	}
	errs = append(errs, err)
	for _, open := range []func(string, Config) (*Log, error){Open, OpenReadOnly} {
		l, err := open(logPath(1), Config{FS: fsys})
		if err == nil {
			err = l.Close()
		}
		errs = append(errs, err)
	}
	return errs
}

// The journal is missing after a power cut. Its records are not lost silently: no open succeeds
// until it is restored, or until it is given up.
func TestMissingJournalIsRefusedAfterAPowerCut(t *testing.T) {
	t.Parallel()
	cut, killed := journalWorld(t, vfs.Mem(), "value")
	path := filepath.Join(sharedDir, journalFile)
	whole, err := vfs.ReadFile(cut, path)
	require.NoError(t, err)
	require.NoError(t, cut.Remove(path))
	for range 2 {
		for _, err := range openAllWays(cut) {
			requireMissingJournal(t, err)
		}
	}
	givenUp := cut.Kill()
	require.NoError(t, givenUp.Remove(filepath.Join(sharedDir, markFile)))
	require.Empty(t, valuesAfter(t, givenUp, 1))

	require.NoError(t, vfs.WriteFile(cut, path, whole))
	require.Equal(t, []string{"value"}, valuesAfter(t, cut, 1))
	require.False(t, exists(t, cut, markFile))

	require.NoError(t, killed.Remove(path))
	require.Equal(t, []string{"value"}, valuesAfter(t, killed, 1), "the machine runs since: the files have everything")
	require.False(t, exists(t, killed, markFile))
}

// A damaged journal can be given up.
func TestDamagedJournalNamesAWayOutThatWorks(t *testing.T) {
	t.Parallel()
	cut, _ := journalWorld(t, vfs.Mem(), "value")
	require.NoError(t, vfs.WriteFile(cut, filepath.Join(sharedDir, journalFile), []byte("another file")))
	_, err := OpenDirectory(sharedDir, DirectoryConfig{FS: cut})
	require.ErrorContains(t, err, "restore it, or remove it and "+markFile+" to give them up")
	require.NoError(t, cut.Remove(filepath.Join(sharedDir, journalFile)))
	require.NoError(t, cut.Remove(filepath.Join(sharedDir, markFile)))
	require.Empty(t, valuesAfter(t, cut, 1))
}

// The journal of an earlier power cut does not replace the journal of a later one.
func TestEarlierJournalIsNotTakenForTheLastOne(t *testing.T) {
	t.Parallel()
	earlier, _ := journalWorld(t, vfs.Mem(), "first")
	old, err := vfs.ReadFile(earlier, filepath.Join(sharedDir, journalFile))
	require.NoError(t, err)
	cut, _ := journalWorld(t, earlier, "second")
	whole := cut.Kill()
	require.NoError(t, vfs.WriteFile(cut, filepath.Join(sharedDir, journalFile), old))
	for _, err := range openAllWays(cut) {
		requireMissingJournal(t, err)
	}
	require.Equal(t, []string{"first", "second"}, valuesAfter(t, whole, 1))
}

// The mark of a journal is damaged: the journal still counts, and a missing journal is an error.
func TestDamagedMarkOfAJournalVoidsNothing(t *testing.T) {
	t.Parallel()
	for _, damage := range []func(p []byte) []byte{
		func([]byte) []byte { return nil },
		func(p []byte) []byte { return p[:len(p)/2] },
		func(p []byte) []byte { p[len(p)/2] ^= 4; return p },
	} {
		cut, killed := journalWorld(t, vfs.Mem(), "value")
		for _, fsys := range []*vfs.MemFS{cut, killed} {
			name := filepath.Join(sharedDir, markFile)
			p, err := vfs.ReadFile(fsys, name)
			require.NoError(t, err)
			require.NoError(t, vfs.WriteFile(fsys, name, damage(p)))
			missing := fsys.Kill()
			require.NoError(t, missing.Remove(filepath.Join(sharedDir, journalFile)))
			for _, err := range openAllWays(missing) {
				requireMissingJournal(t, err)
			}
			require.Equal(t, []string{"value"}, valuesAfter(t, fsys, 1))
		}
	}
}

// A journal that Kafka's changes made void may be missing, and logs that were closed properly need
// no journal.
func TestVoidJournalIsNotMissed(t *testing.T) {
	t.Parallel()
	cut, _ := journalWorld(t, vfs.Mem(), "value")
	require.NoError(t, cut.Remove(filepath.Join(sharedDir, journalFile)))
	require.NoError(t, vfs.WriteFile(cut, filepath.Join(sharedDir, recoveryPointFile), []byte("0\n1\ntopic 1 0\n")))
	for _, err := range openAllWays(cut) {
		require.NoError(t, err)
	}

	s := openSharing(t, vfs.Mem(), 3)
	require.NoError(t, s.append("value"))
	require.NoError(t, s.logs[1].Close())
	cut = s.fs.CrashWith(lostAll())
	require.NoError(t, cut.Remove(filepath.Join(sharedDir, journalFile)))
	l, err := OpenReadOnly(logPath(1), Config{FS: cut})
	require.NoError(t, err)
	require.Equal(t, []string{"value"}, sharedValues(t, l))
	require.NoError(t, l.Close())
	_, err = OpenReadOnly(logPath(2), Config{FS: cut})
	requireMissingJournal(t, err)
	s.logs = append(s.logs[:1], s.logs[2])
	s.close(t)
}
