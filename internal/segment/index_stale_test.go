package segment

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// oddConfig adds each batch except the first one to the indexes.
func oddConfig(fsys vfs.FS) Config { return Config{FS: fsys, IndexIntervalBytes: 1} }

// appendTimes appends a batch of one record at each of the times.
func appendTimes(t testing.TB, s *Segment, times ...int64) {
	for _, ms := range times {
		require.NoError(t, appendTo(s, batch(s.NextOffset(), 1, ms, 10)))
	}
}

// indexesOf returns the index files of a segment with a batch of one record at each of the times.
func indexesOf(t testing.TB, times ...int64) (offsets, stamps []byte) {
	fsys := memFS(t)
	s, err := Create(testDir, 0, oddConfig(fsys))
	require.NoError(t, err)
	appendTimes(t, s, times...)
	require.NoError(t, s.Close())
	return readFile(t, fsys, IndexSuffix), readFile(t, fsys, TimeIndexSuffix)
}

// requireTimesAfterPowerCut cuts the power so that only synced bytes survive. It opens the segment
// as properly closed, and looks for each of the times.
func requireTimesAfterPowerCut(t testing.TB, fsys *vfs.MemFS, times ...int64) {
	fsys = fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	s, err := Open(testDir, 0, oddConfig(fsys), OpenOptions{Clean: true, NextOffset: int64(len(times)), Size: int64(len(readFile(t, fsys, LogSuffix)))})
	require.NoError(t, err)
	closed(t, s)
	largest, at := int64(-1), 0
	for i, ms := range times {
		if ms > largest {
			largest, at = ms, i
		}
	}
	ts, offset, err := s.MaxTimestamp()
	require.NoError(t, err)
	require.Equal(t, []int64{largest, int64(at)}, []int64{ts, offset})
	for _, ms := range times {
		want := 0
		for times[want] < ms {
			want++
		}
		got, _, ok, err := s.OffsetAt(ms, 0)
		require.NoError(t, err)
		require.True(t, ok, "time %d", ms)
		require.EqualValues(t, want, got, "time %d", ms)
	}
}

// A time index entry describes all batches before its own. An entry that was truncated and is
// restored is trusted if the new batch at its place has the same time by chance.
func TestIndexEntriesOfWhatWasTruncatedDoNotComeBack(t *testing.T) {
	t.Parallel()
	for name, sealed := range map[string]bool{"sealed": true, "active": false} {
		t.Run(name, func(t *testing.T) {
			fsys := memFS(t)
			s, err := Create(testDir, 0, oddConfig(fsys))
			require.NoError(t, err)
			appendTimes(t, s, 10, 20, 30, 40)
			require.NoError(t, s.Seal())
			if !sealed {
				require.NoError(t, s.Unseal())
			}
			require.NoError(t, s.Truncate(1))
			appendTimes(t, s, 90, 20, 40)
			require.NoError(t, s.Sync())
			require.NoError(t, fsys.SyncDir(testDir))
			require.NoError(t, s.Close())
			requireTimesAfterPowerCut(t, fsys, 10, 90, 20, 40)
		})
	}
}

// After a power cut the index files can have entries of batches that are lost.
func TestIndexEntriesOfLostBatchesDoNotComeBackAfterRecovery(t *testing.T) {
	t.Parallel()
	oldOffsets, oldTimes := indexesOf(t, 10, 20, 30, 40)
	offsets, times := indexesOf(t, 10)
	for name, found := range map[string][2][]byte{
		"as they were":                     {oldOffsets, oldTimes},
		"times only":                       {offsets, oldTimes},
		"as a recovery left them":          {offsets, times}, // which was killed before they were synced
		"as a recovery left them, emptied": {nil, nil},
		"behind a hole":                    {oldOffsets, append(make([]byte, timeEntrySize), oldTimes[timeEntrySize:]...)},
	} {
		for _, active := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				fsys := memFS(t)
				s, err := Create(testDir, 0, oddConfig(fsys))
				require.NoError(t, err)
				appendTimes(t, s, 10)
				require.NoError(t, s.Sync())
				require.NoError(t, s.Discard())
				writeSynced(t, fsys, IndexSuffix, oldOffsets)
				writeSynced(t, fsys, TimeIndexSuffix, oldTimes)
				require.NoError(t, fsys.SyncDir(testDir))
				writeFile(t, fsys, segmentFile(IndexSuffix), found[0])
				writeFile(t, fsys, segmentFile(TimeIndexSuffix), found[1])

				s, err = Open(testDir, 0, oddConfig(fsys), OpenOptions{})
				require.NoError(t, err)
				_, err = s.Recover(RecoverOptions{Active: active})
				require.NoError(t, err)
				appendTimes(t, s, 90, 20, 40)
				require.NoError(t, s.Sync())
				require.NoError(t, s.Close())
				requireTimesAfterPowerCut(t, fsys, 10, 90, 20, 40)
			})
		}
	}
}

