package log_test

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A log whose directory has less than its owner expects is not opened, and no file is changed.
func TestLogWithLessThanIsKnownIsRefused(t *testing.T) {
	const dir = "data/t-0"
	fsys := vfs.Mem()
	l, err := log.Open(dir, log.Config{FS: fsys, SegmentBytes: 200})
	require.NoError(t, err)
	for range 10 {
		_, err := l.Append(t.Context(), record.Record{Value: []byte("0123456789")})
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	last := ""
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".log") {
			last = e.Name()
		}
	}
	notState := func(file string) bool { return file != "strata.state" }
	for name, tt := range map[string]struct {
		keep    func(file string) bool
		known   log.Known
		refused bool
	}{
		"whole":                      {func(string) bool { return true }, log.Known{Start: 0, End: 10, Exact: true}, false},
		"longer than known":          {func(string) bool { return true }, log.Known{Start: 0, End: 7}, false},
		"shorter":                    {func(string) bool { return true }, log.Known{Start: 0, End: 11}, true},
		"nothing":                    {func(string) bool { return false }, log.Known{Start: -1}, true},
		"last segment without state": {func(file string) bool { return file == last }, log.Known{Start: 0, End: 10}, true},
		"state of before a deletion": {func(string) bool { return true }, log.Known{Start: 5, End: 10, Exact: true}, true},
		"start unknown":              {func(file string) bool { return file == last }, log.Known{Start: -1, End: 10}, true},
		"without state":              {notState, log.Known{Start: -1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			disk := fsys.Kill()
			for _, e := range entries {
				if !tt.keep(e.Name()) {
					require.NoError(t, disk.Remove(filepath.Join(dir, e.Name())))
				}
			}
			before, err := disk.ReadDir(dir)
			require.NoError(t, err)
			l, err := log.Open(dir, log.Config{FS: disk, SegmentBytes: 200, Known: &tt.known})
			if !tt.refused {
				require.NoError(t, err)
				require.NoError(t, l.Close())
				return
			}
			require.ErrorIs(t, err, log.ErrMissingSegment)
			var incomplete *log.IncompleteError
			require.ErrorAs(t, err, &incomplete)
			require.Equal(t, tt.known, incomplete.Known)
			after, err := disk.ReadDir(dir)
			require.NoError(t, err)
			for _, e := range after {
				require.True(t, e.Name() == ".lock" || contains(before, e.Name()), e.Name())
			}
		})
	}
}

func contains(entries []fs.DirEntry, name string) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
}

// An older copy of a log's files that is put over the newer ones has a state that fits its last
// segment. The newer segments, which it does not name, do not continue that log.
func TestOldCopyOverANewerLogIsRefused(t *testing.T) {
	const dir = "data/t-0"
	for _, oldClosed := range []bool{true, false} {
		for _, newClosed := range []bool{true, false} {
			for first := 1; first < 12; first++ {
				fsys := vfs.Mem()
				cfg := log.Config{FS: fsys, SegmentBytes: 300, Sync: log.SyncOnAck}
				l, err := log.Open(dir, cfg)
				require.NoError(t, err)
				fill := func(n int) {
					for range n {
						_, err := l.Append(t.Context(), record.Record{Value: []byte("0123456789")})
						require.NoError(t, err)
					}
				}
				fill(first)
				old := fsys.Kill()
				require.NoError(t, l.Close())
				if oldClosed {
					old = fsys.Kill()
				}
				l, err = log.Open(dir, cfg)
				require.NoError(t, err)
				fill(12)
				disk := fsys.Kill()
				require.NoError(t, l.Close())
				if newClosed {
					disk = fsys
				}
				entries, err := old.ReadDir(dir)
				require.NoError(t, err)
				for _, e := range entries {
					p, err := vfs.ReadFile(old, filepath.Join(dir, e.Name()))
					require.NoError(t, err)
					require.NoError(t, vfs.WriteFile(disk, filepath.Join(dir, e.Name()), p))
				}
				l, err = log.Open(dir, log.Config{FS: disk, SegmentBytes: 300})
				if err != nil {
					require.ErrorIs(t, err, log.ErrMissingSegment)
					require.ErrorContains(t, err, dir)
					continue
				}
				require.EqualValues(t, first+12, l.EndOffset())
				n := int64(0)
				for r, err := range l.Records(0) {
					require.NoError(t, err)
					require.Equal(t, n, r.Offset)
					n++
				}
				require.Equal(t, l.EndOffset(), n)
				require.NoError(t, l.Close())
			}
		}
	}
}
