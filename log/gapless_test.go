package log

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// Checklist row D8: the state records that the last segment has no gaps. That is revoked before
// the first gap is written, regardless of how often the log was opened in between.
func TestGapThatAFollowerLeavesIsNoDamage(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		for _, offsets := range [][]int64{{5}, {0, 1, 7, 8, 20}, {0, 3, 4}} {
			disk := vfs.Mem()
			l, err := Open("log", Config{FS: disk, Sync: policy})
			require.NoError(t, err)
			crashes := moments(disk, randomCrashes(disk, 2), func() {
				for i, offset := range offsets {
					if i == 1 {
						require.NoError(t, l.Close())
						l, err = Open("log", Config{FS: disk, Sync: policy})
						require.NoError(t, err)
					}
					require.NoError(t, replicate(l, offset))
				}
			})
			for _, m := range append(crashes, moment{disk: disk.Kill()}) {
				again, err := Open("log", Config{FS: m.disk, Sync: policy})
				require.NoError(t, err, "crash before %v", m.before)
				n := 0
				for r, err := range again.Records(0) {
					require.NoError(t, err)
					require.Equal(t, offsets[n], r.Offset)
					n++
				}
				if m.before.Op == 0 {
					require.Len(t, offsets, n)
				}
				require.NoError(t, again.Close())
			}
			require.NoError(t, l.Close())
		}
	}
}

// The end of a truncated log may be in a segment in which compaction left gaps.
func TestTruncationIntoACompactedSegmentTakesItsGapsForNone(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := compacting
	cfg.FS = disk
	l, err := Open("log", cfg)
	require.NoError(t, err)
	for i := range 12 {
		appendKV(t, l, fmt.Sprintf("k%d=%d", i%3, i))
		appendKV(t, l, fmt.Sprintf("once%d=%d", i, i))
	}
	require.NoError(t, l.Roll())
	appendKV(t, l, "end=1")
	clean(t, l)
	cfg.Cleanup = CleanupDelete
	require.NoError(t, l.Reconfigure(cfg))
	require.NoError(t, l.TruncateTo(23))
	appendKV(t, l, "after=1")
	dump := logDump(t, l)
	killed := disk.Kill()
	require.NoError(t, l.Close())
	cfg.FS = killed
	again, err := Open("log", cfg)
	require.NoError(t, err)
	require.Equal(t, dump, logDump(t, again))
	require.NoError(t, again.Close())
}

// A batch whose offsets reach into the next segment does not belong to the segment in which it is
// found.
func TestBaseOffsetThatReachesIntoTheNextSegmentIsNotTaken(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := Config{FS: disk, SegmentBytes: 300, Sync: SyncNever}
	l, err := Open("log", cfg)
	require.NoError(t, err)
	fill(t, l, 20)
	list := l.list()
	require.Greater(t, len(list), 3)
	cfg.FS = disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept})
	require.NoError(t, l.Close())
	st, _, err := readState(cfg.FS, "log")
	require.NoError(t, err)
	st.RecoveryPoint = 0 // nothing was synced, in the background either
	require.NoError(t, storeState(cfg.FS, "log", st))
	s := list[1]
	p, err := vfs.ReadFile(cfg.FS, s.Path())
	require.NoError(t, err)
	var last int
	for pos := 0; pos < len(p); {
		b, n, err := record.Parse(p[pos:])
		require.NoError(t, err)
		last, pos = pos, pos+n
		require.Less(t, b.LastOffset(), list[2].Base())
	}
	record.SetBaseOffset(p[last:], s.NextOffset()+1)
	require.NoError(t, vfs.WriteFile(cfg.FS, s.Path(), p))
	again, err := Open("log", cfg)
	require.NoError(t, err, "nothing was synced")
	require.Equal(t, list[2].Base()-1, again.Recovery().CutOffset)
	require.Equal(t, again.Recovery().CutOffset, again.EndOffset())
	require.NotEmpty(t, again.Recovery().SetAside)
	require.NoError(t, again.Close())
}
