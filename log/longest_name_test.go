package log_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A topic's name has up to 249 characters, and a file system allows 255 bytes for a directory. A
// backup and a removal use longer names beside it.
func TestLogWithTheLongestNameIsBackedUpAndRemoved(t *testing.T) {
	name := strings.Repeat("n", 249) + "-12345"
	dir, copied := filepath.Join(t.TempDir(), name), filepath.Join(t.TempDir(), name)
	l, err := log.Open(dir, log.Config{})
	require.NoError(t, err)
	_, err = l.Append(t.Context(), record.String("", "k", "v"))
	require.NoError(t, err)
	require.NoError(t, l.Backup(t.Context(), nil, copied))
	require.NoError(t, l.Remove())
	for _, gone := range []string{dir, copied} {
		entries, err := vfs.OS().ReadDir(filepath.Dir(gone))
		require.NoError(t, err)
		require.Len(t, entries, strings.Count(gone, copied), "nothing is left under another name")
	}
	l, err = log.Open(copied, log.Config{})
	require.NoError(t, err)
	require.EqualValues(t, 1, l.EndOffset())
	require.NoError(t, l.Close())
}
