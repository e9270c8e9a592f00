package vfs_test

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func TestWriteFileIsOldOrNewAfterACrashAnywhere(t *testing.T) {
	m := memWithDir(t)
	old, fresh := "old content", string(make([]byte, 10_000))
	require.NoError(t, vfs.WriteFile(m, in("f"), []byte(old)))
	states := map[string]int{}
	stop := m.Observe(vfs.Observer{Before: func(e vfs.Event) {
		for seed := range uint64(100) {
			states[content(t, m.Crash(seed+uint64(e.N)<<32), "f")]++
		}
	}})
	require.NoError(t, vfs.WriteFile(m, in("f"), []byte(fresh)))
	stop()
	require.Len(t, states, 2)
	require.Contains(t, states, old)
	require.Contains(t, states, fresh)
	require.Equal(t, fresh, content(t, m.CrashWith(all(vfs.CrashLost)), "f"))
}

func TestWriteFileIsOldOrNewAfterAFaultAnywhere(t *testing.T) {
	for n := 0; ; n++ {
		m := memWithDir(t)
		require.NoError(t, vfs.WriteFile(m, in("f"), []byte("old")))
		remove := m.Inject(vfs.Fault{After: n, Err: syscall.EIO})
		err := vfs.WriteFile(m, in("f"), []byte("new"))
		remove()
		if err == nil {
			require.Equal(t, 6, n, "create, write, sync, close, rename, syncdir")
			return
		}
		require.ErrorIs(t, err, syscall.EIO)
		require.Contains(t, []string{"old", "new"}, content(t, m, "f"))
		require.Equal(t, "-", content(t, m, "f.tmp"), fmt.Sprint("fault ", n))
		require.Contains(t, []string{"old", "new"}, content(t, m.Crash(uint64(n)), "f"))
	}
}

func TestMadeDirectoriesSurvive(t *testing.T) {
	m := vfs.Mem()
	require.NoError(t, m.MkdirAll("/data/a", 0o755)) // a process was killed here
	require.NoError(t, m.SyncDir("/"))
	k := m.Kill()
	require.NoError(t, vfs.MakeDir(k, in("a"), 0o755))
	require.NoError(t, vfs.MakeDir(k, in("b/c/d"), 0o755))
	c := k.CrashWith(all(vfs.CrashLost))
	for _, name := range []string{"a", "b/c/d"} {
		fi, err := c.Stat(in(name))
		require.NoError(t, err)
		require.True(t, fi.IsDir())
	}
	_, err := m.CrashWith(all(vfs.CrashLost)).Stat(in("a"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestSuffixedNameFitsIntoAFileSystem(t *testing.T) {
	long := strings.Repeat("n", 250)
	for _, c := range []struct{ name, want string }{
		{"a/b", "a/b.tmp"},
		{"/d/" + long, "/d/" + long + ".tmp"},
		{"/d/" + long + "xyz", "/d/" + long + "x.tmp"},
		{"d/" + long + "\u00e9", "d/" + long + ".tmp"}, // not half of a character
	} {
		require.Equal(t, c.want, vfs.WithSuffix(c.name, ".tmp"))
	}
}
