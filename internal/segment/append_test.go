package segment

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

func TestCreateRefusesASegmentThatIsThere(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	closed(t, s)
	_, err = Create(testDir, 0, Config{FS: fsys})
	require.ErrorIs(t, err, fs.ErrExist)
}

func TestAppendRefusesBatchesThatDoNotFit(t *testing.T) {
	t.Parallel()
	s, err := Create(testDir, 100, Config{FS: memFS(t)})
	require.NoError(t, err)
	closed(t, s)
	good := batch(100, 2, 1, 10)
	require.NoError(t, appendTo(s, good))
	for _, b := range []BatchInfo{
		{Size: 10, BaseOffset: 101, LastOffset: 101},
		{Size: 10, BaseOffset: 103, LastOffset: 102},
		{Size: 0, BaseOffset: 102, LastOffset: 102},
		{Size: 10, BaseOffset: 102, LastOffset: 100 + math.MaxInt32 + 1},
		{Size: math.MaxInt32, BaseOffset: 102, LastOffset: 102},
	} {
		require.ErrorIs(t, s.Append([][]byte{make([]byte, 10)}, []BatchInfo{b}), ErrInvalidBatches, "%+v", b)
		require.ErrorIs(t, s.AppendOne(make([]byte, 10), &b), ErrInvalidBatches, "%+v", b)
	}
	require.EqualValues(t, len(good), s.Size())
	require.EqualValues(t, 102, s.NextOffset())
	require.NoError(t, s.Append(nil, nil), "nothing to do")
}

// Checklist row D5: every kind of failed write, after which the disk works again.
func TestFailedWriteIsCutBackAndAppendingGoesOn(t *testing.T) {
	t.Parallel()
	for _, f := range []vfs.Fault{{Err: syscall.EIO}, {Err: syscall.ENOSPC, Keep: 61}, {Err: syscall.EDQUOT, Keep: -1}, {Keep: -1}, {Keep: 5}} {
		for _, preallocate := range []bool{false, true} {
			fsys := memFS(t)
			s, err := Create(testDir, 0, Config{FS: fsys})
			require.NoError(t, err)
			if preallocate {
				require.NoError(t, s.Preallocate(1<<20))
			}
			all := fill(t, s, 3, 2, 100)
			f.Ops, f.Pattern, f.Times = vfs.OpWrite, "*.log", 3
			remove := fsys.Inject(f)
			for range 3 {
				err = appendTo(s, batch(6, 2, 1, 100))
				require.Error(t, err)
				if f.Err != nil {
					require.ErrorIs(t, err, f.Err)
				}
				require.EqualValues(t, len(all), s.Size())
				p, err := readAll(s, 0, 10000)
				require.NoError(t, err)
				require.Equal(t, all, p, "no half batch is seen")
			}
			remove()
			all = append(all, fill(t, s, 2, 2, 100)...)
			require.NoError(t, s.Sync())
			p, err := readAll(s, 0, 10000)
			require.NoError(t, err)
			require.Equal(t, all, p)
			require.NoError(t, s.Close())
			require.Equal(t, all, readFile(t, fsys, LogSuffix))
		}
	}
}

func TestFailedCutBackIsSticky(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	all := fill(t, s, 3, 2, 100)
	fsys.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Err: syscall.ENOSPC, Keep: 10})
	fsys.Inject(vfs.Fault{Ops: vfs.OpTruncate, Pattern: "*.log", Err: syscall.EIO})
	first := appendTo(s, batch(6, 2, 1, 100))
	require.ErrorIs(t, first, syscall.ENOSPC)
	require.ErrorIs(t, first, syscall.EIO)
	require.Equal(t, first, appendTo(s, batch(6, 2, 1, 100)))
	require.Equal(t, first, s.Sync())
	require.Equal(t, first, s.Seal())
	require.Equal(t, first, s.Err())
	p, err := readAll(s, 0, 10000)
	require.NoError(t, err)
	require.Equal(t, all, p, "what was there can be read")
	require.NoError(t, s.Close())
	s, err = Open(testDir, 0, Config{FS: fsys}, OpenOptions{})
	require.NoError(t, err)
	closed(t, s)
	rep, err := s.Recover(RecoverOptions{SameBoot: true})
	require.NoError(t, err)
	require.EqualValues(t, 10, rep.CutBytes)
	require.EqualValues(t, 6, s.NextOffset())
}

