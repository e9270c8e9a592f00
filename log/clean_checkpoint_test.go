package log

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func TestCleanerOffsetIsKeptInKafkasFormat(t *testing.T) {
	t.Parallel()
	fsys := vfs.Mem()
	for dir, want := range map[string]string{"/my-topic-3": "0\n1\nmy-topic 3 42\n", "/audit": "0\n1\naudit 0 42\n", "/some-name": "0\n1\nsome-name 0 42\n"} {
		require.NoError(t, fsys.MkdirAll(dir, 0o755))
		offset, err := readCleanerOffset(fsys, dir)
		require.NoError(t, err)
		require.EqualValues(t, -1, offset, "none yet")
		require.NoError(t, lowerCleanerOffset(fsys, dir, 5))
		require.NoError(t, writeCleanerOffset(fsys, dir, 42))
		p, err := vfs.ReadFile(fsys, dir+"/"+cleanerFile)
		require.NoError(t, err)
		require.Equal(t, want, string(p))
		require.NoError(t, lowerCleanerOffset(fsys, dir, 50))
		offset, err = readCleanerOffset(fsys, dir)
		require.NoError(t, err)
		require.EqualValues(t, 42, offset)
		require.NoError(t, lowerCleanerOffset(fsys, dir, 7))
		offset, err = readCleanerOffset(fsys, dir)
		require.NoError(t, err)
		require.EqualValues(t, 7, offset)
	}
}

func TestCleanerOffsetThatCannotBeReadIsNone(t *testing.T) {
	t.Parallel()
	fsys := vfs.Mem()
	for _, text := range []string{"", "0\n", "0\n0\n", "1\n1\nt 0 5\n", "0\n2\nt 0 5\nt 1 5\n", "0\n1\nt 0 x\n", "0\n1\nt 0 -5\n", "0\n1\n\n"} {
		require.NoError(t, vfs.WriteFile(fsys, "/"+cleanerFile, []byte(text)))
		offset, err := readCleanerOffset(fsys, "/")
		require.NoError(t, err)
		require.EqualValues(t, -1, offset, text)
	}
}
