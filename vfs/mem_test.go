package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

const dir = "/data"

// memWithDir returns a file system with a stable directory.
func memWithDir(t testing.TB) *vfs.MemFS {
	m := vfs.Mem()
	require.NoError(t, vfs.MakeDir(m, dir, 0o755))
	return m
}

func in(name string) string { return filepath.Join(dir, name) }

// open opens a file, creating it.
func open(t testing.TB, fsys vfs.FS, name string) vfs.File {
	f, err := fsys.OpenFile(in(name), os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	return f
}

func write(t testing.TB, f vfs.File, content string, off int64) {
	n, err := f.WriteAt([]byte(content), off)
	require.NoError(t, err)
	require.Equal(t, len(content), n)
}

// content returns the content of a file, or "-" if it does not exist.
func content(t testing.TB, fsys vfs.FS, name string) string {
	b, err := vfs.ReadFile(fsys, in(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	require.NoError(t, err)
	return string(b)
}

// stableFile creates a file that survives every crash.
func stableFile(t testing.TB, m *vfs.MemFS, name, content string) vfs.File {
	f := open(t, m, name)
	write(t, f, content, 0)
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir(dir))
	return f
}

func all(mode vfs.CrashMode) vfs.CrashOptions {
	return vfs.CrashOptions{Data: mode, Sizes: mode, Entries: mode}
}

func TestCrashTakesWhatWasNotSynced(t *testing.T) {
	m := memWithDir(t)
	f := stableFile(t, m, "f", "synced")
	write(t, f, " and more", 6)
	require.Equal(t, "synced", content(t, m.CrashWith(all(vfs.CrashLost)), "f"))
	require.Equal(t, "synced and more", content(t, m.CrashWith(all(vfs.CrashKept)), "f"))
	require.NoError(t, f.Sync())
	require.Equal(t, "synced and more", content(t, m.CrashWith(all(vfs.CrashLost)), "f"))
}

func TestCrashTakesEntriesWithoutSyncDir(t *testing.T) {
	m := memWithDir(t)
	f := open(t, m, "f")
	write(t, f, "abc", 0)
	require.NoError(t, f.Sync())
	require.Equal(t, "-", content(t, m.CrashWith(all(vfs.CrashLost)), "f"))
	require.Equal(t, "abc", content(t, m.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashKept}), "f"))
	require.NoError(t, m.SyncDir(dir))
	require.Equal(t, "abc", content(t, m.CrashWith(all(vfs.CrashLost)), "f"))

	require.NoError(t, m.MkdirAll(in("sub"), 0o755))
	_, err := m.CrashWith(all(vfs.CrashLost)).Stat(in("sub"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestRemovedFileMayComeBack(t *testing.T) {
	m := memWithDir(t)
	stableFile(t, m, "f", "abc")
	require.NoError(t, m.Remove(in("f")))
	require.Equal(t, "abc", content(t, m.CrashWith(all(vfs.CrashLost)), "f"))
	require.NoError(t, m.SyncDir(dir))
	require.Equal(t, "-", content(t, m.CrashWith(all(vfs.CrashLost)), "f"))
}

func TestRenameHappensOrDoesNot(t *testing.T) {
	m := memWithDir(t)
	stableFile(t, m, "f", "old")
	stableFile(t, m, "f.tmp", "new")
	require.NoError(t, m.Rename(in("f.tmp"), in("f")))
	seen := map[string]bool{}
	for seed := range uint64(100) {
		c := m.Crash(seed)
		seen[content(t, c, "f")+" "+content(t, c, "f.tmp")] = true
	}
	require.Equal(t, map[string]bool{"old new": true, "new -": true}, seen)
}

func TestFileMovedBetweenDirectoriesIsNeverLost(t *testing.T) {
	m := memWithDir(t)
	require.NoError(t, vfs.MakeDir(m, in("sub"), 0o755))
	stableFile(t, m, "f", "F")
	require.NoError(t, m.Rename(in("f"), in("sub/f")))
	seen := map[string]bool{}
	look := func(m *vfs.MemFS) {
		for seed := range uint64(100) {
			c := m.Crash(seed)
			seen[content(t, c, "f")+content(t, c, "sub/f")] = true
		}
	}
	look(m)
	require.Equal(t, map[string]bool{"F-": true, "FF": true, "-F": true}, seen)
	killed := m.Kill()
	require.NoError(t, killed.SyncDir(dir)) // of the old directory only
	clear(seen)
	look(killed)
	require.Equal(t, map[string]bool{"-F": true}, seen)
	require.NoError(t, m.SyncDir(in("sub"))) // of the new directory only
	clear(seen)
	look(m)
	require.Equal(t, map[string]bool{"FF": true, "-F": true}, seen)
}

func TestCrashKeepsAnyBlocksAndSizes(t *testing.T) {
	m := memWithDir(t)
	const blocks = 4
	f := stableFile(t, m, "f", string(bytes.Repeat([]byte("o"), 2*4096)))
	write(t, f, string(bytes.Repeat([]byte("n"), blocks*4096)), 0)
	seen := map[string]bool{}
	for seed := range uint64(500) {
		got := content(t, m.CrashWith(vfs.CrashOptions{Seed: seed}), "f")
		kinds := ""
		for i := 0; i < len(got); i += 4096 {
			require.Equal(t, 4096, bytes.Count([]byte(got[i:i+4096]), []byte(got[i:i+1])), "a block is a mixture")
			kinds += got[i : i+1]
		}
		seen[kinds] = true
	}
	want := map[string]bool{}
	for _, first := range []string{"o", "n"} {
		for _, second := range []string{"o", "n"} {
			want[first+second] = true // the size was lost
			for _, tail := range []string{"\x00\x00", "\x00n", "n\x00", "nn"} {
				want[first+second+tail] = true
			}
		}
	}
	require.Equal(t, want, seen)
}

func TestCrashTearsBlocks(t *testing.T) {
	m := memWithDir(t)
	f := stableFile(t, m, "f", string(bytes.Repeat([]byte("o"), 4096)))
	write(t, f, string(bytes.Repeat([]byte("n"), 4096)), 0)
	atSector, inSector := 0, 0
	for seed := range uint64(200) {
		got := []byte(content(t, m.Crash(seed), "f"))
		require.Len(t, got, 4096)
		if n := bytes.Count(got, []byte("n")); n%512 != 0 {
			inSector++
		} else if n > 0 && n < 4096 {
			atSector++
		}
	}
	require.Positive(t, atSector)
	require.Positive(t, inSector)
}

func TestOrderedCrashKeepsAPrefixOfTime(t *testing.T) {
	m := memWithDir(t)
	a, b := stableFile(t, m, "a", ""), stableFile(t, m, "b", "")
	var history []string
	for i := range 20 {
		f := a
		if i%2 == 1 {
			f = b
		}
		write(t, f, string(rune('a'+i)), int64(i/2))
		history = append(history, content(t, m, "a")+"|"+content(t, m, "b"))
	}
	seen := map[string]bool{"|": true}
	for _, h := range history {
		seen[h] = false
	}
	for seed := range uint64(500) {
		o := all(vfs.CrashOrdered)
		o.Seed = seed
		c := m.CrashWith(o)
		got := content(t, c, "a") + "|" + content(t, c, "b")
		require.Contains(t, seen, got)
		seen[got] = true
	}
	for h, ok := range seen {
		require.True(t, ok, "never saw %q", h)
	}
}

func TestKillKeepsWhatWasWrittenButDoesNotSyncIt(t *testing.T) {
	m := memWithDir(t)
	f := stableFile(t, m, "f", "abc")
	write(t, f, "def", 3)
	open(t, m, "g")
	_, err := m.Lock(in("lock"))
	require.NoError(t, err)

	k := m.Kill()
	require.Equal(t, "abcdef", content(t, k, "f"))
	require.Equal(t, "", content(t, k, "g"))
	require.Equal(t, m.BootID(), k.BootID())
	l, err := k.Lock(in("lock"))
	require.NoError(t, err, "locks end with the process")
	require.NoError(t, l.Close())
	_, err = m.Lock(in("lock"))
	require.ErrorIs(t, err, vfs.ErrLocked)

	c := k.CrashWith(all(vfs.CrashLost))
	require.NotEqual(t, m.BootID(), c.BootID())
	require.Equal(t, "abc", content(t, c, "f"))
	require.Equal(t, "-", content(t, c, "g"))
}

func TestCopiesAreIndependent(t *testing.T) {
	m := memWithDir(t)
	f := stableFile(t, m, "f", "abc")
	require.NoError(t, m.Link(in("f"), in("g")))
	end := stableFile(t, m, "end", "abc")
	k, c := m.Kill(), m.Crash(1)
	write(t, end, "M", 3) // each at a position where the others have no bytes yet
	write(t, open(t, k, "end"), "K", 3)
	write(t, open(t, c, "end"), "C", 3)
	require.Equal(t, "abcM abcK abcC", content(t, m, "end")+" "+content(t, k, "end")+" "+content(t, c, "end"))
	write(t, f, "1", 0)
	write(t, open(t, k, "f"), "2", 1)
	write(t, open(t, c, "f"), "3", 2)
	require.Equal(t, "1bc", content(t, m, "f"))
	require.Equal(t, "a2c", content(t, k, "f"))
	require.Equal(t, "a2c", content(t, k, "g"), "links share content in a copy, too")
	require.Equal(t, "ab3", content(t, c, "f"))
	require.NoError(t, k.Remove(in("f")))
	require.Equal(t, "1bc", content(t, m, "f"))
}

func TestCrashDependsOnTheSeedOnly(t *testing.T) {
	m := memWithDir(t)
	for i := range 10 {
		f := open(t, m, fmt.Sprint(i))
		write(t, f, string(bytes.Repeat([]byte("x"), 10_000)), int64(i))
	}
	dump := func(m *vfs.MemFS) (s string) {
		for i := range 10 {
			s += content(t, m, fmt.Sprint(i)) + ";"
		}
		return s
	}
	different := map[string]bool{}
	for seed := range uint64(20) {
		first := dump(m.Crash(seed))
		require.Equal(t, first, dump(m.Crash(seed)))
		different[first] = true
	}
	require.Greater(t, len(different), 15)
}

func TestSparseFilesTakeLittleMemory(t *testing.T) {
	m := memWithDir(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f := open(t, m, "f")
	require.NoError(t, f.Allocate(0, 1<<40))
	for i := range int64(100) {
		write(t, f, "x", i<<33)
	}
	require.NoError(t, f.Truncate(1<<41))
	c := m.Crash(1)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(4<<20))
	runtime.KeepAlive(c)
	runtime.KeepAlive(f)
}

func TestZerosWrittenAheadTakeNoMemory(t *testing.T) {
	m := memWithDir(t)
	f := stableFile(t, m, "f", "x")
	zeros := make([]byte, 1<<20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range int64(64) {
		_, err := f.WriteAt(zeros, i<<20)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(4<<20))
	// the heap had memory of other tests, and released it
	require.Less(t, vfs.AllocatedBytes(f), int64(4<<20))
	size, err := f.Size()
	require.NoError(t, err)
	require.Equal(t, int64(64<<20), size)
	write(t, f, "x", 5000)
	require.Equal(t, "\x00x\x00", content(t, m, "f")[4999:5002])
	require.Equal(t, byte(0), content(t, m.CrashWith(all(vfs.CrashLost)), "f")[5000])
}

func TestAppendsAndSyncsAllocatePagesOnly(t *testing.T) {
	m := memWithDir(t)
	f := open(t, m, "f")
	p, off := bytes.Repeat([]byte("x"), 112), int64(0)
	bufs := [2][]byte{}
	allocs := testing.AllocsPerRun(5000, func() {
		bufs = [2][]byte{p[:16], p[16:]}
		n, err := f.WritevAt(bufs[:], off)
		off += int64(n)
		n2, err2 := f.WriteAt(p, off)
		off += int64(n2)
		if err := errors.Join(err, err2, f.Sync()); err != nil {
			t.Fatal(err)
		}
	})
	require.Less(t, allocs, 1.0) // AllocsPerRun rounds down: a page for each 18 runs is none
	require.Less(t, vfs.AllocatedBytes(f), off*3/2)
}

func TestWriteBehindACutLeavesAloneWhatTheDiskHas(t *testing.T) {
	m := memWithDir(t)
	f := open(t, m, "f")
	write(t, f, strings.Repeat("a", 100), 0)
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir(dir))
	require.NoError(t, f.Truncate(10))
	write(t, f, "b", 200)
	require.Equal(t, strings.Repeat("a", 10)+strings.Repeat("\x00", 190)+"b", content(t, m, "f"))
	require.Equal(t, strings.Repeat("a", 100), content(t, m.CrashWith(all(vfs.CrashLost)), "f"))
}

func TestNeverSyncedFileKeepsFewNotes(t *testing.T) {
	m := memWithDir(t)
	f := open(t, m, "f")
	var want []byte
	for i := range 20_000 {
		b := []byte(fmt.Sprintf("%06d", i))
		write(t, f, string(b), int64(len(want)))
		want = append(want, b...)
	}
	require.Equal(t, string(want), content(t, m, "f"))
	require.Equal(t, string(want), content(t, m.CrashWith(all(vfs.CrashKept)), "f"))
	require.Less(t, vfs.PendingChanges(f), 1100)
}

func TestCrashWhileOthersWork(t *testing.T) {
	m := memWithDir(t)
	errs := make(chan error, 4)
	for w := range 4 {
		f, rnd := open(t, m, fmt.Sprint(w)), rand.New(rand.NewPCG(1, uint64(w)))
		go func() { errs <- scribble(m, f, rnd) }()
	}
	for seed := range uint64(50) {
		c := m.Crash(seed)
		for w := range 4 {
			content(t, c, fmt.Sprint(w))
		}
		write(t, open(t, m.Kill(), "0"), "x", 0)
	}
	for range 4 {
		require.NoError(t, <-errs)
	}
}

// scribble changes f in all ways for a while.
func scribble(m *vfs.MemFS, f vfs.File, rnd *rand.Rand) error {
	for range 200 {
		block := bytes.Repeat([]byte{byte(rnd.IntN(256))}, 1000)
		if _, err := f.WriteAt(block, rnd.Int64N(1<<16)); err != nil {
			return err
		}
		if rnd.IntN(10) == 0 {
			if err := errors.Join(f.Truncate(rnd.Int64N(1<<16)), f.Sync(), m.SyncDir(dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestNamesAreLookedUpWithoutMemory(t *testing.T) {
	m := vfs.Mem()
	name := filepath.Join("a", "b", "c")
	require.NoError(t, vfs.MakeDir(m, name, 0o755))
	for _, name := range []string{name, string(filepath.Separator) + name} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if err := m.SyncDir(name); err != nil {
				t.Fatal(err)
			}
		}), name)
	}
}
