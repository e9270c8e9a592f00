package killloop

import (
	"fmt"
	"sync"
)

// A checker follows the numbers of each producer's records, which must be 0, 1, 2, ... as read from one partition.
type checker struct {
	mu                            sync.Mutex // guards the fields below
	next                          map[int]int64
	seen, gaps, doubled, shuffled int64
}

func newChecker() *checker { return &checker{next: map[int]int64{}} }

// value is what producer p writes as its n-th record.
func value(p int, n int64) []byte {
	return fmt.Appendf(nil, "%d:%d:%080d", p, n, n)
}

// take takes in one record as it was read.
func (c *checker) take(v []byte) error {
	var p int
	var n, same int64
	if _, err := fmt.Sscanf(string(v), "%d:%d:%d", &p, &n, &same); err != nil || n != same {
		return fmt.Errorf("a record that nobody wrote: %q", v)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen++
	switch next := c.next[p]; {
	case n == next:
		c.next[p]++
	case n == next-1:
		c.doubled++
	case n < next:
		c.shuffled++ // an earlier one: out of order, or doubled
	default:
		c.gaps += n - next
		c.next[p] = n + 1
	}
	return nil
}

// reached reports whether every producer's records up to those of acked (exclusive) have been seen.
func (c *checker) reached(acked []int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, n := range acked {
		if c.next[p] < n {
			return false
		}
	}
	return true
}

// add enters what was wrong into the report; acked is the number of records that each producer had acknowledged.
func (c *checker) add(rep *Report, acked []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rep.Lost += c.gaps
	rep.Duplicates += c.doubled
	rep.Reordered += c.shuffled
	for p, n := range acked {
		rep.Lost += max(n-c.next[p], 0)
	}
}
