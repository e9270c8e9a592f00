package log

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// noLimit keeps everything; times in the tests are ms.
var noLimit = retention{now: 1000, highWatermark: math.MaxInt64, maxBytes: -1, maxAge: -1}

// equalSegments are n segments of ten records and 100 bytes each, one second apart; the last one
// is active.
func equalSegments(n int64) (segs []segmentFacts) {
	for i := range n {
		segs = append(segs, segmentFacts{base: 10 * i, next: 10*i + 10, size: 100, largestTimestamp: 1000 * i})
	}
	return segs
}

func removed(r retention, segs []segmentFacts) int {
	verdicts, n := r.decide(segs)
	for i, v := range verdicts {
		if v.Removed != (i < n) || v.Reason == "" || v.BaseOffset != segs[i].base || v.NextOffset != segs[i].next {
			panic(v)
		}
	}
	if len(verdicts) != len(segs) {
		panic(len(verdicts))
	}
	return n
}

func TestRetentionBySizeNeverGoesBelowTheLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]int{0: 4, 99: 3, 100: 3, 101: 2, 199: 2, 200: 2, 399: 0, 400: 0, 1000: 0} {
		r := noLimit
		r.maxBytes = limit
		require.Equal(t, want, removed(r, equalSegments(4)), limit)
	}
}

func TestRetentionByAgeCountsFromTheNewestRecord(t *testing.T) {
	t.Parallel()
	r := noLimit
	r.now, r.maxAge = 3000, 1000
	require.Equal(t, 2, removed(r, equalSegments(5)), "exactly the limit stays")
	r.now = 3001
	require.Equal(t, 3, removed(r, equalSegments(5)))
	r.now = 1 << 50
	require.Equal(t, 5, removed(r, equalSegments(5)), "also the active one, which is rolled first")

	future := equalSegments(3)
	future[0].largestTimestamp = 1 << 60
	require.Zero(t, removed(r, future), "a timestamp in the future keeps a segment, and all behind it")
	future[0].largestTimestamp = time.Date(5138, 11, 16, 9, 46, 40, 0, time.UTC).UnixMilli()
	r.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	verdicts, _ := r.decide(future)
	require.Contains(t, verdicts[0].Reason, "5138-11-16T09:46:40Z", "the reason names the timestamp")
	r.maxAge = -1
	require.Zero(t, removed(r, equalSegments(5)))
}

func TestOnlyWholeSegmentsBelowTheStartOffsetGo(t *testing.T) {
	t.Parallel()
	for start, want := range map[int64]int{0: 0, 9: 0, 10: 1, 11: 1, 20: 2, 25: 2, 30: 2} {
		r := noLimit
		r.start = start
		require.Equal(t, want, removed(r, equalSegments(3)), "start %d: the active segment stays", start)
	}
}

func TestNothingAboveTheHighWatermarkGoes(t *testing.T) {
	t.Parallel()
	r := noLimit
	r.maxBytes, r.maxAge, r.now = 0, 0, 1<<50
	for hw, want := range map[int64]int{0: 0, 9: 0, 10: 1, 29: 2, 40: 4} {
		r.highWatermark = hw
		require.Equal(t, want, removed(r, equalSegments(4)), hw)
	}
}

func TestEmptyActiveSegmentStays(t *testing.T) {
	t.Parallel()
	r := noLimit
	r.maxBytes, r.maxAge, r.now = 0, 0, 1<<50
	segs := equalSegments(2)
	segs[1].size, segs[1].next = 0, 10
	require.Equal(t, 1, removed(r, segs))
	require.Zero(t, removed(r, segs[1:]))
}

// Kafka goes over the log three times, once per reason.
func TestRetentionAgainstKafkasThreePasses(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		n := 1 + rnd.IntN(6)
		segs := make([]segmentFacts, n)
		for i := range segs {
			segs[i] = segmentFacts{base: int64(10 * i), next: int64(10*i + 10), size: int64(rnd.IntN(5) * 50), largestTimestamp: int64(rnd.IntN(2000))}
		}
		r := retention{now: 2000, start: int64(rnd.IntN(10 * n)), highWatermark: int64(rnd.IntN(10*n + 20)), maxBytes: int64(rnd.IntN(500) - 1), maxAge: int64(rnd.IntN(1500) - 1)}
		left := segs
		pass := func(match func(s segmentFacts, last bool) bool) {
			for len(left) > 0 {
				s, last := left[0], len(left) == 1
				if r.highWatermark < s.next || last && s.size == 0 || !match(s, last) {
					return
				}
				left = left[1:]
			}
		}
		pass(func(s segmentFacts, last bool) bool { return !last && s.next <= r.start })
		var total int64
		for _, s := range left {
			total += s.size
		}
		diff := total - r.maxBytes
		pass(func(s segmentFacts, last bool) bool {
			if r.maxBytes < 0 || diff-s.size < 0 {
				return false
			}
			diff -= s.size
			return true
		})
		pass(func(s segmentFacts, last bool) bool { return r.maxAge >= 0 && r.now-s.largestTimestamp > r.maxAge })
		require.Equal(t, n-len(left), removed(r, segs), "%+v of %+v", r, segs)
	}
}
