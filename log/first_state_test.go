package log

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log/internal/recovery"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// meetingFS blocks the syncs of a log's first state until all of them have started.
type meetingFS struct {
	vfs.FS
	meeting *sync.WaitGroup
}

func (f meetingFS) meet() {
	f.meeting.Done()
	f.meeting.Wait()
}

func (f meetingFS) SyncDir(name string) error {
	if _, err := f.Stat(filepath.Join("dir/log", stateFile)); err != nil {
		f.meet()
	}
	return f.FS.SyncDir(name)
}

func (f meetingFS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err == nil && filepath.Base(name) == stateFile+".tmp" {
		return meetingFile{file, f}, nil
	}
	return file, err
}

type meetingFile struct {
	vfs.File
	fs meetingFS
}

func (f meetingFile) Sync() error {
	if _, err := f.fs.Stat(filepath.Join("dir/log", stateFile)); err != nil {
		f.fs.meet()
	}
	return f.File.Sync()
}

// Checklist row L4: the first record of a new log needs three syncs: the state's content, the
// segment's entry, and the directory's entry. They run at the same time. Run in sequence, they
// would block each other here.
func TestSyncsOfANewLogWaitForTheDiskTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		d, err := OpenDirectory("dir", DirectoryConfig{FS: disk})
		require.NoError(t, err)
		meeting := meetingFS{disk, new(sync.WaitGroup)}
		meeting.meeting.Add(3)
		l, err := Open("dir/log", Config{FS: meeting, Dir: d})
		require.NoError(t, err)
		_, err = l.Append(t.Context(), record.String("", "", "first"))
		require.NoError(t, err)
		after, err := Open("dir/log", Config{FS: disk.CrashWith(lostAll())})
		require.NoError(t, err)
		require.Equal(t, []string{"first"}, values(t, after))
		require.NoError(t, after.Close())
		require.NoError(t, l.Close())
		require.NoError(t, d.Close())
	})
}

// A snapshot of an empty log is as durable as any other.
func TestASnapshotOfANewLogSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	d, err := OpenDirectory("dir", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	l, err := Open("dir/log", Config{FS: disk, Dir: d})
	require.NoError(t, err)
	require.NoError(t, l.WriteSnapshot(0, []byte("state")))
	after := disk.CrashWith(lostAll())
	p, err := vfs.ReadFile(after, filePath("dir/log", 0, snapshotSuffix))
	require.NoError(t, err)
	require.Equal(t, "state", string(p))
	require.NoError(t, l.Close())
	require.NoError(t, d.Close())
}

// A log that was opened and closed without a write has a segment that was not made durable. The
// next open does not create it, so a power cut can still remove it when the first state names it.
func TestFirstStateOfALogThatWasOpenedBeforeNamesNoSegmentThatCanBeLost(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		disk := vfs.Mem()
		cfg := Config{FS: disk, Sync: policy}
		for range 2 {
			l, err := Open("log", cfg)
			require.NoError(t, err)
			require.NoError(t, l.Close())
		}
		l, err := Open("log", cfg)
		require.NoError(t, err)
		for _, m := range moments(disk, randomCrashes(disk, 8), func() { fill(t, l, 1) }) {
			cfg.FS = m.disk
			again, err := Open("log", cfg)
			require.NoError(t, err, "crash before %v", m.before)
			require.NoError(t, again.Close())
		}
		require.NoError(t, l.Close())
	}
}

