package replication

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// An UnknownTopicError reports that there is no topic of that name, and suggests a similar one.
// errors.Is(err, ErrUnknownTopic) is true for it.
type UnknownTopicError struct {
	Topic string
	// Nearest is the existing topic whose name differs by the fewest typing errors, ignoring case.
	// It is empty if no name is similar, and is never an internal topic.
	Nearest string
}

func (e *UnknownTopicError) Error() string {
	if e.Nearest == "" {
		return fmt.Sprintf("%v: %q", ErrUnknownTopic, e.Topic)
	}
	return fmt.Sprintf("%v: %q (did you mean %q?)", ErrUnknownTopic, e.Topic, e.Nearest)
}

// Unwrap returns ErrUnknownTopic.
func (e *UnknownTopicError) Unwrap() error { return ErrUnknownTopic }

// unknownTopic returns the error for a name that m has no topic of.
func (c *Cluster) unknownTopic(m *image.Image, name string) error {
	s := nearestSearch{cluster: c}
	return &UnknownTopicError{Topic: name, Nearest: s.nearest(m, name)}
}

const (
	// nearestPause is the mean time between two searches for similar names: they use a few percent
	// of one processor, whatever names clients send.
	nearestPause = 20 * time.Millisecond
	// nearestBurst is how long unused time counts: that many pauses may be searches at once.
	nearestBurst = 4 * time.Second
)

// maySearch reports whether a search for similar names may begin. It returns false after too many
// recent searches.
func (c *Cluster) maySearch() bool {
	now := time.Now().UnixNano()
	for {
		last := c.nearestAt.Load()
		next := max(last, now-int64(nearestBurst)) + int64(nearestPause)
		switch {
		case next > now:
			return false
		case c.nearestAt.CompareAndSwap(last, next):
			return true
		}
	}
}

// refusal is an error of package image as this package's callers know it.
func (c *Cluster) refusal(img *image.Image, err error) error {
	var unknown *image.UnknownTopicError
	var policy *image.PolicyError
	switch {
	case errors.As(err, &unknown):
		return c.unknownTopic(img, unknown.Topic)
	case errors.As(err, &policy):
		return fmt.Errorf("%w: %s", ErrPolicyViolation, policy.Reason)
	}
	return err
}

// nearestBudget bounds one search, in cells of the table of edit distances: below a millisecond. A
// cluster of 10,000 topics needs less as a rule; of a larger one only a part is searched.
const nearestBudget = 1 << 19

// nearestSearch looks for similar names. Several searches of one call share its budget, so that a
// request that names many unknown topics costs no more than one of them.
type nearestSearch struct {
	cluster *Cluster // whose searches are paced; nil once the search has begun
	budget  int
	// rows of the table: the one before the previous one, the previous one, the current one.
	rows [3][]int
}

// nearest returns the topic of m whose name is nearest to name, the first by name of several; ""
// for none.
func (s *nearestSearch) nearest(m *image.Image, name string) string {
	if topic.IsInternal(name) || topic.ValidateName(name) != nil {
		return ""
	}
	if s.cluster != nil {
		if s.cluster.maySearch() {
			s.budget = nearestBudget
		}
		s.cluster = nil
	}
	wanted := strings.ToLower(name)
	limit, best := typingErrors(len(name)), ""
	for candidate := range m.Topics {
		if s.budget <= 0 {
			break
		}
		s.budget--
		if topic.IsInternal(candidate) || len(candidate) > len(name)+limit || len(candidate) < len(name)-limit {
			continue
		}
		switch d := s.distance(wanted, strings.ToLower(candidate), limit); {
		case d < limit, d == limit && (best == "" || candidate < best):
			limit, best = d, candidate
		}
	}
	return best
}

// typingErrors is how many typing errors are taken for such in a name of n bytes: with more it is
// another name.
func typingErrors(n int) int {
	switch {
	case n < 3:
		return 0
	case n < 6:
		return 1
	case n < 12:
		return 2
	}
	return 3
}

// distance returns the number of bytes to be inserted, deleted, replaced, or swapped with their
// neighbour, that turn a into b; something above limit if it takes more than limit. Only a band of
// the table as wide as limit allows is computed.
func (s *nearestSearch) distance(a, b string, limit int) int {
	for i := range s.rows {
		s.rows[i] = s.rows[i][:0]
		for j := range len(b) + 1 {
			// Right for row 0; others are overwritten within the band.
			s.rows[i] = append(s.rows[i], j)
		}
	}
	s.budget -= len(b) / 8 // cheap, but not for nothing
	for i := 1; i <= len(a); i++ {
		two, one, row := s.rows[0], s.rows[1], s.rows[2]
		from, to := max(1, i-limit), min(len(b), i+limit)
		row[0] = i
		if from > 1 {
			row[from-1] = limit + 1
		}
		least := row[from-1]
		for j := from; j <= to; j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(one[j-1]+cost, row[j-1]+1)
			if j < i+limit { // the cell above is inside the band of its row
				d = min(d, one[j]+1)
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, two[j-2]+1)
			}
			row[j] = d
			least = min(least, d)
		}
		s.budget -= to - from + 1
		if least > limit {
			return limit + 1
		}
		s.rows = [3][]int{one, row, two}
	}
	return s.rows[1][len(b)]
}
