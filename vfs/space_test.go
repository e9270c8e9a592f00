package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpaceOfAFileSystem(t *testing.T) {
	s := OS().(SpaceFS)
	total, free, err := s.Space(t.TempDir())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("not on this system")
	}
	require.NoError(t, err)
	require.Positive(t, total)
	require.GreaterOrEqual(t, free, int64(0))
	require.LessOrEqual(t, free, total)
	_, _, err = s.Space(filepath.Join(t.TempDir(), "nowhere"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