// A file of a killed broker is not durable merely because the directory lists it. The state that
// the directory gets names no file that the next power cut can remove.
func TestStateOfAKilledBrokersDirectoryNamesNothingThatCanBeLost(t *testing.T) {
	t.Parallel()
	kafka := vfs.Mem()
	gapsOfKafka(t, kafka, true)
	entries, err := kafka.ReadDir("data/t-0")
	require.NoError(t, err)
	for _, swapped := range []string{"", ".swap"} {
		disk := vfs.Mem()
		require.NoError(t, vfs.MakeDir(disk, "data/t-0", 0o755))
		writeUnlisted(t, disk, "data/t-0/"+epochFile, []byte("0\n1\n0 0\n"))
		for _, e := range entries[:min(len(entries), 12)] {
			if p, err := vfs.ReadFile(kafka, "data/t-0/"+e.Name()); recovery.HoldsBatches(e.Name()) {
				require.NoError(t, err)
				writeUnlisted(t, disk, "data/t-0/"+e.Name()+swapped, p)
				swapped = ""
			}
		}
		var opened inDirectory
		for _, m := range moments(disk, randomCrashes(disk, 8), func() { opened = openInDirectory(t, disk) }) {
			d, err := OpenDirectory("data", DirectoryConfig{FS: m.disk})
			require.NoError(t, err)
			l, err := Open("data/t-0", Config{Dir: d})
			require.NoError(t, err, "crash before %v", m.before)
			inDirectory{l, d}.close(t)
		}
		require.Greater(t, len(opened.log.list()), 2)
		opened.close(t)
	}
}

// writeUnlisted writes a file whose name a power cut can remove.
func writeUnlisted(t *testing.T, disk *vfs.MemFS, name string, p []byte) {
	t.Helper()
	f, err := disk.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	require.NoError(t, err)
	_, err = f.WriteAt(p, 0)
	require.NoError(t, err)
	require.NoError(t, errors.Join(f.Sync(), f.Close()))
}

// Checklist row L4: a new log lists its directory once and finds no files of a log. It neither
// lists the directory again nor tries to remove files that do not exist.
func TestNewLogListsItsDirectoryOnce(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	require.NoError(t, disk.MkdirAll("data/t-0", 0o755))
	require.NoError(t, vfs.WriteFile(disk, "data/t-0/owner", []byte("mine")))
	d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	listed, removed, read := disk.Count(vfs.OpReadDir), disk.Count(vfs.OpRemove), disk.Count(vfs.OpRead)
	l, err := Open("data/t-0", Config{Dir: d, Sync: SyncNever})
	require.NoError(t, err)
	snapshots, err := l.SnapshotFiles()
	require.NoError(t, err)
	require.Empty(t, snapshots)
	require.NoError(t, l.LeadInEpoch(3))
	fill(t, l, 2)
	require.EqualValues(t, 1, disk.Count(vfs.OpReadDir)-listed)
	require.EqualValues(t, 0, disk.Count(vfs.OpRemove)-removed)
	require.EqualValues(t, 0, disk.Count(vfs.OpRead)-read)
	require.NoError(t, errors.Join(l.Close(), d.Close()))
}

// Files that an earlier log left in the directory are not part of the new log.
func TestNewLogGoesOnWithNothingThatItFinds(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"00000000000000000000.index": "12345678", "00000000000000000000.timeindex": "123456789012", "00000000000000000000.txnindex": "x",
		"00000000000000000007.snapshot": "state", epochFile: "0\n1\n9 0\n",
	} {
		disk := vfs.Mem()
		require.NoError(t, disk.MkdirAll("data/t-0", 0o755))
		require.NoError(t, vfs.WriteFile(disk, "data/t-0/"+name, []byte(content)))
		d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
		require.NoError(t, err)
		l, err := Open("data/t-0", Config{Dir: d, Sync: SyncNever})
		require.NoError(t, err, name)
		snapshots, err := l.SnapshotFiles()
		require.NoError(t, err, name)
		require.Empty(t, snapshots, name)
		// The epochs are of a log that lost its records, which is no reason to begin an epoch
		// again.
		if name == epochFile {
			err := l.LeadInEpoch(3)
			require.ErrorIs(t, err, ErrStaleEpoch)
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, "data/t-0/"+epochFile)
		} else {
			require.False(t, isThere(t, disk, "data/t-0/"+name), name)
			require.NoError(t, l.LeadInEpoch(3), name)
		}
		fill(t, l, 2)
		require.Equal(t, []string{"0", "1"}, values(t, l), name)
		require.NoError(t, errors.Join(l.Close(), d.Close()), name)
	}
}
