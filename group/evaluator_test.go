package group

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/internal/re2"
	"github.com/stratalog/strata/internal/synctest"
)

// expensive returns an expression of about 200 instructions that no two values of n share.
func expensive(n int) string { return fmt.Sprintf("a%d|", n) + strings.Repeat("(.*|b)?", 20) + "zz" }

// manyTopics returns n topics of one partition, with names of 200 bytes that begin with "t".
func manyTopics(n int) map[string]int32 {
	topics := make(map[string]int32, n)
	for i := range n {
		topics[fmt.Sprintf("t%03d", i)+strings.Repeat("x", 196)] = 1
	}
	return topics
}

// One principal has 20 expressions that take 100 slices each. The expression of another principal
// is done after two slices.
func TestExpensiveExpressionsOfOnePrincipalDelayNoOther(t *testing.T) {
	inBubble(t, newFakeStore(manyTopics(100)), Config{}, func(t *testing.T, c *Coordinator) {
		e := c.evaluator
		e.slice, e.rest, e.patience = 20_000, time.Second, time.Hour
		var at atomic.Int32 // number of concurrent evaluations
		one := func(string) bool {
			if at.Add(1) != 1 {
				t.Error("two requests evaluate at a time")
			}
			time.Sleep(time.Millisecond) // lets a second evaluation show
			at.Add(-1)
			return true
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 20)
		for i := range 20 {
			go func() {
				r := byPattern(expensive(i), one)
				r.Group, r.Owner = fmt.Sprint("attack-", i), "attacker"
				_, err := c.ConsumerHeartbeat(ctx, r)
				ended <- err
			}()
		}
		time.Sleep(10*time.Second + time.Second/2)
		began := time.Now()
		r := byPattern("t0.*", one)
		r.Owner = "user"
		resp, err := c.ConsumerHeartbeat(t.Context(), r)
		require.NoError(t, err)
		require.Len(t, resp.Assignment, 100)
		// its own slices, each behind one of the other principal
		slices := 1 + 100*(re2.Instructions("t0.*")*201+nameWork)/e.slice
		require.LessOrEqual(t, time.Since(began), time.Duration(2*slices+3)*e.rest)
		cancel()
		synctest.Wait()
		time.Sleep(2 * time.Second) // the rest after a slice
		for range 20 {
			require.ErrorIs(t, <-ended, context.Canceled, "the evaluation ends with the request")
		}
		require.Less(t, e.evaluated, int64(100+10+20*100/2), "the other expressions are not finished")
	})
}

// The evaluator uses a bounded part of a processor.
func TestEvaluationsRestAfterEachSlice(t *testing.T) {
	inBubble(t, newFakeStore(manyTopics(50)), Config{}, func(t *testing.T, c *Coordinator) {
		e := c.evaluator
		e.slice, e.rest, e.patience = 100_000, time.Second, time.Hour
		began, work := time.Now(), 0
		for i := range 3 {
			r := byPattern(expensive(i), nil)
			r.Group = fmt.Sprint(i)
			_, err := c.ConsumerHeartbeat(t.Context(), r)
			require.NoError(t, err)
			work += 50 * re2.Instructions(expensive(i)) * 201
		}
		require.Equal(t, int64(3*50), e.evaluated)
		require.GreaterOrEqual(t, time.Since(began), time.Duration(work/(2*e.slice))*e.rest)
		require.NotZero(t, work/(2*e.slice))
	})
}

// A member gets responses without topics until its expression is evaluated, and no name is
// evaluated twice.
func TestExpressionThatTakesLongIsResolvedByLaterHeartbeats(t *testing.T) {
	inBubble(t, newFakeStore(manyTopics(40)), Config{}, func(t *testing.T, c *Coordinator) {
		e := c.evaluator
		e.slice, e.rest, e.patience = 1000, time.Second, 10*time.Second
		r := byPattern("t.*", nil)
		var resp ConsumerHeartbeatResponse
		beats := 0
		for began := time.Now(); len(resp.Assignment) == 0; began = time.Now() {
			var err error
			resp, err = c.ConsumerHeartbeat(t.Context(), r)
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(began), e.patience+e.rest, "no heartbeat waits for the result")
			require.Equal(t, len(resp.Assignment) == 0, resp.RetryAfter > 0)
			beats++
			r.MemberEpoch, r.Owned, r.SubscribedRegex = resp.MemberEpoch, nil, nil
			time.Sleep(resp.RetryAfter)
		}
		require.Len(t, resp.Assignment, 40)
		require.GreaterOrEqual(t, beats, 4)
		require.Equal(t, int64(40), e.evaluated)
	})
}

