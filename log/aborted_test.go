package log

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/vfs"
)

// A manyAbortsOwner takes each record for the marker of an aborted transaction that began at the
// record before it.
type manyAbortsOwner struct{ abortingOwner }

func (o *manyAbortsOwner) Written(as []*Append) {
	for _, a := range as {
		for at := max(a.BaseOffset, 1); at <= a.LastOffset; at++ {
			_ = o.log.AppendAborted(segment.AbortedTxn{FirstOffset: at - 1, LastOffset: at, LastStableOffset: at}) // the next one is open
		}
	}
}

// A segment with very many aborted transactions keeps no memory for each of them. All of them are
// found, also after the log is opened again.
func TestAbortsOfALargeSegmentGoToTheDisk(t *testing.T) {
	if RaceEnabled {
		t.Skip("takes long, in one goroutine")
	}
	t.Parallel()
	disk := vfs.Mem()
	o := &manyAbortsOwner{}
	l, err := Open("log", Config{FS: disk, Owner: o})
	require.NoError(t, err)
	o.log = l
	const n = 3
	for range n {
		appendWords(t, l, "x", maxRecentAborts/2)
	}
	end := l.EndOffset()
	require.Less(t, len(l.aborts.recent), maxRecentAborts)
	for range 2 {
		aborted, err := l.AbortedTxns(0, end)
		require.NoError(t, err)
		require.Len(t, aborted, int(end)-1)
		aborted, err = l.AbortedTxns(end-2, end-1)
		require.NoError(t, err)
		require.Len(t, aborted, 2)
		require.NoError(t, l.Close())
		lost := disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
		l, err = Open("log", Config{FS: lost})
		require.NoError(t, err)
	}
	all, err := l.AbortedTxns(0, end)
	require.NoError(t, err)
	require.NoError(t, l.ResetAborted(1, all))
	require.Empty(t, l.aborts.recent)
	again, err := l.AbortedTxns(0, end)
	require.NoError(t, err)
	require.Equal(t, all, again)
	require.NoError(t, l.Close())
}

// The transaction index has no entry for records that a truncation cut off, or that recovery cut
// off behind the last batch.
func TestCutLogHasNoAbortsBehindItsEnd(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	o := &manyAbortsOwner{}
	l, err := Open("log", Config{FS: disk, Owner: o, Sync: SyncNever})
	require.NoError(t, err)
	o.log = l
	appendWords(t, l, "x", 3)
	require.NoError(t, l.Roll())
	appendWords(t, l, "y", 3)
	aborts := func(n int) {
		t.Helper()
		all, err := l.AbortedTxns(l.StartOffset(), 10)
		require.NoError(t, err)
		require.Len(t, all, n)
	}
	aborts(5)
	require.NoError(t, l.TruncateTo(4))
	aborts(3)
	appendWords(t, l, "z", 2)
	aborts(5)
	require.NoError(t, l.Sync())
	require.NoError(t, l.Roll())
	appendWords(t, l, "lost", 1)
	require.NoError(t, l.active().ResetAborted(0, []segment.AbortedTxn{{FirstOffset: 5, LastOffset: 6, LastStableOffset: 7}}, true))
	lost := disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashKept})
	require.NoError(t, l.Close())
	l, err = Open("log", Config{FS: lost})
	require.NoError(t, err)
	require.EqualValues(t, 6, l.EndOffset())
	aborts(5)
	require.NoError(t, l.TruncateFully(2))
	aborts(0)
	require.NoError(t, l.Close())
}

// After a snapshot was written, no aborted transaction below it has to be looked up.
func TestSnapshotFollowsTheAbortsBelowIt(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	o := &manyAbortsOwner{}
	l, err := Open("log", Config{FS: disk, Owner: o})
	require.NoError(t, err)
	o.log = l
	appendWords(t, l, "x", 3)
	require.NoError(t, l.WriteSnapshot(3, []byte("state")))
	lost := disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	require.NoError(t, l.Close())
	l, err = Open("log", Config{FS: lost})
	require.NoError(t, err)
	offsets, err := l.SnapshotFiles()
	require.NoError(t, err)
	require.Equal(t, []int64{3}, offsets)
	all, err := l.AbortedTxns(0, 10)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.NoError(t, l.Close())
}