// Checklist row D4: a failed fsync is never retried.
func TestAppendAfterFailedSyncReturnsSameError(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	fill(t, s, 3, 2, 100)
	fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: syscall.EIO})
	first := s.Sync()
	require.ErrorIs(t, first, syscall.EIO)
	syncs := fsys.Count(vfs.OpSync)
	require.Equal(t, first, s.Sync())
	require.Equal(t, first, appendTo(s, batch(6, 1, 1, 1)))
	require.Equal(t, first, s.Seal())
	require.Equal(t, first, s.TrimTail())
	require.NoError(t, s.Close())
	require.Equal(t, syncs, fsys.Count(vfs.OpSync))
}

// slowSyncFS reports a failed write as Linux does: to one sync of the descriptor. Here that is the
// first one, which takes until the failure is sent. All other syncs succeed at once.
type slowSyncFS struct {
	vfs.FS
	fail chan error
	told atomic.Bool
}

type slowSyncFile struct {
	vfs.File
	fs *slowSyncFS
}

func (f *slowSyncFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	return slowSyncFile{file, f}, err
}

func (f slowSyncFile) Sync() error {
	if f.fs.told.Swap(true) {
		return nil
	}
	return <-f.fs.fail
}

func TestSyncBesideAFailedOneFailsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &slowSyncFS{FS: memFS(t), fail: make(chan error)}
		s, err := Create(testDir, 0, Config{FS: fsys})
		require.NoError(t, err)
		defer s.Close()
		fill(t, s, 3, 2, 100)
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- s.Sync() }()
		synctest.Wait() // in the file system
		go func() { second <- s.Sync() }()
		synctest.Wait()
		require.Empty(t, second, "what it is to cover is not known to be on the disk")
		fsys.fail <- syscall.EIO
		require.ErrorIs(t, <-first, syscall.EIO)
		require.ErrorIs(t, <-second, syscall.EIO)
	})
}

func TestPreallocatedTailIsReservedInStepsAndTrimmed(t *testing.T) {
	t.Parallel()
	const step = 10000
	for name, end := range map[string]func(*Segment) error{"seal": (*Segment).Seal, "close": (*Segment).Close, "idle": (*Segment).TrimTail} {
		t.Run(name, func(t *testing.T) {
			fsys := memFS(t)
			s, err := Create(testDir, 0, Config{FS: fsys})
			require.NoError(t, err)
			closed(t, s)
			var all []byte
			for range 40 {
				require.NoError(t, s.Preallocate(step))
				require.GreaterOrEqual(t, s.Allocated()-s.Size(), int64(step/2))
				all = append(all, fill(t, s, 1, 3, 300)...)
			}
			require.Less(t, fsys.Count(vfs.OpAllocate), int64(12))
			require.Equal(t, append(all[:len(all):len(all)], make([]byte, s.Allocated()-s.Size())...), readFile(t, fsys, LogSuffix))
			require.NoError(t, s.Sync())
			require.NoError(t, end(s))
			require.Equal(t, all, readFile(t, fsys, LogSuffix))
		})
	}
}

func TestPreallocationThatIsNotSupportedChangesNothing(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	closed(t, s)
	fsys.Inject(vfs.Fault{Ops: vfs.OpAllocate, Err: errors.ErrUnsupported, Times: 1})
	require.NoError(t, s.Preallocate(1000))
	require.Zero(t, s.Allocated())
	fsys.Inject(vfs.Fault{Ops: vfs.OpAllocate, Err: syscall.ENOSPC, Times: 1})
	require.NoError(t, s.Preallocate(1000), "what is to be appended may fit all the same")
	require.Zero(t, s.Allocated())
	fsys.Inject(vfs.Fault{Ops: vfs.OpAllocate, Err: syscall.EIO, Times: 1})
	require.ErrorIs(t, s.Preallocate(1000), syscall.EIO)
	fill(t, s, 1, 1, 10)
}

