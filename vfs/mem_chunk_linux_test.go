package vfs

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

func (p *chunkPool) used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUse
}

// awaitChunks runs the collector until n chunks or fewer are in use. Memory is released some time
// after a collection.
func awaitChunks(t *testing.T, n int) {
	for tries := 0; chunks.used() > n; tries++ {
		require.Less(t, tries, 2000)
		runtime.GC()
	}
}

// fillPages writes n pages to the file name of m. Each page has its number and seed.
func fillPages(t *testing.T, m *MemFS, name string, n int, seed byte) File {
	file, err := m.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o666)
	require.NoError(t, err)
	p := make([]byte, 64*pageSize)
	for no := 0; no < n; no += 64 {
		for i := range 64 {
			copy(p[i*pageSize:], bytes.Repeat([]byte{byte(no + i), byte((no + i) >> 8), seed, 1}, pageSize/4))
		}
		_, err := file.WriteAt(p, int64(no)*pageSize)
		require.NoError(t, err)
	}
	return file
}

func requirePages(t *testing.T, m *MemFS, name string, n int, seed byte) {
	file, err := m.OpenFile(name, os.O_RDONLY, 0)
	require.NoError(t, err)
	p := make([]byte, pageSize)
	for no := range n {
		_, err := file.ReadAt(p, int64(no)*pageSize)
		require.NoError(t, err)
		require.True(t, bytes.Equal(bytes.Repeat([]byte{byte(no), byte(no >> 8), seed, 1}, pageSize/4), p), "page %d of %s", no, name)
	}
	require.NoError(t, file.Close())
}

const manyPages = 32 << 20 / pageSize

// Memory of large files outside of the heap is released when no file can be read from it any more,
// and not before.
func TestMemoryOutsideOfTheHeapIsGivenBack(t *testing.T) {
	least := (32<<20 - chunksFrom) / chunkBytes
	awaitChunks(t, 0) // chunks of earlier tests
	for name, end := range map[string]func(*MemFS, File) *MemFS{
		"file system": func(*MemFS, File) *MemFS { return nil },
		"removed": func(m *MemFS, f File) *MemFS {
			require.NoError(t, f.Close())
			require.NoError(t, m.Remove("a"))
			require.NoError(t, m.SyncDir("."))
			return m
		},
		"cut": func(m *MemFS, f File) *MemFS {
			require.NoError(t, f.Truncate(1))
			require.NoError(t, f.Sync())
			return m
		},
	} {
		m := Mem()
		f := fillPages(t, m, "a", manyPages, 1)
		runtime.GC()
		require.GreaterOrEqual(t, chunks.used(), least, name)
		requirePages(t, m, "a", manyPages, 1)
		m, f = end(m, f), nil
		awaitChunks(t, 1) // the last chunk of the file, of which it has not used all
		runtime.KeepAlive(m)
		_ = f
	}
	awaitChunks(t, 0)
	chunks.mu.Lock()
	defer chunks.mu.Unlock()
	require.LessOrEqual(t, len(chunks.free), keptChunks, "the rest is the system's")
}

// Copies share pages, and keep them after the original is released and its memory reused.
func TestCopiesKeepTheMemoryTheyShare(t *testing.T) {
	for name, copied := range map[string]func(*MemFS) *MemFS{
		"killed": (*MemFS).Kill,
		"power cut": func(m *MemFS) *MemFS {
			return m.CrashWith(CrashOptions{Data: CrashLost, Sizes: CrashLost, Entries: CrashLost})
		},
	} {
		m := Mem()
		f := fillPages(t, m, "a", manyPages, 1)
		require.NoError(t, f.Sync())
		require.NoError(t, m.SyncDir("."))
		_, err := f.WriteAt([]byte("x"), manyPages*pageSize) // lost in the power cut
		require.NoError(t, err)
		c := copied(m)
		require.NoError(t, f.Truncate(0))
		require.NoError(t, f.Sync())
		for seed := range byte(3) {
			runtime.GC()
			fillPages(t, Mem(), "b", manyPages, 10+seed)
		}
		requirePages(t, c, "a", manyPages, 1)
		require.NoError(t, f.Close(), name)
	}
}

// Rewritten pages of a large file are in other memory than the pages around them.
func TestPagesWrittenAgainAreReadBack(t *testing.T) {
	const pages = 128
	m := Mem()
	f, err := m.OpenFile("a", os.O_CREATE|os.O_RDWR, 0o666)
	require.NoError(t, err)
	ActLarge(f)
	require.NoError(t, f.Close())
	f = fillPages(t, m, "a", pages, 1)
	require.NoError(t, f.Sync())
	again := bytes.Repeat([]byte("again"), pageSize/5+1)[:pageSize]
	for no := 1; no < pages; no += 2 {
		_, err := f.WriteAt(again, int64(no)*pageSize)
		require.NoError(t, err)
	}
	for range 2 {
		for no := range pages {
			p := make([]byte, pageSize)
			_, err = f.ReadAt(p, int64(no)*pageSize)
			require.NoError(t, err)
			require.Equal(t, no%2 == 1, bytes.Equal(again, p), "page %d", no)
		}
		require.NoError(t, f.Sync())
	}
}

// Only the pool has the size of the memory outside of the heap. Without it the collector would not
// run. A file that is rewritten over and over would keep the memory of everything ever written to
// it.
func TestCollectorRunsForMemoryOutsideOfTheHeap(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	awaitChunks(t, 0)
	synctest.Test(t, func(t *testing.T) { // where goroutines that are left over are a failure, too
		m, most := Mem(), 0
		for seed := range byte(32) {
			f := fillPages(t, m, "a", manyPages, seed)
			require.NoError(t, f.Sync())
			require.NoError(t, f.Close())
			most = max(most, chunks.used())
		}
		requirePages(t, m, "a", manyPages, 31)
		require.Less(t, most, 4*fewChunks, "of 480 that were taken")
	})
}
