package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

// A directory stands in the place of a file. The partition is served, or a typed error names the
// path, and no record is lost.
func TestDirectoryInPlaceOfAFileIsATypedError(t *testing.T) {
	for _, end := range []string{"closed", "killed"} {
		var now, old disks
		synctest.Test(t, func(t *testing.T) { now, old = evidenceWorld(t, 1, end, 0) })
		for _, name := range treeOf(t, root, now[0], old[0]) {
			if info, err := now[0].Stat(name); err != nil || info.IsDir() {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				ds := now.kill()
				require.NoError(t, ruinsOfPlaces[0].do(ds[0], nil, name))
				what := requireNothingLostInSilence(t, ds, 1)
				require.NotContains(t, what, "unreadable", name)
			})
		}
	}
}

// A symbolic link without a target stands in the place of any file.
func TestLinkThatLeadsNowhereIsNoEmptyFile(t *testing.T) {
	whole := t.TempDir()
	c := openWith(t, Config{Dir: whole})
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "a", "b")
	require.NoError(t, c.Close())
	require.NoError(t, fs.WalkDir(os.DirFS(whole), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == ".lock" {
			return err
		}
		dir := filepath.Join(t.TempDir(), "data")
		require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
		require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere", "at", "all"), filepath.Join(dir, name)))
		c, err := Open(Config{Dir: dir})
		if err != nil {
			require.True(t, errors.As(err, new(*DirectoryError)), "%s: %v", name, err)
			return nil
		}
		got, err := tryValues(t.Context(), c, at("orders", 0))
		if err != nil {
			requireTyped(t, c.Status("orders", 0).Err)
			require.Error(t, tryProduce(c, at("orders", 0), "c").Err)
		} else {
			require.Equal(t, []string{"a", "b"}, got, name)
		}
		_ = c.Close()
		return nil
	}), fmt.Sprint(whole))
}
