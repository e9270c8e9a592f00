package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWholeFilesAreReadWithFewCalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, size := range []int{0, 1, 5000, 1 << 20} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i * 7)
		}
		name := filepath.Join(dir, "file")
		require.NoError(t, os.WriteFile(name, want, 0o600))
		for _, fsys := range []FS{OS(), ReadOnly(OS())} {
			got, err := ReadFile(fsys, name)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	_, err := ReadFile(OS(), filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = ReadFile(OS(), dir)
	require.Error(t, err, "a directory")
}

func TestRealPathInFollowsLinks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege")
	}
	dir, err := OS().RealPath(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "parent"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "parent", "link")))
	parent := filepath.Join(dir, "parent")
	require.NoError(t, os.Mkdir(filepath.Join(parent, "plain"), 0o700))
	for name, want := range map[string]string{"link": filepath.Join(dir, "real"), "plain": filepath.Join(parent, "plain")} {
		got, err := RealPathIn(OS(), parent, filepath.Join(parent, name))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = RealPathIn(OS(), parent, filepath.Join(parent, "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = RealPathIn(Mem(), "/", "/missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
