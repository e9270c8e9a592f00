// Package latency has a histogram of durations that is cheap enough for each append and request.
//
// A Histogram has 56 buckets with fixed bounds, two for each power of two, from 500 ns to 67 s. A
// quantile is therefore at most half, or 500 ns, too high. Observe adds to two counters without
// a lock or an allocation. It does not read a clock: callers measure with times that they have
// anyway.
package latency

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is the number of buckets of a Histogram. The last one has no upper bound.
const Buckets = 56

// unit is half the upper bound of the first bucket. All bounds are multiples of it.
const unit = 250 * time.Nanosecond

// A Histogram counts durations. The zero value is empty and ready. Its methods may be called
// concurrently. It must not be copied.
type Histogram struct {
	buckets [Buckets]atomic.Int64
	sum     atomic.Int64 // ns
}

// Observe counts a duration. Negative durations, which a wall clock that was set back gives, count
// as 0. A nil Histogram counts nothing.
func (h *Histogram) Observe(d time.Duration) {
	if h == nil {
		return
	}
	d = max(d, 0)
	h.buckets[bucket(d)].Add(1)
	h.sum.Add(int64(d))
}

// Snapshot returns the counts so far. The sum may lack or include durations that are counted
// meanwhile. A nil Histogram has an empty Snapshot.
func (h *Histogram) Snapshot() (s Snapshot) {
	if h == nil {
		return s
	}
	s.Sum = time.Duration(h.sum.Load())
	for i := range h.buckets {
		s.Counts[i] = h.buckets[i].Load()
	}
	return s
}

// bucket returns the bucket of d, the first one whose bound is not below d. In units the bounds are
// 2, 3, 4, 6, 8, 12: each power of two, and one halfway to the next.
func bucket(d time.Duration) int {
	below := uint64(max(d-1, 0)) / uint64(unit) // d is in (below, below+1] units
	if below < 2 {
		return 0
	}
	n := bits.Len64(below)        // below is in [1<<(n-1), 1<<n)
	half := int(below>>(n-2)) & 1 // 1 in the upper half of that range
	return min(2*n-3+half, Buckets-1)
}

// Bound returns the upper bound of bucket i, which belongs to the bucket. The last bucket has the
// largest duration as its bound.
func Bound(i int) time.Duration {
	switch {
	case i >= Buckets-1:
		return math.MaxInt64
	case i%2 == 0:
		return 2 * unit << (i / 2)
	}
	return 3 * unit << (i / 2)
}

// A Snapshot is the content of a Histogram at one time. The zero value is empty.
type Snapshot struct {
	Counts [Buckets]int64 // durations by bucket; see Bound
	Sum    time.Duration  // of all durations
}

// Count returns the number of durations.
func (s *Snapshot) Count() (n int64) {
	for _, c := range s.Counts {
		n += c
	}
	return n
}

// Merge adds the durations of another Snapshot.
func (s *Snapshot) Merge(o Snapshot) {
	for i, c := range o.Counts {
		s.Counts[i] += c
	}
	s.Sum += o.Sum
}

// Since returns the durations that were counted after an earlier Snapshot of the same Histogram.
func (s *Snapshot) Since(earlier Snapshot) Snapshot {
	d := *s
	for i, c := range earlier.Counts {
		d.Counts[i] -= c
	}
	d.Sum -= earlier.Sum
	return d
}

// Mean returns the mean of all durations, 0 if there are none.
func (s *Snapshot) Mean() time.Duration {
	if n := s.Count(); n > 0 {
		return s.Sum / time.Duration(n)
	}
	return 0
}

// Quantile returns a bound that a fraction q of all durations, from 0 to 1, does not exceed. It is
// the bound of the bucket with the quantile, or the bound of the last but one bucket if the
// quantile is in the last one. It returns 0 if there are no durations.
func (s *Snapshot) Quantile(q float64) time.Duration {
	n := s.Count()
	if n == 0 {
		return 0
	}
	rank := min(max(int64(math.Ceil(q*float64(n))), 1), n)
	i := 0
	for seen := s.Counts[0]; seen < rank; seen += s.Counts[i] {
		i++
	}
	return Bound(min(i, Buckets-2))
}
