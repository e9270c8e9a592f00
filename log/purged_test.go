package log

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/vfs"
)

// purging is compacting without a retention time of tombstones.
var purging = Config{Cleanup: CleanupCompact, MinDirtyRatio: 0.001, DeleteRetention: time.Nanosecond}

// aboutToPurge returns a log whose next compaction purges a tombstone at offset 1.
func aboutToPurge(t testing.TB, fsys vfs.FS) *Log {
	l := openClean(t, fsys, purging)
	appendKV(t, l, "a=1", "b", "c=1")
	require.NoError(t, l.Roll())
	appendKV(t, l, "a=2")
	require.NoError(t, l.Roll())
	clean(t, l)
	require.Equal(t, Purged{}, l.Purged(), "tombstones stay at first, and later records tell of all else")
	appendKV(t, l, "a=3")
	require.NoError(t, l.Roll())
	require.Contains(t, logDump(t, l), "1:b")
	return l
}

// Once a tombstone is removed, the log reports that it was purged. That holds after a crash before
// any call of the compaction, after a second open, and in a copy.
func TestCrashAtEveryStepOfACompactionThatPurges(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := aboutToPurge(t, disk)
	cuts := moments(disk, modelledCrashes(disk, 4), func() { clean(t, l) })
	purged := l.Purged()
	require.EqualValues(t, 2, purged.Below)
	require.NotZero(t, purged.ID)
	require.NotContains(t, logDump(t, l), "1:b")
	require.NoError(t, l.Backup(t.Context(), disk, "/copy"))
	require.NoError(t, l.Close())
	for _, dir := range []string{bedDir, "/copy"} {
		cfg := purging
		cfg.FS = disk
		l, err := Open(dir, cfg)
		require.NoError(t, err)
		require.Equal(t, purged, l.Purged(), dir)
		require.NoError(t, l.Close())
	}
	gone := 0
	for _, cut := range cuts {
		again := openClean(t, cut.disk, purging)
		got := again.Purged()
		if !strings.Contains(logDump(t, again), "1:b") {
			gone++
			require.Equal(t, purged, got, "crash before %v", cut.before)
		}
		require.NoError(t, again.Close())
		again = openClean(t, cut.disk, purging)
		require.Equal(t, got, again.Purged(), "opening twice is opening once")
		require.NoError(t, again.Close())
	}
	require.NotZero(t, gone)
	require.Less(t, gone, len(cuts))
}

// Each purge gives the log a new id, by which followers notice it. After several purges, Below
// covers all of them.
func TestPurgedGrowsAndHasAnotherIDEachTime(t *testing.T) {
	t.Parallel()
	l := aboutToPurge(t, vfs.Mem())
	clean(t, l)
	first := l.Purged()
	appendKV(t, l, "a")
	require.NoError(t, l.Roll())
	clean(t, l)
	require.Equal(t, first, l.Purged())
	appendKV(t, l, "x=1")
	require.NoError(t, l.Roll())
	clean(t, l)
	second := l.Purged()
	require.Greater(t, second.Below, first.Below)
	require.NotEqual(t, first.ID, second.ID)
	require.NoError(t, l.Close())
}

// A log that begins again as a copy has the Purged of its original, or is unchanged, after a crash
// before any call.
func TestCrashAtEveryStepOfBeginningACopy(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := aboutToPurge(t, disk)
	clean(t, l)
	old, before := l.Purged(), logDump(t, l)
	of := Purged{Below: 1000, ID: 42}
	cuts := moments(disk, modelledCrashes(disk, 4), func() { require.NoError(t, l.TruncateFullyFrom(3, of)) })
	require.Equal(t, of, l.Purged())
	appendKV(t, l, "n=1")
	require.NoError(t, l.Close())
	l = openClean(t, disk, purging)
	require.Equal(t, of, l.Purged())
	require.NoError(t, l.Close())
	seen := map[Purged]int{}
	for _, cut := range cuts {
		again := openClean(t, cut.disk, purging)
		got := again.Purged()
		seen[got]++
		switch got {
		case old:
			require.Equal(t, before, logDump(t, again), "crash before %v", cut.before)
		case of:
			require.Equal(t, []int64{3, 3}, []int64{again.StartOffset(), again.EndOffset()}, "crash before %v", cut.before)
		default:
			t.Fatalf("crash before %v: %v", cut.before, got)
		}
		require.NoError(t, again.Close())
	}
	require.NotZero(t, seen[old])
	require.NotZero(t, seen[of])

	plain := openClean(t, vfs.Mem(), purging)
	require.NoError(t, plain.TruncateFullyFrom(3, of))
	require.NoError(t, plain.TruncateFully(5))
	require.Equal(t, Purged{}, plain.Purged(), "what is there no more lacks nothing")
	require.NoError(t, plain.Close())
}

// A log of an earlier version, or of a Kafka broker, has no record of its purges. If it is
// compacted, all but the last segment may be purged; any other log has purged nothing.
func TestWhatAnEarlierVersionHasPurgedIsTakenForAll(t *testing.T) {
	t.Parallel()
	l := aboutToPurge(t, vfs.Mem())
	defer func() { require.NoError(t, l.Close()) }()
	list := l.list()
	deleting := Config{Cleanup: CleanupDelete}
	unknown, guessed := purgedBefore(&purging, &manifest.State{Version: 3}, list)
	require.True(t, guessed)
	require.Equal(t, list[len(list)-1].Base(), unknown.Below)
	require.NotZero(t, unknown.ID)
	other, _ := purgedBefore(&purging, &manifest.State{}, list)
	require.NotEqual(t, unknown, other, "each is another log")
	for _, known := range []struct {
		cfg  *Config
		st   manifest.State
		list []*segment.Segment
		want Purged
	}{
		{&deleting, manifest.State{Version: 3}, list, Purged{}}, {&purging, manifest.State{Version: 3}, list[:1], Purged{}},
		{&purging, manifest.State{Version: 4, Purged: 7, PurgeID: 8}, list, Purged{7, 8}},
	} {
		got, guessed := purgedBefore(known.cfg, &known.st, known.list)
		require.False(t, guessed)
		require.Equal(t, known.want, got)
	}
	l.purged.Store(&unknown)
	l.BoundPurged(1)
	require.Equal(t, unknown, l.Purged(), "it is known")
	l.purgeGuessed = true
	l.BoundPurged(unknown.Below + 1)
	require.Equal(t, unknown, l.Purged())
	l.BoundPurged(1)
	require.Equal(t, Purged{1, unknown.ID}, l.Purged())
}

// bounded is an owner whose log is copied.
type bounded struct {
	snapshotOwner
	below int64
}

func (b *bounded) PurgeBelow() int64 { return b.below }

func TestOwnerBoundsWhatIsPurged(t *testing.T) {
	t.Parallel()
	for below, purged := range map[int64]int64{0: 0, 2: 0, 3: 2} { // the batch of the tombstone ends at 3
		disk := vfs.Mem()
		l := aboutToPurge(t, disk)
		require.NoError(t, l.Close())
		cfg := purging
		cfg.Owner = &bounded{below: below}
		l = openClean(t, disk, cfg)
		clean(t, l)
		require.Equal(t, purged, l.Purged().Below, below)
		require.Equal(t, purged == 0, strings.Contains(logDump(t, l), "1:b"))
		require.NoError(t, l.Close())
	}
}
