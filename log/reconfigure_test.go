package log

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

func TestIndexSizesChangeWithTheNextSegment(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Segment: segment.Config{IndexIntervalBytes: 1 << 20}})
	require.NoError(t, err)
	entries := func(base int64) int {
		info, err := disk.Stat(filepath.Join("log", segment.FileName(base, segment.IndexSuffix)))
		require.NoError(t, err)
		return int(info.Size()) / 8
	}
	write := func(n int) {
		for range n { // all of one timestamp: the time index does not grow
			_, err := l.Append(t.Context(), record.Record{Value: []byte("v"), Timestamp: time.UnixMilli(1)})
			require.NoError(t, err)
		}
	}
	write(50)
	require.NoError(t, l.Reconfigure(Config{Segment: segment.Config{IndexIntervalBytes: 1, IndexBytes: 20 * 8}}))
	write(50)
	require.Len(t, l.Segments(), 1, "the one that was begun has room as before")
	require.NoError(t, l.Roll())
	require.Zero(t, entries(0))

	write(100)
	require.Len(t, l.Segments(), 6, "100 records that were there, four times 21, the first of which has no entry, and the rest")
	require.Equal(t, 20, entries(100))
	require.Len(t, values(t, l), 200)
	require.NoError(t, l.Close())
}
