package vfs_test

import (
	"bytes"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/vfs"
)

// TestCrashLeavesOnlyWhatWasThere compares files after a crash with a list of all their contents
// since the last sync.
func TestCrashLeavesOnlyWhatWasThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := vfs.Mem()
		require.NoError(t, vfs.MakeDir(m, dir, 0o755))
		f, err := m.OpenFile(in("f"), readWriteCreate, 0o644)
		require.NoError(t, err)
		require.NoError(t, m.SyncDir(dir))
		scale := rapid.SampledFrom([]int{1, 1, 1, 12}).Draw(t, "scale")
		if scale > 1 {
			vfs.ActLarge(f)
		}
		var live []byte
		history := [][]byte{nil} // contents since the last sync, the synced one first
		for step := range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0, 1:
				off, n := scale*rapid.IntRange(0, 20_000).Draw(t, "off"), scale*rapid.IntRange(1, 9000).Draw(t, "n")
				live = put(live, bytes.Repeat([]byte{byte(step + 1)}, n), off)
				_, err = f.WriteAt(live[off:off+n], int64(off))
			case 2:
				n := scale * rapid.IntRange(1, 5000).Draw(t, "append")
				off := len(live)
				live = put(live, bytes.Repeat([]byte{byte(step + 1)}, n), off)
				_, err = f.WritevAt([][]byte{live[off : off+n/2], live[off+n/2:]}, int64(off))
			case 3:
				size := scale * rapid.IntRange(0, 25_000).Draw(t, "size")
				live = resize(live, size)
				err = f.Truncate(int64(size))
			case 4:
				size := scale * rapid.IntRange(1, 25_000).Draw(t, "allocated")
				live = resize(live, max(size, len(live)))
				err = f.Allocate(0, int64(size))
			case 5:
				history = history[:0]
				err = f.Sync()
			}
			require.NoError(t, err)
			history = append(history, bytes.Clone(live))
			if rapid.IntRange(0, 9).Draw(t, "kill") == 0 { // must not make a difference
				m = m.Kill()
				f, err = m.OpenFile(in("f"), readWriteCreate, 0o644)
				require.NoError(t, err)
				if scale > 1 {
					vfs.ActLarge(f)
				}
			}
		}
		mode := vfs.CrashMode(rapid.IntRange(0, 4).Draw(t, "mode"))
		sizes := vfs.CrashMode(rapid.IntRange(0, 4).Draw(t, "sizes"))
		seed := rapid.Uint64().Draw(t, "seed")
		got, err := vfs.ReadFile(m.CrashWith(vfs.CrashOptions{Seed: seed, Data: mode, Sizes: sizes}), in("f"))
		require.NoError(t, err)
		checkLeft(t, got, history)
		require.True(t, bytes.Equal(live, must(vfs.ReadFile(m, in("f")))), "live content")
		require.True(t, bytes.Equal(live, must(vfs.ReadFile(m.CrashWith(all(vfs.CrashKept)), in("f")))), "all kept")
		require.True(t, bytes.Equal(history[0], must(vfs.ReadFile(m.CrashWith(all(vfs.CrashLost)), in("f")))), "all lost")
	})
}

// checkLeft requires that got has a size of the history. Each of its bytes must have a value from
// the history; zeros may be holes.
func checkLeft(t *rapid.T, got []byte, history [][]byte) {
	sizes := map[int]bool{}
	for _, h := range history {
		sizes[len(h)] = true
	}
	require.True(t, sizes[len(got)], "size %d was never there", len(got))
	for i, b := range got {
		ok := b == 0 && i >= len(history[0])
		for _, h := range history {
			ok = ok || i < len(h) && h[i] == b || i >= len(h) && b == 0
		}
		require.True(t, ok, "byte %d is %d", i, b)
	}
}

func put(b, p []byte, off int) []byte {
	b = resize(b, max(len(b), off+len(p)))
	copy(b[off:], p)
	return b
}

func resize(b []byte, size int) []byte {
	out := make([]byte, size)
	copy(out, b)
	return out
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestCrashLeavesOnlyNamesThatWereThere does the same for a directory.
func TestCrashLeavesOnlyNamesThatWereThere(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		m := vfs.Mem()
		require.NoError(t, vfs.MakeDir(m, dir, 0o755))
		live := map[string]string{}
		history := []map[string]string{{}}
		for step := range rapid.IntRange(1, 20).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0, 1:
				f, err := m.OpenFile(in(name), readWriteCreate, 0o644)
				require.NoError(t, err)
				if live[name] == "" {
					live[name] = string(rune('A' + step))
					_, err = f.WriteAt([]byte(live[name]), 0)
					require.NoError(t, err)
				}
				require.NoError(t, f.Sync())
			case 2:
				other := rapid.SampledFrom(names).Draw(t, "other")
				if err := m.Rename(in(name), in(other)); err == nil && name != other {
					live[other] = live[name]
					delete(live, name)
				}
			case 3:
				if m.Remove(in(name)) == nil {
					delete(live, name)
				}
			case 4:
				require.NoError(t, m.SyncDir(dir))
				history = history[:0]
			}
			history = append(history, maps.Clone(live))
		}
		o := vfs.CrashOptions{Seed: rapid.Uint64().Draw(t, "seed"), Entries: vfs.CrashMode(rapid.IntRange(0, 4).Draw(t, "mode"))}
		got := entries(t, m.CrashWith(o))
		for _, name := range names {
			ok := false
			for _, h := range history {
				ok = ok || h[name] == got[name]
			}
			require.True(t, ok, "%s is %q", name, got[name])
		}
		if o.Entries == vfs.CrashOrdered {
			require.Contains(t, history, got, "in order, the whole directory was like that once")
		}
		require.Equal(t, live, entries(t, m.CrashWith(all(vfs.CrashKept))))
		require.Equal(t, history[0], entries(t, m.CrashWith(all(vfs.CrashLost))))
		require.Equal(t, live, entries(t, m.Kill()))
		require.Equal(t, history[0], entries(t, m.Kill().CrashWith(all(vfs.CrashLost))))
	})
}

// entries returns the files of the directory with their contents.
func entries(t *rapid.T, m *vfs.MemFS) map[string]string {
	list, err := m.ReadDir(dir)
	require.NoError(t, err)
	found := map[string]string{}
	for _, e := range list {
		found[e.Name()] = string(must(vfs.ReadFile(m, in(e.Name()))))
	}
	return found
}

// A whole extent of a large file is rewritten after it was synced. Its pages follow each other
// then, and the disk still has the previous ones.
func TestPagesWrittenAnewInARowAreOnTheDiskAsTheyWere(t *testing.T) {
	const extents = 4 * 64 << 10
	m := vfs.Mem()
	require.NoError(t, vfs.MakeDir(m, dir, 0o755))
	f, err := m.OpenFile(in("f"), readWriteCreate, 0o644)
	require.NoError(t, err)
	require.NoError(t, m.SyncDir(dir))
	vfs.ActLarge(f)
	write := func(b byte) []byte {
		p := bytes.Repeat([]byte{b}, extents)
		_, err := f.WriteAt(p, 0)
		require.NoError(t, err)
		return p
	}
	synced := write(1)
	require.NoError(t, f.Sync())
	for b := byte(2); b < 5; b++ { // again and again, beside copies of the previous pages
		written := write(b)
		require.True(t, bytes.Equal(written, must(vfs.ReadFile(m.CrashWith(all(vfs.CrashKept)), in("f")))))
		require.True(t, bytes.Equal(synced, must(vfs.ReadFile(m.CrashWith(all(vfs.CrashLost)), in("f")))))
	}
}
