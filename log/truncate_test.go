package log_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A log whose records were all deleted is truncated at its end, where the last epoch seems to
// begin. It stays in that epoch: appends after the next open must not have an older epoch than the
// batches in the file.
func TestTruncationOfALogWithDeletedRecordsKeepsItsEpoch(t *testing.T) {
	fsys := vfs.Mem()
	open := func(fsys vfs.FS) *log.Log {
		l, err := log.Open("t-0", log.Config{FS: fsys})
		require.NoError(t, err)
		return l
	}
	l := open(fsys)
	require.NoError(t, l.SetLeaderEpoch(7))
	_, err := l.Append(context.Background(), record.String("", "k", "old"))
	require.NoError(t, err)
	require.NoError(t, l.DeleteRecords(1))
	require.NoError(t, l.TruncateTo(1))
	require.NoError(t, l.Close())

	l = open(fsys)
	_, err = l.Append(context.Background(), record.String("", "k", "new"))
	require.NoError(t, err)
	crashed := fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	require.NoError(t, l.Close())

	l = open(crashed)
	require.EqualValues(t, 2, l.EndOffset(), "it was acknowledged")
	require.EqualValues(t, 7, l.Epochs().At(1))
	require.NoError(t, l.Close())
}

// A snapshot of truncated records is not there again after a power cut.
func TestSnapshotOfWhatWasTruncatedDoesNotComeBack(t *testing.T) {
	l, fsys := openMem(t, exploreConfig(log.SyncNever))
	for id := range int64(4) {
		_, err := appendID(l, id)
		require.NoError(t, err)
	}
	require.NoError(t, l.Roll()) // takes a snapshot
	require.NoError(t, l.TruncateTo(1))
	offsets, err := l.SnapshotFiles()
	require.NoError(t, err)
	require.Empty(t, offsets)
	crashed := fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashLost})
	entries, err := crashed.ReadDir(exploreDir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NotContains(t, e.Name(), ".snapshot")
	}
	require.NoError(t, l.Close())
}

// A leader epoch below a recorded one is rejected: its batches behind batches of the higher epoch
// would be taken for damage.
func TestLowerLeaderEpochIsRefused(t *testing.T) {
	l, fsys := openMem(t, exploreConfig(log.SyncOnAck))
	require.NoError(t, l.SetLeaderEpoch(5))
	_, err := appendID(l, 0)
	require.NoError(t, err)
	require.ErrorIs(t, l.SetLeaderEpoch(3), log.ErrStaleEpoch)
	require.NoError(t, l.SetLeaderEpoch(5), "again")
	_, err = appendID(l, 1)
	require.NoError(t, err)
	cfg := exploreConfig(log.SyncOnAck)
	cfg.FS = fsys.Kill()
	require.NoError(t, l.Close())
	l, err = log.Open(exploreDir, cfg)
	require.NoError(t, err)
	require.EqualValues(t, 2, l.EndOffset())
	require.EqualValues(t, 5, l.Epochs().At(1))
	require.NoError(t, l.Close())
}

// A truncation below the start, inside of the first segment, shows no records that DeleteRecords
// removed, at any of its calls. After a crash the log begins at its old start, or is truncated.
func TestCrashInACutBelowTheStartShowsNoDeletedRecords(t *testing.T) {
	for _, policy := range []log.SyncPolicy{log.SyncNever, log.SyncOnAck} {
		l, fsys := openMem(t, log.Config{Sync: policy})
		for id := range int64(10) {
			_, err := appendID(l, id)
			require.NoError(t, err)
			if id == 7 {
				require.NoError(t, l.Roll())
			}
		}
		require.NoError(t, l.DeleteRecords(6))
		var mu sync.Mutex // guards states while l is open: it syncs in the background, too
		var states []*vfs.MemFS
		stop := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
			if e.Op&vfs.OpChange != 0 {
				mu.Lock()
				defer mu.Unlock()
				states = append(states, fsys.Kill(), fsys.CrashWith(variants[1].CrashOptions), fsys.Crash(uint64(e.N)))
			}
		}})
		require.NoError(t, l.TruncateTo(3))
		stop()
		require.EqualValues(t, 3, l.StartOffset())
		require.EqualValues(t, 3, l.EndOffset())
		require.NoError(t, l.Close())
		require.NotEmpty(t, states)
		for i, at := range states {
			_, err := log.PlanRecovery(exploreDir, log.Config{FS: at})
			require.NoError(t, err, "state %d", i)
			again, err := log.Open(exploreDir, log.Config{FS: at, Sync: policy})
			require.NoError(t, err, "state %d", i)
			f, err := readLog(again)
			require.NoError(t, err)
			for _, id := range f.ids {
				require.GreaterOrEqual(t, id, int64(6), "state %d: it was deleted", i)
			}
			require.NoError(t, again.Close())
		}
		again, err := log.Open(exploreDir, log.Config{FS: fsys.CrashWith(variants[1].CrashOptions)})
		require.NoError(t, err)
		require.EqualValues(t, 3, again.EndOffset(), "it had returned")
		require.NoError(t, again.Close())
	}
}
