package replication

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// The files of a cluster contain credentials and records, so only their owner can read them.
func TestFilesOfAClusterAreTheirOwnersOnly(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	dir := filepath.Join(t.TempDir(), "data")
	c := openWith(t, Config{Dir: dir, Brokers: 2})
	create(t, c, "orders", 2)
	produce(t, c, at("orders", 0), "v")
	require.NoError(t, c.Backup(t.Context(), dir+"-copy"))
	require.NoError(t, c.Close())
	require.NoError(t, Restore(t.Context(), vfs.OS(), dir, dir+"-restored"))
	for _, root := range []string{dir, dir + "-copy", dir + "-restored"} {
		n := 0
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := d.Info()
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o077, "%s %v", path, info.Mode())
			n++
			return nil
		}))
		require.Greater(t, n, 10)
	}
}

// A malicious backup makes Restore neither copy files from elsewhere nor wait for ever.
func TestRestoreFollowsNoLinksAndOpensNoPipes(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	for name, plant := range map[string]func(path string) error{
		"link":              func(path string) error { return os.Symlink(secret, path) },
		"link to directory": func(path string) error { return os.Symlink(filepath.Dir(secret), path) },
		"pipe":              func(path string) error { return mkfifo(path) },
	} {
		t.Run(name, func(t *testing.T) {
			from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
			c, err := Open(Config{Dir: from})
			require.NoError(t, err)
			create(t, c, "orders", 1)
			produce(t, c, at("orders", 0), "v")
			require.NoError(t, c.Close())
			for _, where := range []string{"broker-1", "broker-1/orders-0"} {
				path := filepath.Join(from, where, "00000000000000000000.txt")
				if err := plant(path); err != nil {
					t.Skip(err)
				}
				err = Restore(t.Context(), vfs.OS(), from, to)
				require.ErrorIs(t, err, ErrForeign)
				require.ErrorContains(t, err, "not a regular file")
				require.NoFileExists(t, filepath.Join(to, where, "00000000000000000000.txt"))
				require.NoError(t, os.Remove(path))
			}
			require.NoError(t, Restore(t.Context(), vfs.OS(), from, to))
		})
	}
}
