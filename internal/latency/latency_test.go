package latency

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestBoundsHaveTwoBucketsForEachPowerOfTwo(t *testing.T) {
	us := func(f float64) time.Duration { return time.Duration(f * float64(time.Microsecond)) }
	for i, want := range []time.Duration{us(.5), us(.75), us(1), us(1.5), us(2), us(3), us(4), us(6)} {
		require.Equal(t, want, Bound(i))
	}
	require.Greater(t, Bound(Buckets-2), 64*time.Second)
	require.Equal(t, time.Duration(math.MaxInt64), Bound(Buckets-1))
	for i := range Buckets - 1 {
		require.Less(t, Bound(i), Bound(i+1))
		require.Equal(t, i, bucket(Bound(i)), "a bound belongs to its bucket")
		require.Equal(t, i+1, bucket(Bound(i)+1))
	}
	require.Zero(t, bucket(0))
	require.Equal(t, Buckets-1, bucket(math.MaxInt64))
}

func TestQuantilesAreWithinABucketOfTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, 1<<rapid.IntRange(1, 36).Draw(t, "bits")-1).Draw(t, "d"))
		}), 1, 200).Draw(t, "durations")
		cut := rapid.IntRange(0, len(ds)).Draw(t, "cut")
		var one, other Histogram
		var sum time.Duration
		for i, d := range ds {
			sum += d
			if i < cut {
				one.Observe(d)
			} else {
				other.Observe(d)
			}
		}
		s := one.Snapshot()
		s.Merge(other.Snapshot())
		require.Equal(t, int64(len(ds)), s.Count())
		require.Equal(t, sum, s.Sum)
		require.Equal(t, sum/time.Duration(len(ds)), s.Mean())
		require.Equal(t, other.Snapshot(), s.Since(one.Snapshot()))
		slices.Sort(ds)
		for _, q := range []float64{0, .01, .5, .9, .99, .999, 1} {
			truth := ds[max(int(math.Ceil(q*float64(len(ds))))-1, 0)]
			got := s.Quantile(q)
			require.GreaterOrEqual(t, got, min(truth, Bound(Buckets-2)))
			require.LessOrEqual(t, got, max(truth*3/2, 500*time.Nanosecond), "quantile %v", q)
		}
	})
}

func TestEmptyHistogramsAndOddDurations(t *testing.T) {
	var none *Histogram
	none.Observe(time.Second)
	for _, s := range []Snapshot{none.Snapshot(), {}} {
		require.Zero(t, s.Count())
		require.Zero(t, s.Mean())
		require.Zero(t, s.Quantile(.5))
	}
	var h Histogram
	h.Observe(-time.Second)
	h.Observe(time.Hour)
	s := h.Snapshot()
	require.EqualValues(t, 2, s.Count())
	require.Equal(t, time.Hour, s.Sum, "a negative duration is 0")
	require.Equal(t, Bound(0), s.Quantile(.5))
	require.Equal(t, Bound(Buckets-2), s.Quantile(1), "the largest bound that there is")
}

func TestConcurrentObservationsAreAllCounted(t *testing.T) {
	var h Histogram
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2_000_000 {
				h.Observe(time.Millisecond)
			}
		})
		wg.Go(func() { h.Snapshot() })
	}
	wg.Wait()
	s := h.Snapshot()
	require.EqualValues(t, 8_000_000, s.Count())
	require.Equal(t, 8000*time.Second, s.Sum)
}

func TestObserveDoesNotAllocate(t *testing.T) {
	var h Histogram
	require.Zero(t, testing.AllocsPerRun(100, func() { h.Observe(time.Millisecond) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { s := h.Snapshot(); s.Quantile(.99) }))
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	for i := range b.N {
		h.Observe(time.Duration(i))
	}
}

func BenchmarkObserveContended(b *testing.B) {
	var h Histogram
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.Observe(time.Millisecond)
		}
	})
}
