package log

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// previewConfig returns random settings of retention and compaction.
func previewConfig(rnd *rand.Rand) Config {
	pick := func(ds ...time.Duration) time.Duration { return ds[rnd.IntN(len(ds))] }
	return Config{
		Cleanup:          []CleanupPolicy{CleanupDelete, CleanupCompact, CleanupDelete | CleanupCompact, CleanupNone}[rnd.IntN(4)],
		SegmentBytes:     []int64{200, 700, 1 << 20}[rnd.IntN(3)],
		SegmentAge:       pick(time.Minute, time.Hour),
		SegmentJitter:    pick(0, 20*time.Second),
		RetentionAge:     pick(time.Second, 5*time.Minute, time.Hour, -1),
		RetentionBytes:   []int64{0, 300, 3000}[rnd.IntN(3)],
		MinDirtyRatio:    []float64{0.01, 0.5, 0.9}[rnd.IntN(3)],
		MinCompactionLag: pick(0, time.Minute),
		MaxCompactionLag: pick(0, 2*time.Minute),
		Sync:             []SyncPolicy{SyncOnAck, SyncNever}[rnd.IntN(2)],
	}
}

// Appends with old, new and future timestamps, rolls, deletions, gaps and pauses in random order.
func TestPreviewIsWhatCleanThenDoes(t *testing.T) {
	t.Parallel()
	removed, compacted, emptied, future := 0, 0, 0, 0
	for seed := range uint64(sampled(200, 60)) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			l := openClean(t, vfs.Mem(), previewConfig(rnd))
			defer func() { require.NoError(t, l.Close()) }()
			if rnd.IntN(2) == 0 {
				l.SetHighWatermark(0)
			}
			for range 150 {
				switch rnd.IntN(14) {
				case 0:
					require.NoError(t, l.Roll())
				case 1:
					if l.highWatermark() != 1<<63-1 {
						l.SetHighWatermark(max(l.highWatermark(), l.EndOffset()-rnd.Int64N(6)))
					}
				case 2:
					if hw := min(l.highWatermark(), l.EndOffset()); rnd.IntN(4) == 0 && hw > l.StartOffset() {
						require.NoError(t, l.DeleteRecords(l.StartOffset()+rnd.Int64N(hw-l.StartOffset())))
					}
				case 3:
					time.Sleep(time.Duration(rnd.Int64N(int64(2 * time.Minute))))
				case 4:
					cfg := previewConfig(rnd)
					require.NoError(t, l.Reconfigure(cfg))
				case 5:
					was := l.Segments()
					want, err := l.Preview()
					require.NoError(t, err)
					require.Equal(t, was, l.Segments(), "a preview changes nothing")
					got, err := l.Clean(t.Context())
					require.NoError(t, err)
					require.Equal(t, want.Segments, got.Segments, "seed %d", seed)
					require.Equal(t, want.StartOffset, got.StartOffset, "seed %d", seed)
					require.Equal(t, want.Compaction == nil, got.Compaction == nil)
					for i, v := range got.Segments {
						if v.Removed {
							removed++
							if i == len(got.Segments)-1 {
								emptied++
							}
						}
						if strings.Contains(v.Reason, "in the future") {
							future++
						}
					}
					if c := got.Compaction; c != nil {
						if c.Skipped == "" {
							compacted++
						}
						require.Equal(t, CompactionReport{Skipped: c.Skipped, FirstDirty: c.FirstDirty, FirstUncleanable: c.FirstUncleanable, DirtyRatio: c.DirtyRatio, End: c.FirstDirty},
							*want.Compaction, "seed %d", seed)
					}
				default:
					r := record.String("", fmt.Sprintf("k%d", rnd.IntN(12)), "value")
					r.Timestamp = time.Now().Add(time.Duration(rnd.Int64N(int64(4*time.Minute)) - int64(3*time.Minute)))
					_, err := l.Append(t.Context(), r)
					require.NoError(t, err)
				}
			}
		})
	}
	for what, n := range map[string]int{"removed": removed, "compacted": compacted, "emptied": emptied, "future": future} {
		require.Greater(t, n, 5, what)
	}
}

func TestPreviewNamesTheSegmentsThatGoAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openClean(t, vfs.Mem(), Config{RetentionAge: time.Hour})
		for range 3 {
			appendKV(t, l, "k=v")
			require.NoError(t, l.Roll())
			time.Sleep(40 * time.Minute)
		}
		rep, err := l.Preview()
		require.NoError(t, err)
		require.EqualValues(t, 2, rep.StartOffset)
		require.Nil(t, rep.Compaction)
		require.Len(t, rep.Segments, 4)
		require.True(t, rep.Segments[1].Removed)
		require.Equal(t, "its newest record is 1h20m0s old, 1h0m0s are to be kept", rep.Segments[1].Reason)
		require.False(t, rep.Segments[2].Removed)
		require.Zero(t, l.StartOffset(), "nothing is removed yet")
		require.NoError(t, l.Close())
		_, err = l.Preview()
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestPreviewsRunBesideAppendsAndCleans(t *testing.T) {
	l := openClean(t, vfs.Mem(), Config{SegmentBytes: 200, RetentionBytes: 1000, Cleanup: CleanupDelete | CleanupCompact, MinDirtyRatio: 0.01})
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				rep, err := l.Preview()
				if err != nil || len(rep.Segments) == 0 || rep.Compaction == nil {
					t.Errorf("%+v, %v", rep, err)
					return
				}
			}
		})
	}
	for i := range 500 {
		appendKV(t, l, fmt.Sprintf("k%d=v", i%7))
		if i%10 == 9 {
			_, err := l.Clean(t.Context())
			require.NoError(t, err)
		}
	}
	close(done)
	wg.Wait()
	require.NoError(t, l.Close())
}
