package killloop

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// A checker checks the numbers of each producer's records. Read from one partition, they must be 0,
// 1, 2, ...
type checker struct {
	mu                            sync.Mutex // guards the fields below
	next                          map[int]int64
	seen, gaps, doubled, shuffled int64
}

func newChecker() *checker { return &checker{next: map[int]int64{}} }

// value returns the value of producer p's n-th record.
func value(p int, n int64) []byte {
	return fmt.Appendf(nil, "%d:%d:%080d", p, n, n)
}

// take checks the value of the next record that was read.
func (c *checker) take(v []byte) error {
	f := strings.Split(string(v), ":")
	if len(f) != 3 {
		return fmt.Errorf("a record that no worker wrote: %q", v)
	}
	p, err1 := strconv.Atoi(f[0])
	n, err2 := strconv.ParseInt(f[1], 10, 64)
	same, err3 := strconv.ParseInt(f[2], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil || n != same {
		return errors.Join(fmt.Errorf("a record that no worker wrote: %q", v), err)
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
		c.shuffled++ // an earlier number: out of order, or a duplicate
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

// progress returns, for each of n producers, the number of its next expected record.
func (c *checker) progress(n int) []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]int64, n)
	for p := range out {
		out[p] = c.next[p]
	}
	return out
}

// add adds the faults found to the report. acked has the number of acknowledged records of each
// producer.
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