func TestSealedSegmentTakesNoMoreAndLosesNothing(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	require.NoError(t, fsys.SyncDir(testDir))
	all := fill(t, s, 100, 3, 100)
	require.NoError(t, s.Seal())
	require.NoError(t, s.Seal())
	require.True(t, s.Sealed())
	require.ErrorIs(t, appendTo(s, batch(300, 1, 1, 1)), ErrSealed)
	require.NoError(t, fsys.SyncDir(testDir)) // of the indexes, which were created later
	after := fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	again, err := Open(testDir, 0, Config{FS: after}, OpenOptions{Clean: true, NextOffset: 300, Size: int64(len(all))})
	require.NoError(t, err)
	closed(t, again)
	p, err := readAll(again, 0, 1000)
	require.NoError(t, err)
	require.Equal(t, all, p)
	require.Equal(t, readFile(t, fsys, IndexSuffix), readFile(t, after, IndexSuffix))
	require.Equal(t, readFile(t, fsys, TimeIndexSuffix), readFile(t, after, TimeIndexSuffix))
	require.NoError(t, s.Close())
	_, err = s.ReadAt(nil, 0, 1, -1)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, appendTo(s, batch(300, 1, 1, 1)), ErrClosed)
}

func TestRemovedSegmentStaysReadableUntilItsLastReaderLeaves(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	cache := NewFileCache(1)
	s, err := Create(testDir, 0, Config{FS: fsys, Files: cache})
	require.NoError(t, err)
	all := fill(t, s, 100, 3, 100)
	require.NoError(t, s.Seal())
	require.True(t, s.Acquire())
	require.NoError(t, s.Remove())
	require.True(t, s.Acquire(), "there is a reader that keeps it")
	require.NoError(t, s.Release())
	replacement, err := Create(testDir, 0, Config{FS: fsys, Files: cache}) // under the same name
	require.NoError(t, err)
	other := fill(t, replacement, 5, 1, 10)
	require.NoError(t, replacement.Seal())
	for range 3 { // with one descriptor for both
		p, err := readAll(s, 0, 5000)
		require.NoError(t, err)
		require.Equal(t, all, p)
		s.Trim()
		p, err = s.ReadAt(nil, 151, 1, -1)
		require.NoError(t, err)
		require.Equal(t, all[50*len(all)/100:51*len(all)/100], p)
		p, err = readAll(replacement, 0, 5000)
		require.NoError(t, err)
		require.Equal(t, other, p)
	}
	left, err := fsys.ReadDir(testDir)
	require.NoError(t, err)
	require.Len(t, left, 4, "its file, and three of the other one")
	require.NoError(t, s.Release())
	left, err = fsys.ReadDir(testDir)
	require.NoError(t, err)
	require.Len(t, left, 3)
	require.False(t, s.Acquire())
	_, err = s.ReadAt(nil, 0, 1, -1)
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, s.Remove())
	require.NoError(t, s.Close())
	require.NoError(t, replacement.Close())
	require.Zero(t, cache.Len())
}

