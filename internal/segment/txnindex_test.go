package segment

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func TestAbortedTransactionsAreFoundByRange(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	closed(t, s)
	require.NoError(t, fsys.SyncDir(testDir))
	ts, done, err := s.Aborted(0, 100)
	require.NoError(t, err)
	require.Empty(t, ts)
	require.False(t, done)
	fill(t, s, 10, 10, 10)
	// the transaction of producer 2 has been open since 7
	a := AbortedTxn{ProducerID: 1, FirstOffset: 5, LastOffset: 20, LastStableOffset: 7}
	b := AbortedTxn{ProducerID: 2, FirstOffset: 7, LastOffset: 30, LastStableOffset: 31}
	c := AbortedTxn{ProducerID: 1, FirstOffset: 40, LastOffset: 50, LastStableOffset: 51}
	for _, e := range []AbortedTxn{a, b, c} {
		require.NoError(t, s.AppendAborted(e))
	}
	for _, tc := range []struct {
		from, upper int64
		want        []AbortedTxn
		done        bool
	}{
		{0, 100, []AbortedTxn{a, b, c}, false},
		{0, 6, []AbortedTxn{a}, true},
		{0, 31, []AbortedTxn{a, b}, true},
		{21, 51, []AbortedTxn{b, c}, true},
		{31, 40, nil, true},
		{51, 100, nil, false},
	} {
		ts, done, err := s.Aborted(tc.from, tc.upper)
		require.NoError(t, err)
		require.Equal(t, tc.want, ts, "[%d, %d)", tc.from, tc.upper)
		require.Equal(t, tc.done, done, "[%d, %d)", tc.from, tc.upper)
	}
	require.NoError(t, s.ResetAborted(21, []AbortedTxn{b, c}, true))
	lost := fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	require.Equal(t, readFile(t, fsys, TxnIndexSuffix), readFile(t, lost, TxnIndexSuffix), "on stable storage")

	// the batch with offset 45 is truncated, and with it everything from 40 on
	require.NoError(t, s.Truncate(45))
	require.Equal(t, readFile(t, lost, TxnIndexSuffix), readFile(t, fsys, TxnIndexSuffix), "the cut is not synced yet")
	require.NoError(t, s.ResetAborted(s.NextOffset(), nil, false))
	ts, _, err = s.Aborted(0, math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, []AbortedTxn{a, b}, ts)
}

// An index that was read serves later lookups, until it changes.
func TestTransactionIndexIsReadOnceForEachEdition(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	reads := 0
	fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpRead && strings.HasSuffix(e.Name, TxnIndexSuffix) {
			reads++
		}
	}})
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	closed(t, s)
	fill(t, s, 10, 10, 10)
	var all []AbortedTxn
	found := func() {
		t.Helper()
		held, err := s.txnIndex() // or the collector may free it
		require.NoError(t, err)
		before := reads
		for from := range int64(100) {
			ts, _, err := s.Aborted(from, math.MaxInt64)
			require.NoError(t, err)
			require.ElementsMatch(t, slices.DeleteFunc(slices.Clone(all), func(t AbortedTxn) bool { return t.LastOffset < from }), ts)
		}
		require.Equal(t, before, reads)
		runtime.KeepAlive(held)
	}
	for i := range int64(8) {
		e := AbortedTxn{ProducerID: 1, FirstOffset: 10*i + 5, LastOffset: 10*i + 9, LastStableOffset: 10*i + 10}
		require.NoError(t, s.AppendAborted(e))
		all = append(all, e)
		found()
	}
	all = append(all[:3], all[7])
	require.NoError(t, s.ResetAborted(30, all[3:], true))
	found()
	require.Positive(t, reads)
}

func TestDamagedTransactionIndexIsAnErrorAndItsTornEndIsCut(t *testing.T) {
	t.Parallel()
	for _, tail := range []string{"x", string(make([]byte, abortedTxnSize)), string(make([]byte, 40)), "0123456789012345678901234567890123456789"} {
		fsys := memFS(t)
		s, err := Create(testDir, 0, Config{FS: fsys})
		require.NoError(t, err)
		fill(t, s, 10, 10, 10)
		a := AbortedTxn{ProducerID: 1, FirstOffset: 5, LastOffset: 20, LastStableOffset: 21}
		require.NoError(t, s.AppendAborted(a))
		require.NoError(t, s.Close())
		writeFile(t, fsys, segmentFile(TxnIndexSuffix), append(readFile(t, fsys, TxnIndexSuffix), tail...))

		s, err = Open(testDir, 0, Config{FS: fsys}, OpenOptions{Clean: true, NextOffset: 100, Size: s.Size()})
		require.NoError(t, err)
		ts, _, err := s.Aborted(0, 100)
		if len(tail) < abortedTxnSize {
			require.NoError(t, err)
			require.Equal(t, []AbortedTxn{a}, ts)
		} else {
			var damage *CorruptError
			require.ErrorAs(t, err, &damage)
			require.Equal(t, CorruptError{segmentFile(TxnIndexSuffix), abortedTxnSize, 0, damage.Reason}, *damage)
		}
		require.NoError(t, s.Close())
		s, err = Open(testDir, 0, Config{FS: fsys}, OpenOptions{})
		require.NoError(t, err)
		_, err = s.Recover(RecoverOptions{})
		require.NoError(t, err)
		require.NoError(t, s.ResetAborted(s.NextOffset(), nil, false))
		ts, _, err = s.Aborted(0, 100)
		require.NoError(t, err)
		require.Equal(t, []AbortedTxn{a}, ts)
		require.NoError(t, s.AppendAborted(AbortedTxn{ProducerID: 1, FirstOffset: 25, LastOffset: 30, LastStableOffset: 31}))
		ts, _, err = s.Aborted(0, 100)
		require.NoError(t, err)
		require.Len(t, ts, 2)
		require.NoError(t, s.Close())
	}
}

// A process was killed after it had given the index a new file, before the directory was synced.
func TestTransactionIndexThatIsFoundIsSynced(t *testing.T) {
	t.Parallel()
	for _, left := range []int{0, 1} {
		fsys := memFS(t)
		s, err := Create(testDir, 0, Config{FS: fsys})
		require.NoError(t, err)
		closed(t, s)
		fill(t, s, 10, 10, 10)
		a := AbortedTxn{ProducerID: 1, FirstOffset: 5, LastOffset: 20, LastStableOffset: 21}
		b := AbortedTxn{ProducerID: 1, FirstOffset: 25, LastOffset: 30, LastStableOffset: 31}
		require.NoError(t, s.ResetAborted(0, []AbortedTxn{a, b}, true))
		fsys.Inject(vfs.Fault{Ops: vfs.OpSyncDir, Lie: true})
		below := []AbortedTxn{a, b}[left].LastOffset
		require.NoError(t, s.ResetAborted(below, nil, false))
		require.Len(t, readFile(t, fsys, TxnIndexSuffix), left*abortedTxnSize)
		require.NoError(t, s.ResetAborted(below, nil, true))
		lost := fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
		require.Len(t, readFile(t, lost, TxnIndexSuffix), left*abortedTxnSize)
	}
}
