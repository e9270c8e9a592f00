package segment

import (
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// manySegments returns n sealed segments in one cache, and the bytes of each.
func manySegments(t testing.TB, fsys vfs.FS, files *FileCache, n int) (all []*Segment, content [][]byte) {
	for i := range n {
		s, err := Create(testDir, int64(i)*100, Config{FS: fsys, Files: files})
		require.NoError(t, err)
		content = append(content, fill(t, s, 10, 2, 50))
		require.NoError(t, s.Seal())
		all = append(all, s)
	}
	return all, content
}

func TestFileCacheKeepsFewDescriptorsWhateverIsRead(t *testing.T) {
	t.Parallel()
	fsys, files := memFS(t), NewFileCache(4)
	all, content := manySegments(t, fsys, files, 30)
	require.LessOrEqual(t, files.Len(), 4)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 9))
			for range 500 {
				i := r.IntN(len(all))
				p, err := readAll(all[i], all[i].Base(), 300)
				if err != nil || string(p) != string(content[i]) {
					t.Errorf("segment %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, files.Len(), 4)
	for _, s := range all {
		require.NoError(t, s.Close())
	}
	require.Zero(t, files.Len())
}

func TestFileCacheServesTheSameFileToAllReaders(t *testing.T) {
	t.Parallel()
	fsys, files := memFS(t), NewFileCache(4)
	all, _ := manySegments(t, fsys, files, 1)
	opens := fsys.Count(vfs.OpOpen)
	for range 100 {
		_, err := all[0].ReadAt(nil, 0, 1<<20, -1)
		require.NoError(t, err)
	}
	require.LessOrEqual(t, fsys.Count(vfs.OpOpen)-opens, int64(1))
	require.NoError(t, all[0].Close())
}

func TestDescriptorsInUseMayExceedTheBound(t *testing.T) {
	t.Parallel()
	fsys, files := memFS(t), NewFileCache(2)
	var active []*Segment
	for i := range 5 {
		s, err := Create(testDir, int64(i), Config{FS: fsys, Files: files})
		require.NoError(t, err)
		require.NoError(t, appendTo(s, batch(int64(i), 1, 1, 1)))
		active = append(active, s)
	}
	require.Equal(t, 5, files.Len())
	for _, s := range active {
		require.NoError(t, s.Seal())
	}
	require.Equal(t, 2, files.Len())
	for _, s := range active {
		require.NoError(t, s.Close())
	}
}

func TestFileThatCannotBeOpenedIsTriedAgain(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	all, content := manySegments(t, fsys, NewFileCache(1), 2)
	_, err := all[1].ReadAt(nil, 100, 1, -1) // takes the descriptor
	require.NoError(t, err)
	fsys.Inject(vfs.Fault{Ops: vfs.OpOpen, Err: syscall.EMFILE})
	_, err = all[0].ReadAt(nil, 0, 1, -1)
	require.ErrorIs(t, err, syscall.EMFILE)
	p, err := readAll(all[0], 0, 1000)
	require.NoError(t, err)
	require.Equal(t, content[0], p)
	for _, s := range all {
		require.NoError(t, s.Close())
	}
}

func TestCloseUnderReadersEndsWithErrClosed(t *testing.T) {
	t.Parallel()
	fsys, files := memFS(t), NewFileCache(1)
	all, _ := manySegments(t, fsys, files, 2)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				if _, err := all[i%2].ReadAt(nil, all[i%2].Base(), 1000, -1); err != nil {
					if err != ErrClosed {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	require.NoError(t, all[0].Close())
	wg.Wait()
	require.NoError(t, all[1].Close())
	require.Zero(t, files.Len())
}

// TestWrittenSegmentsGiveTheirDescriptorsBackOnceSynced has 50 segments that are written to and
// synced share four descriptors.
func TestWrittenSegmentsGiveTheirDescriptorsBackOnceSynced(t *testing.T) {
	fsys, files := memFS(t), NewFileCache(4)
	var all []*Segment
	for i := range int64(50) {
		s, err := Create(testDir, 1000*i, Config{FS: fsys, Files: files})
		require.NoError(t, err)
		all = append(all, s)
	}
	for round := range int64(3) {
		for _, s := range all {
			require.NoError(t, s.Preallocate(1<<16))
			require.NoError(t, appendTo(s, batch(s.NextOffset(), 2, round, 100)))
			if round == 1 && s == all[7] {
				continue // not synced: it keeps its descriptor
			}
			require.NoError(t, s.Sync())
			require.LessOrEqual(t, files.Len(), 4+2)
		}
	}
	require.NoError(t, fsys.SyncDir(testDir))
	crashed := fsys.Crash(1)
	for _, s := range all {
		require.NoError(t, s.Close())
		info, err := fsys.Stat(s.Path())
		require.NoError(t, err)
		require.Equal(t, s.Size(), info.Size(), "the reserved space was given back")
		again, err := Open(testDir, s.Base(), Config{FS: crashed}, OpenOptions{})
		require.NoError(t, err)
		_, err = again.Recover(RecoverOptions{})
		require.NoError(t, err)
		require.Equal(t, s.NextOffset(), again.NextOffset(), "all of it was synced")
		require.NoError(t, again.Close())
	}
	require.Zero(t, files.Len())
}
