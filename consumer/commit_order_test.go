package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

func TestCommitsArriveInTheOrderOfTheirCallsAlsoBehindCommitAsync(t *testing.T) {
	bubble(t, 1, func(t *testing.T, cl *strata.Cluster) {
		fill(t, cl, 0, 10)
		b := &slowCommits{Cluster: cl, delays: []time.Duration{time.Second}}
		c := open(t, b, consumer.Config{Group: "g", Topics: []string{"t"}, Commit: consumer.CommitManual})
		rs := read(t, c, 6)
		for i, commit := range []func() error{
			func() error { return c.Commit(t.Context(), rs[3]) },
			func() error { return c.CommitOffsets(t.Context(), record.Offsets{tp(0): 5}) },
			func() error { return c.CommitReturned(t.Context()) },
		} {
			b.mu.Lock()
			b.delays = []time.Duration{time.Second}
			b.mu.Unlock()
			c.CommitAsync(record.Offsets{tp(0): int64(i + 1)}, nil)
			synctest.Wait() // the commit is on its way
			require.NoError(t, commit())
			time.Sleep(2 * time.Second)
			require.GreaterOrEqual(t, committed(t, cl, "g")[tp(0)], int64(4), "call %d: the older offset came last", i)
		}
		b.delays = []time.Duration{time.Second}
		c.CommitAsync(record.Offsets{tp(0): 6}, nil)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		require.ErrorIs(t, c.Commit(ctx, rs[5]), context.DeadlineExceeded)
		require.Equal(t, 100*time.Millisecond, time.Since(begun), "the wait for the queue ends with its context")
		require.NoError(t, c.Close())
	})
}

// A member joins again while a commit of the application is under way. The group rejects the
// commit because of its generation, and the consumer sends it again.
func TestCommitBeforeAJoinDoesNotOvertakeOlderOffsets(t *testing.T) {
	bubble(t, 1, func(t *testing.T, cl *strata.Cluster) {
		fill(t, cl, 0, 10)
		b := &heldCommits{Cluster: cl}
		cfg := config(consumer.CommitProcessed)
		cfg.CommitInterval = time.Hour
		m := poll(t, open(t, b, cfg), func(record.Record) {})
		time.Sleep(time.Second)
		m.CommitAsync(record.Offsets{tp(0): 1}, nil)
		synctest.Wait() // the commit is under way
		m.EnforceRebalance()
		time.Sleep(time.Minute)
		m.leave(t)
		last := int64(0)
		for _, o := range b.commits() {
			require.GreaterOrEqual(t, o[tp(0)], last, "%v", b.commits())
			last = o[tp(0)]
		}
		require.Equal(t, record.Offsets{tp(0): 10}, committed(t, cl, "g"))
	})
}

func TestCommitInACallbackOfCommitAsyncDoesNotWaitForTheQueueBehindIt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, cl *strata.Cluster) {
		fill(t, cl, 0, 10)
		// so that the second commit waits
		b := &slowCommits{Cluster: cl, delays: []time.Duration{time.Second}}
		c := open(t, b, consumer.Config{Group: "g", Topics: []string{"t"}, Commit: consumer.CommitManual})
		rs := read(t, c, 4)
		got := make(chan error, 2)
		c.CommitAsync(record.Offsets{tp(0): 1}, func(record.Offsets, error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			got <- c.Commit(ctx, rs[1])
		})
		c.CommitAsync(record.Offsets{tp(0): 3}, func(_ record.Offsets, err error) { got <- err })
		require.NoError(t, <-got)
		require.NoError(t, <-got)
		require.Equal(t, int64(3), committed(t, cl, "g")[tp(0)])
		require.NoError(t, c.Close())
	})
}

func TestCommitsBeyondTheQueueAreRefusedAndTheOthersSent(t *testing.T) {
	bubble(t, 2, func(t *testing.T, cl *strata.Cluster) {
		b := &heldCommits{}
		c, _ := gathering(t, cl, b)
		refused, sent := 0, 0
		for range 10_003 {
			c.CommitAsync(record.Offsets{tp(0): 2}, func(_ record.Offsets, err error) {
				switch {
				case errors.Is(err, consumer.ErrCommitQueueFull):
					refused++
				case err == nil:
					sent++
				}
			})
		}
		require.Equal(t, 3, refused)
		require.NoError(t, c.Close())
		require.Equal(t, 10_000, sent)
		require.Len(t, b.commits(), 2)
	})
}

func TestEveryCallOnAClosedConsumerReturnsErrClosed(t *testing.T) {
	bubble(t, 1, func(t *testing.T, cl *strata.Cluster) {
		fill(t, cl, 0, 5)
		for _, cfg := range []consumer.Config{{Group: "g", Topics: []string{"t"}}, {Group: "s", InstanceID: "i", Topics: []string{"t"}}, {Topics: []string{"t"}}} {
			c := open(t, cl, cfg)
			rs := read(t, c, 2)
			require.NoError(t, c.Close())
			calls := map[string]func(ctx context.Context) error{
				"Poll": func(ctx context.Context) error { _, err := c.Poll(ctx); return err },
				"Run": func(ctx context.Context) error {
					return c.Run(ctx, func(context.Context, record.Record) error { return nil }, consumer.RunConfig{})
				},
				"Seek":            func(context.Context) error { return c.Seek(tp(0), 0) },
				"Seek of another": func(context.Context) error { return c.Seek(tp(9), 0) },
				"SeekToStart":     func(context.Context) error { return c.SeekToStart() },
				"SeekToEnd":       func(context.Context) error { return c.SeekToEnd(tp(0)) },
				"SeekTime":        func(ctx context.Context) error { return c.SeekTime(ctx, time.Now()) },
				"Subscribe":       func(ctx context.Context) error { return c.Subscribe(ctx, "t") },
			}
			if cfg.Group != "" {
				calls["Committed"] = func(ctx context.Context) error { _, err := c.Committed(ctx); return err }
				calls["Commit"] = func(ctx context.Context) error { return c.Commit(ctx, rs...) }
				calls["Commit of nothing"] = func(ctx context.Context) error { return c.Commit(ctx) }
				calls["CommitReturned"] = c.CommitReturned
				calls["CommitOffsets"] = func(ctx context.Context) error { return c.CommitOffsets(ctx, nil) }
				calls["CommitMetadata"] = func(ctx context.Context) error { return c.CommitMetadata(ctx, nil) }
			}
			for name, call := range calls {
				require.ErrorIs(t, call(t.Context()), consumer.ErrClosed, "%s, group %q", name, cfg.Group)
			}
			require.Empty(t, c.Assignment())
			require.Empty(t, c.Lag())
			require.Equal(t, int64(-1), c.Position(tp(0)))
		}
	})
}
