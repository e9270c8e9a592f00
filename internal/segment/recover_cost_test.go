package segment

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// Checklist row L4: a start after a kill recovers thousands of segments that are nearly empty and
// end in reserved space.
func TestRecoveryOfASmallActiveSegmentCostsLittle(t *testing.T) {
	const preallocated = 256 << 10
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	require.NoError(t, s.Preallocate(preallocated))
	all := fill(t, s, 3, 2, 100)
	recoverOnce := func() {
		killed := fsys.Kill()
		s, err := Open(testDir, 0, Config{FS: killed}, OpenOptions{})
		require.NoError(t, err)
		creates := killed.Count(vfs.OpCreate)
		_, err = s.Recover(RecoverOptions{SameBoot: true, Active: true})
		require.NoError(t, err)
		require.EqualValues(t, len(all), s.Size())
		require.Equal(t, creates, killed.Count(vfs.OpCreate), "files made for a handful of index entries")
		ts, offset, err := s.MaxTimestamp()
		require.NoError(t, err)
		require.Positive(t, ts)
		require.EqualValues(t, 5, offset)
		require.NoError(t, s.Close())
		requireIndexesMatch(t, s)
	}
	recoverOnce()

	const runs = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		recoverOnce()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/runs, uint64(preallocated/2), "bytes allocated for each")
	require.NoError(t, s.Close())
}
