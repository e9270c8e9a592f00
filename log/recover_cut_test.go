package log

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// Segments that a killed Kafka broker left are found in the directory, and none of them has been
// synced. The records that Open and Sync report as durable are on the disk, in closed segments,
// too.
func TestSegmentsFoundByLookingAreOnTheDiskBeforeTheyAreCalledDurable(t *testing.T) {
	t.Parallel()
	from := vfs.Mem()
	l, err := Open("log", Config{FS: from, SegmentBytes: 160})
	require.NoError(t, err)
	for offset := range int64(7) {
		require.NoError(t, replicate(l, offset))
	}
	require.Len(t, l.Segments(), 4)
	require.NoError(t, l.Close())
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		disk := vfs.Mem()
		require.NoError(t, vfs.MakeDir(disk, "log", 0o755))
		entries, err := from.ReadDir("log")
		require.NoError(t, err)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".log") {
				copyUnsynced(t, from, disk, filepath.Join("log", e.Name()))
			}
		}
		require.NoError(t, disk.SyncDir("log"))

		cfg := Config{FS: disk, Sync: policy, SegmentBytes: 160}
		l, err := Open("log", cfg)
		require.NoError(t, err)
		durable := l.DurableOffset()
		lost := vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}
		opened := disk.CrashWith(lost)
		require.NoError(t, l.Sync())
		require.EqualValues(t, 7, l.DurableOffset())
		synced := disk.CrashWith(lost)
		require.NoError(t, l.Close())
		for left, end := range map[*vfs.MemFS]int64{opened: durable, synced: 7} {
			cfg.FS = left
			l, err := Open("log", cfg)
			require.NoError(t, err)
			require.GreaterOrEqual(t, l.EndOffset(), end)
			require.Subset(t, offsetsOf(t, l), []int64{0, 1, 2, 3, 4, 5, 6}[:end])
			require.NoError(t, l.Close())
		}
	}
}

// copyUnsynced copies a file without a sync.
func copyUnsynced(t *testing.T, from, to vfs.FS, name string) {
	p, err := vfs.ReadFile(from, name)
	require.NoError(t, err)
	f, err := to.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	_, err = f.WriteAt(p, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
