package log

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// stampedBatch is a batch as it was appended: its last offset, and the timestamps of its records.
type stampedBatch struct {
	base, last int64
	ts         []int64 // none: a marker
}

// Batches with timestamps in any order, markers, deletions, retention and compaction. Each answer
// is compared with the records that are left.
func TestTimestampAtIsThatOfTheBatchOfTheFirstRecord(t *testing.T) {
	t.Parallel()
	asked, gaps, horizons, markers := 0, 0, 0, 0
	for seed := range uint64(sampled(40, 10)) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			l := openClean(t, vfs.Mem(), Config{Cleanup: CleanupDelete | CleanupCompact, MinDirtyRatio: 0.01, SegmentBytes: []int64{300, 2000}[seed%2],
				RetentionBytes: 20000, DeleteRetention: time.Hour})
			defer func() { require.NoError(t, l.Close()) }()
			var all []stampedBatch
			append1 := func() {
				if rnd.IntN(6) == 0 {
					marker := record.ControlBatch(nil, record.ControlCommit, 0, record.ControlInfo{TimestampMs: 77, ProducerID: 9})
					at, err := l.AppendBatch(t.Context(), marker)
					require.NoError(t, err)
					all = append(all, stampedBatch{base: at, last: at})
					return
				}
				var rs []record.Record
				b := stampedBatch{}
				for range 1 + rnd.IntN(4) {
					r := record.String("", fmt.Sprintf("k%d", rnd.IntN(9)), "v")
					if rnd.IntN(5) == 0 {
						r.Value = nil
					}
					r.Timestamp = time.Now().Add(-time.Duration(rnd.IntN(1e6)) * time.Millisecond)
					rs = append(rs, r)
					b.ts = append(b.ts, r.Timestamp.UnixMilli())
				}
				at, err := l.Append(t.Context(), rs...)
				require.NoError(t, err)
				b.base, b.last = at, at+int64(len(rs))-1
				all = append(all, b)
			}
			for range 30 {
				for range 1 + rnd.IntN(10) {
					append1()
				}
				switch rnd.IntN(4) {
				case 0:
					require.NoError(t, l.Roll())
				case 1:
					clean(t, l)
				case 2:
					if rnd.IntN(4) == 0 {
						require.NoError(t, l.DeleteRecords(l.StartOffset()+rnd.Int64N(l.EndOffset()-l.StartOffset())))
					}
				case 3:
					time.Sleep(time.Minute)
				}
				type kept struct {
					offset, ts    int64
					first, marked bool // the first record of its batch; with a delete horizon
				}
				var left []kept
				for b, err := range l.Batches(l.StartOffset()) {
					require.NoError(t, err)
					if b.IsControl() {
						markers++
						continue
					}
					first := true
					for r, err := range b.All() {
						require.NoError(t, err)
						left = append(left, kept{r.Offset, r.Timestamp.UnixMilli(), first, b.HasDeleteHorizon()})
						first = false
					}
				}
				for range 20 {
					from := rnd.Int64N(l.EndOffset() + 3)
					upTo := l.EndOffset()
					if rnd.IntN(3) == 0 {
						if b := all[rnd.IntN(len(all))]; b.base >= l.StartOffset() {
							upTo = b.base
						}
					}
					asked++
					offset, ts, err := l.TimestampAt(from, upTo)
					require.NoError(t, err)
					from = max(from, l.StartOffset())
					i := 0
					for i < len(left) && left[i].offset < from {
						i++
					}
					if offset < 0 {
						require.EqualValues(t, -1, ts)
						require.True(t, i == len(left) || left[i].offset >= upTo, "seed %d: %d is at or above %d, below %d", seed, left[min(i, len(left)-1)].offset, from, upTo)
						continue
					}
					require.Less(t, offset, upTo)
					// The batch as it was appended: the answer has a timestamp of its records.
					var of stampedBatch
					for _, b := range all {
						if b.base <= offset && offset <= b.last {
							of = b
						}
					}
					require.Contains(t, of.ts, ts, "seed %d: offset %d", seed, offset)
					if i == len(left) || left[i].offset > of.last { // compaction has removed the rest of the batch
						require.LessOrEqual(t, of.base, from)
						gaps++
						continue
					}
					require.LessOrEqual(t, offset, left[i].offset)
					switch {
					case left[i].marked:
						horizons++
					case left[i].first:
						require.Equal(t, left[i].ts, ts, "the first record of a batch is exact")
					}
				}
			}
		})
	}
	for what, n := range map[string]int{"asked": asked, "gaps": gaps, "horizons": horizons, "markers": markers} {
		require.Greater(t, n, 10, what)
	}
}

func TestTimestampIsFoundWhileItsSegmentsAreReplaced(t *testing.T) {
	l := openClean(t, vfs.Mem(), Config{SegmentBytes: 200, Cleanup: CleanupCompact, MinDirtyRatio: 0.01})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	appendAt(t, l, 5)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if offset, ts, err := l.TimestampAt(0, l.EndOffset()); err != nil || offset != 0 || ts != 5 {
					t.Errorf("%d, %d, %v", offset, ts, err)
					return
				}
			}
		})
	}
	for i := range int64(500) {
		appendAt(t, l, 1000+i%7)
		if i%10 == 9 {
			clean(t, l)
		}
	}
	cancel()
	wg.Wait()
	require.NoError(t, l.Close())
	_, _, err := l.TimestampAt(0, 1)
	require.ErrorIs(t, err, ErrClosed)
}