func writeSynced(t testing.TB, fsys vfs.FS, suffix string, p []byte) {
	writeFile(t, fsys, segmentFile(suffix), p)
	f, err := fsys.OpenFile(segmentFile(suffix), 0, 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// Entries that a failed flush wrote are truncated, too, though the segment does not count them.
func TestIndexEntriesOfAFailedFlushGoWithTheirBatches(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, oddConfig(fsys))
	require.NoError(t, err)
	appendTimes(t, s, 10, 20)
	require.NoError(t, s.flushIndex(flushAll))
	appendTimes(t, s, 30, 40)
	heal := fsys.Inject(vfs.Fault{Ops: vfs.OpOpen | vfs.OpCreate, Pattern: "*.index", Err: syscall.EIO})
	require.ErrorIs(t, s.flushIndex(flushAll), syscall.EIO)
	heal()
	require.Len(t, readFile(t, fsys, TimeIndexSuffix), 3*timeEntrySize)
	require.NoError(t, s.Truncate(2))
	require.Len(t, readFile(t, fsys, TimeIndexSuffix), timeEntrySize)
	require.NoError(t, s.Close())
}

// After a failed truncation of a segment all index entries are written again.
func TestIndexOfAFailedTruncateIsWhole(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]vfs.Fault{
		"the cut of the log":       {Ops: vfs.OpTruncate, Pattern: "*.log", Err: syscall.EIO},
		"the cut of an index":      {Ops: vfs.OpTruncate, Pattern: "*.timeindex", Err: syscall.EIO},
		"the sync of an index":     {Ops: vfs.OpSync, Pattern: "*.timeindex", Err: syscall.EIO},
		"the sync of the last one": {Ops: vfs.OpSync, Pattern: "*.index", Err: syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := memFS(t)
			s, err := Create(testDir, 0, oddConfig(fsys))
			require.NoError(t, err)
			appendTimes(t, s, 10, 20, 30, 40)
			require.NoError(t, s.Seal())
			offsets, times := readFile(t, fsys, IndexSuffix), readFile(t, fsys, TimeIndexSuffix)
			fsys.Inject(fault)
			require.ErrorIs(t, s.Truncate(1), syscall.EIO)
			require.NoError(t, s.Unseal())
			require.NoError(t, s.Close())
			require.Equal(t, offsets, readFile(t, fsys, IndexSuffix))
			require.Equal(t, times, readFile(t, fsys, TimeIndexSuffix))
		})
	}
}

// Entries of offsets at or above the segment's end do not belong to it.
func TestTimesBehindTheEndAreNotLoaded(t *testing.T) {
	t.Parallel()
	_, oldTimes := indexesOf(t, 10, 20, 30, 40)
	fsys := memFS(t)
	s, err := Create(testDir, 0, oddConfig(fsys))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	writeFile(t, fsys, segmentFile(TimeIndexSuffix), oldTimes)
	s, err = Open(testDir, 0, oddConfig(fsys), OpenOptions{Clean: true, NextOffset: 0, Size: 0})
	require.NoError(t, err)
	appendTimes(t, s, 10, 90, 20, 40)
	require.NoError(t, s.Sync())
	require.NoError(t, s.Seal())
	require.NoError(t, fsys.SyncDir(testDir))
	requireTimesAfterPowerCut(t, fsys, 10, 90, 20, 40)
}
