package log_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

// TestReadOnlyShowsWhatOpenRecovers stops a workload at each of its calls, in all ways a process or
// the power can fail, and opens what is left first read-only and then for real: both must have the
// same records, and the first must change nothing.
func TestReadOnlyShowsWhatOpenRecovers(t *testing.T) {
	t.Parallel()
	states, empty := 0, 0
	for _, p := range explorePolicies {
		cuts := recordCuts(t, 3, p.policy, p.pause, nil)
		for i := range cuts {
			v := variants[i%len(variants)]
			if i%2 == 0 {
				v = variants[0] // killed: the next one to look is a reader, before anybody recovers
			}
			fsys := v.apply(cuts[i].fs, uint64(i))
			changes := fsys.Count(vfs.OpChange)
			var shown found
			ro, err := log.OpenReadOnly(exploreDir, log.Config{FS: fsys})
			missing := errors.Is(err, fs.ErrNotExist)
			if !missing {
				require.NoError(t, err, "call %d, %s", i, v.name)
				shown, err = readLog(ro)
				require.NoError(t, err, "call %d, %s", i, v.name)
				require.NoError(t, ro.Close())
			}
			require.Equal(t, changes, fsys.Count(vfs.OpChange), "a read-only log changed something")
			cfg := exploreConfig(p.policy)
			cfg.FS = fsys
			l, err := log.Open(exploreDir, cfg)
			require.NoError(t, err)
			recovered, err := readLog(l)
			require.NoError(t, err)
			require.NoError(t, l.Close())
			states++
			if missing {
				empty++
				require.Zero(t, recovered.end, "there is a log")
				continue
			}
			require.Equal(t, recovered.start, shown.start, "start; call %d (%s), %s", i, cuts[i].event, v.name)
			require.Equal(t, recovered.end, shown.end, "end; call %d (%s), %s", i, cuts[i].event, v.name)
			require.True(t, slices.Equal(recovered.ids, shown.ids), "call %d, %s", i, v.name)
		}
	}
	require.Greater(t, states, 20*empty)
	t.Logf("%d states, %d of them without a log", states, empty)
}