// The test counts evaluations: a name is evaluated once with an expression, also for another
// group.
func TestOnlyNewTopicsAreEvaluated(t *testing.T) {
	store := newFakeStore(manyTopics(10))
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		beat := func(r ConsumerHeartbeatRequest) ConsumerHeartbeatResponse {
			resp, err := c.ConsumerHeartbeat(t.Context(), r)
			require.NoError(t, err)
			return resp
		}
		r := byPattern("t.*", nil)
		resp := beat(r)
		require.Equal(t, int64(10), c.evaluator.evaluated)
		store.set("t", TopicInfo{ID: [16]byte{99}, Partitions: 1})
		synctest.Wait()
		time.Sleep(time.Second) // for the watcher, which pauses between reads
		r.MemberEpoch, r.Owned = resp.MemberEpoch, nil
		resp = beat(r)
		require.Equal(t, int64(11), c.evaluator.evaluated)
		other := byPattern("t.*", func(name string) bool { return name != "t" })
		other.Group = "other"
		require.Len(t, beat(other).Assignment, 10, "results are shared, and rights are not")
		require.Equal(t, int64(11), c.evaluator.evaluated)
	})
}

// The requests wait behind an endless one.
func TestWaitForATurnEndsWithTheRequestAndTheCoordinator(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{}, func(t *testing.T, c *Coordinator) {
		c.evaluator.patience = time.Hour
		long := make(chan struct{})
		go c.ConsumerHeartbeat(t.Context(), byPattern("a", func(string) bool { <-long; return true }))
		synctest.Wait()
		ended := make(chan error, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for i, of := range []context.Context{ctx, t.Context(), t.Context()} {
			go func() {
				r := byPattern(fmt.Sprint("b", i), nil)
				r.Group = fmt.Sprint("g", i)
				_, err := c.ConsumerHeartbeat(of, r)
				ended <- err
			}()
		}
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		synctest.Wait()
		require.Empty(t, ended)
		c.cancel()
		require.ErrorIs(t, <-ended, ErrClosed)
		require.ErrorIs(t, <-ended, ErrClosed)
		close(long)
		synctest.Wait()
		require.Empty(t, c.evaluator.queue)
		require.False(t, c.evaluator.busy)
	})
}

// The check of rights panics.
func TestPanicWhileATurnIsHeldPassesItOn(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{}, func(t *testing.T, c *Coordinator) {
		require.Panics(t, func() {
			c.ConsumerHeartbeat(t.Context(), byPattern("a", func(string) bool { panic("no rights") }))
		})
		resp, err := c.ConsumerHeartbeat(t.Context(), byPattern("t", nil))
		require.NoError(t, err)
		require.Len(t, resp.Assignment, 1)
	})
}

// There are more expressions than are kept, and a topic that is created and deleted again and
// again under other names.
func TestResultsOfExpressionsAreBounded(t *testing.T) {
	e := newEvaluator()
	for i := range maxExpressions + 10 {
		e.expression(fmt.Sprint("e", i))
	}
	require.Len(t, e.exprs, maxExpressions)
	require.NotContains(t, e.exprs, "e9")
	for i := range 200 {
		e.expression(fmt.Sprint(strings.Repeat("x", 1500), i))
		require.LessOrEqual(t, e.size, maxKept)
	}
	require.NotEmpty(t, e.exprs)
	for v := range int64(3000) {
		e.listOf(modern.NewTopics(v, map[string]modern.Topic{fmt.Sprint("t", v): {}}))
	}
	require.LessOrEqual(t, len(e.ids), 1010)
}
