package log

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// No crash leaves a directory that contradicts its owner's bounds. Neither a kill nor a power cut
// removes a state that was on stable storage. After a kill each log with records has a state.
func TestStateThatIsKnownSurvivesEveryCrash(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			t.Parallel()
			disk := vfs.Mem()
			cfg := Config{FS: disk, Sync: policy, SegmentBytes: 300}
			var l *Log
			var known []Known // by moment
			crash := randomCrashes(disk, 2)
			noted := func(before vfs.Event) []*vfs.MemFS {
				k := Known{Start: -1}
				if l != nil {
					k.Stated = l.Stated()
				}
				left := crash(before)
				for i := range left {
					k.SameRun = i == len(left)-1 // the kill
					known = append(known, k)
				}
				return left
			}
			all := moments(disk, noted, func() {
				var err error
				l, err = Open("data/t-0", cfg)
				require.NoError(t, err)
				fill(t, l, 1)
				require.NoError(t, l.SyncRecords())
				fill(t, l, 8)
				require.NoError(t, l.Sync())
				require.NoError(t, l.DeleteRecords(3))
				fill(t, l, 2)
				require.NoError(t, l.Close())
			})
			require.Len(t, known, len(all))
			stated := 0
			for i, m := range all {
				if known[i].Stated {
					stated++
				}
				k := known[i]
				again, err := Open("data/t-0", Config{FS: m.disk, Sync: policy, Known: &k})
				if err == nil {
					err = again.Close()
				}
				var incomplete *IncompleteError
				if errors.As(err, &incomplete) && !k.Stated { // the crash came before the first segment
					require.False(t, incomplete.Stateless, "crash before %v", m.before)
					continue
				}
				require.NoError(t, err, "crash before %v", m.before)
			}
			require.Greater(t, stated, 20)
		})
	}
}

// Without its state a log would be read by Kafka's rules: gaps would be no damage, and deleted
// records would be there again. So Open rejects it, unless a power cut can have removed the first
// state.
func TestLogWithoutItsStateIsRefused(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := Config{FS: disk, Sync: SyncNever, SegmentBytes: 300}
	l, err := Open("data/t-0", cfg)
	require.NoError(t, err)
	fill(t, l, 1)
	require.NoError(t, l.SyncRecords())
	require.False(t, l.Stated())
	provisional := disk.Kill()
	fill(t, l, 20)
	require.True(t, l.Stated())
	rolled := disk.Kill()
	require.NoError(t, l.Close())
	for name, tt := range map[string]struct {
		disk    *vfs.MemFS
		remove  string
		known   *Known
		refused bool
	}{
		"provisional":                               {provisional, "", &Known{Start: -1, SameRun: true}, false},
		"provisional, removed":                      {provisional, provisionalFile, &Known{Start: -1, SameRun: true}, true},
		"provisional, removed by a power cut":       {provisional, provisionalFile, &Known{Start: 0, End: 1}, false},
		"provisional, and there was a state":        {provisional, "", &Known{Start: -1, Stated: true, SameRun: true}, true},
		"provisional, and records were deleted":     {provisional, "", &Known{Start: 1}, true},
		"provisional, and the log was closed":       {provisional, "", &Known{Start: 0, End: 1, Exact: true}, true},
		"several segments":                          {rolled, stateFile, &Known{Start: -1}, true},
		"several segments, and the state":           {rolled, "", &Known{Start: -1, Stated: true, SameRun: true}, false},
		"several segments, and no bounds of theirs": {rolled, stateFile, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			left := tt.disk.Kill()
			if tt.remove != "" {
				require.NoError(t, left.Remove("data/t-0/"+tt.remove))
			}
			again, err := Open("data/t-0", Config{FS: left, SegmentBytes: 300, Known: tt.known})
			if !tt.refused {
				require.NoError(t, err)
				require.NoError(t, again.Close())
				return
			}
			var incomplete *IncompleteError
			require.ErrorAs(t, err, &incomplete)
			require.True(t, incomplete.Stateless)
			require.ErrorIs(t, err, ErrMissingSegment)
			require.ErrorContains(t, err, "data/t-0 has no "+stateFile)
		})
	}
}
