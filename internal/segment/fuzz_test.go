package segment

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// FuzzOpenLog opens any bytes as a segment. There is no panic, a read returns only valid batches,
// and a second recovery finds the same batches.
func FuzzOpenLog(f *testing.F) {
	all, ends := batches(6, 2, 40)
	f.Add(all, true, int64(0), int64(0))
	f.Add(all[:ends[4]+20], false, int64(4), int64(100))
	f.Add(join(all, make([]byte, 5000)), true, int64(12), int64(0))
	f.Add(flipped(all, ends[2]+9, 4), true, int64(0), int64(0))
	f.Add(flipped(all, ends[2]+90, 4), false, int64(2), int64(64))
	f.Fuzz(func(t *testing.T, raw []byte, sameBoot bool, recoveryPoint, window int64) {
		o := RecoverOptions{SameBoot: sameBoot, RecoveryPoint: recoveryPoint, UnsyncedWindow: window}
		fsys := memFS(t)
		writeFile(t, fsys, segmentFile(LogSuffix), raw)
		s, err := Open(testDir, 0, Config{FS: fsys}, OpenOptions{})
		require.NoError(t, err)
		rep, err := s.Recover(o)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			require.Equal(t, raw, readFile(t, fsys, LogSuffix), "nothing is changed")
			require.NoError(t, s.Close())
			return
		}
		require.LessOrEqual(t, rep.CutAt, int64(len(raw)))
		got, err := readAll(s, 0, 100)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			require.True(t, sameBoot, "everything was checked")
		}
		require.Equal(t, string(raw[:len(got)]), string(got))
		requireValid(t, got)
		next, size := s.NextOffset(), s.Size()
		if !s.Overflows(next) && err == nil {
			require.NoError(t, appendTo(s, batch(next, 1, 1, 10)))
			_, err := s.ReadAt(nil, next, 1, -1)
			require.NoError(t, err)
			require.NoError(t, s.Truncate(next))
		}
		require.NoError(t, s.Close())
		s, err = Open(testDir, 0, Config{FS: fsys}, OpenOptions{})
		require.NoError(t, err)
		again, err := s.Recover(o)
		require.NoError(t, err)
		require.Zero(t, again.CutBytes)
		require.Equal(t, []int64{next, size}, []int64{s.NextOffset(), s.Size()})
		require.NoError(t, s.Close())
	})
}

func requireValid(t *testing.T, p []byte) {
	for next := int64(0); len(p) > 0; {
		b, n, err := record.Parse(p)
		require.NoError(t, err)
		require.GreaterOrEqual(t, b.BaseOffset, next)
		next, p = b.NextOffset(), p[n:]
	}
}

// FuzzTxnIndex reads any bytes as a transaction index.
func FuzzTxnIndex(f *testing.F) {
	f.Add(make([]byte, 3*abortedTxnSize+5), int64(0), int64(100))
	f.Fuzz(func(t *testing.T, p []byte, from, upper int64) {
		fsys := memFS(t)
		s, err := Create(testDir, 0, Config{FS: fsys})
		require.NoError(t, err)
		writeFile(t, fsys, segmentFile(TxnIndexSuffix), p)
		ts, _, err := s.Aborted(from, upper)
		if !errors.Is(err, ErrCorrupt) {
			require.NoError(t, err)
		}
		require.LessOrEqual(t, len(ts), len(p)/abortedTxnSize)
		require.NoError(t, s.Close())
	})
}