// A slow disk during the rename of a removed segment delays only goroutines that have to open its
// file. They wait so that virtual time advances, and find the file under its new name.
func TestNobodyWaitsForTheDiskUnderTheRenameOfARemovedSegment(t *testing.T) {
	for _, fails := range []error{nil, syscall.EIO} {
		synctest.Test(t, func(t *testing.T) {
			fsys, _, size := sealedSegment(t, 20)
			all := readFile(t, fsys, LogSuffix)
			s := openSealed(t, fsys, size, 40, false)
			require.True(t, s.Acquire())
			fsys.Inject(vfs.Fault{Ops: vfs.OpRename, Delay: time.Hour, Err: fails})
			start, removed, read := time.Now(), make(chan error, 1), make(chan []byte, 1)
			go func() { removed <- s.Remove() }()
			synctest.Wait()
			require.Empty(t, removed, "the disk is slow")
			s.MarkSynced()
			require.NoError(t, s.SyncSealed())
			require.Zero(t, time.Since(start), "others go on")
			require.NoError(t, s.cfg.Files.closeFile(s))
			go func() {
				p, err := readAll(s, 0, 1<<20)
				if err != nil {
					t.Error(err)
				}
				read <- p
			}()
			synctest.Wait()
			require.Empty(t, read, "the file has no name that is known")
			require.Equal(t, all, <-read)
			require.Equal(t, time.Hour, time.Since(start))
			require.ErrorIs(t, <-removed, fails)
			require.NoError(t, s.Remove())
			require.NoError(t, s.Release())
			left, err := fsys.ReadDir(testDir)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestFileOfARemovedSegmentStaysUntilItExpiresAndHasNoReaders(t *testing.T) {
	t.Parallel()
	for _, expireFirst := range []bool{true, false} {
		fsys := memFS(t)
		cache := NewFileCache(1)
		s, err := Create(testDir, 0, Config{FS: fsys, Files: cache})
		require.NoError(t, err)
		all := fill(t, s, 10, 3, 100)
		require.NoError(t, s.Seal())
		require.NoError(t, s.Expire(), "of a segment that is there: nothing")
		require.True(t, s.Acquire())
		require.NoError(t, s.RemoveLater())
		files := func() int {
			left, err := fsys.ReadDir(testDir)
			require.NoError(t, err)
			return len(left)
		}
		if expireFirst {
			require.NoError(t, s.Expire())
		}
		require.Equal(t, 1, files(), "the .log file, renamed")
		p, err := readAll(s, 0, 5000)
		require.NoError(t, err)
		require.Equal(t, all, p)
		require.NoError(t, s.Release())
		require.Zero(t, cache.Len(), "nobody needs the descriptor")
		if !expireFirst {
			require.Equal(t, 1, files())
			require.NoError(t, s.Expire())
		}
		require.Zero(t, files())
		require.NoError(t, s.Expire())
		require.NoError(t, s.Close())
	}
}

func TestTruncateRemovesTheBatchThatHoldsTheOffset(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 500})
	require.NoError(t, err)
	all := fill(t, s, 100, 3, 100)
	one := len(all) / 100
	require.NoError(t, s.Seal())
	require.NoError(t, s.Truncate(151))
	require.EqualValues(t, 150, s.NextOffset())
	require.EqualValues(t, 50*one, s.Size())
	ts, offset, err := s.MaxTimestamp()
	require.NoError(t, err)
	require.EqualValues(t, []int64{1492, 149}, []int64{ts, offset})
	again := batch(170, 1, 5000, 10) // with a gap
	require.NoError(t, appendTo(s, again))
	require.NoError(t, s.Close())
	want := append(all[:50*one:50*one], again...)
	require.Equal(t, want, readFile(t, fsys, LogSuffix))

	s, err = Open(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 500}, OpenOptions{Clean: true, NextOffset: -1, Size: -1})
	require.NoError(t, err)
	closed(t, s)
	require.EqualValues(t, 171, s.NextOffset())
	for offset := range int64(171) {
		pos, err := s.Locate(offset)
		require.NoError(t, err)
		require.EqualValues(t, min(offset/3, 50)*int64(one), pos)
	}
	require.NoError(t, s.Truncate(0))
	require.Zero(t, s.Size())
	_, ok, err := s.FirstTimestamp()
	require.NoError(t, err)
	require.False(t, ok)
}

func TestFailedTruncateLeavesTheSegmentAsItWas(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	closed(t, s)
	all := fill(t, s, 10, 3, 100)
	fsys.Inject(vfs.Fault{Ops: vfs.OpTruncate, Pattern: "*.log", Err: syscall.EIO})
	require.ErrorIs(t, s.Truncate(5), syscall.EIO)
	p, err := readAll(s, 0, 500)
	require.NoError(t, err)
	require.Equal(t, all, p)
	require.EqualValues(t, 30, s.NextOffset())
}

func TestForeignFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	foreign := filepath.Join(testDir, "00000000000000000000.log.bak")
	writeFile(t, fsys, foreign, []byte("mine"))
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	fill(t, s, 1, 1, 1)
	require.NoError(t, s.Remove())
	p, err := vfs.ReadFile(fsys, foreign)
	require.NoError(t, err)
	require.Equal(t, "mine", string(p))
}
