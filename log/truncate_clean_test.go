package log

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

// RELIABILITY R10: a truncation may come at any call of a compaction. The first of the two counts.
// A value that the compaction has not removed before the truncation must stay: the later value of
// its key is no longer in the log.
func TestTruncationAtEveryStepOfACompaction(t *testing.T) {
	// neighbours are merged; each segment stays alone
	for _, segmentBytes := range []int64{1 << 20, 200} {
		before, steps := 0, 0
		for more := true; more; steps++ {
			synctest.Test(t, func(t *testing.T) {
				var first bool
				more, first = truncateAtStep(t, segmentBytes, steps)
				if first {
					before++
				}
			})
		}
		require.Greater(t, before, 10, "truncations before the compaction's result was in place")
		require.Greater(t, steps, before+5, "and after that")
	}
}

// truncateAtStep truncates a log at the n-th file operation of a Clean. more is false if there are
// fewer operations. first is whether the truncation came before the first segment was replaced.
func truncateAtStep(t *testing.T, segmentBytes int64, n int) (more, first bool) {
	disk := vfs.Mem()
	cfg := compacting
	cfg.SegmentBytes = segmentBytes
	l := openClean(t, disk, cfg)
	for _, kv := range [][]string{{"a=1", "b=1"}, {"a=2", "b=2"}, {"a=3"}, {"c=1"}} {
		appendKV(t, l, kv...)
		require.NoError(t, l.Roll())
	}
	size := l.Segments()[0].Size
	// rolled segments are synced: all later calls are of the compaction and the truncation
	synctest.Wait()
	truncated := make(chan error, 1)
	var step atomic.Int64 // operations so far, also of the truncation
	stop := disk.Observe(vfs.Observer{Before: func(vfs.Event) {
		if step.Add(1) != int64(n)+1 {
			return
		}
		go func() {
			err := l.TruncateTo(2)
			first = l.Segments()[0].Size == size
			truncated <- err
		}()
		synctest.Wait() // it is done, or waits for the token
	}})
	clean(t, l)
	stop()
	if more = step.Load() > int64(n); more {
		require.NoError(t, <-truncated)
		require.Equal(t, int64(2), l.EndOffset(), "step %d", n)
		appendKV(t, l, "d=1")
		require.NoError(t, l.Roll())
		want := map[string]string{"d": "1"}
		if first {
			want["a"], want["b"] = "1", "1"
		}
		require.Equal(t, want, lastValues(logDump(t, l)), "step %d", n)
		clean(t, l)
		require.Equal(t, want, lastValues(logDump(t, l)), "step %d, cleaned once more", n)
	}
	want := logDump(t, l)
	require.NoError(t, l.Close())
	again := openClean(t, disk.Kill(), cfg)
	require.Equal(t, want, logDump(t, again), "step %d, opened again", n)
	require.NoError(t, again.Close())
	return more, first
}
