package log

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// meetingFS holds the syncs of a log's first state until all of them are under way.
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

// Checklist row L4: what a new log's first record needs on stable storage waits for the disk together: the state's
// content, the entry of the segment and that of the directory. One after the other they would wait for each other here.
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

// A snapshot of a log that holds nothing is as durable as any.
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
