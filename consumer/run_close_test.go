package consumer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// Close is called while handlers run. They finish and their offsets are committed before the
// partitions are revoked: no record has two bodies.
func TestCloseDuringRunLetsHandlersFinishAndCommitsThemBeforeItLeaves(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		fill(t, b, 1, 1)
		var mu sync.Mutex
		working, seen := map[int32]bool{}, map[int32]int{}
		cfg := config(consumer.CommitProcessed)
		cfg.OnRevoked = func(_ context.Context, tps []record.TopicPartition) {
			mu.Lock()
			defer mu.Unlock()
			for _, tp := range tps {
				if working[tp.Partition] {
					t.Errorf("partition %d is revoked beside its handler", tp.Partition)
				}
			}
		}
		c := open(t, b, cfg)
		ended := background(func() error {
			return c.Run(hour(t), func(_ context.Context, r record.Record) error {
				mu.Lock()
				working[r.Partition] = true
				seen[r.Partition]++
				mu.Unlock()
				time.Sleep(20 * time.Second)
				mu.Lock()
				working[r.Partition] = false
				mu.Unlock()
				return nil
			}, consumer.RunConfig{Workers: 2})
		})
		time.Sleep(time.Second)
		other := poll(t, open(t, b, config(consumer.CommitProcessed)), func(r record.Record) {
			t.Errorf("partition %d is done twice", r.Partition)
		})
		time.Sleep(time.Second)
		start := time.Now()
		require.NoError(t, c.Close())
		require.NoError(t, <-ended)
		require.Less(t, time.Since(start), 20*time.Second, "it does not wait longer than the handlers")
		require.Equal(t, record.Offsets{tp(0): 1, tp(1): 1}, committed(t, b, "g"))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, map[int32]int{0: 1, 1: 1}, seen)
		other.leave(t)
	})
}

// The member stays in its group while its handlers finish, also for longer than a session.
func TestCloseDuringRunKeepsTheMembershipAliveForDrainTimeout(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		cfg := config(consumer.CommitProcessed)
		cfg.SessionTimeout = 6 * time.Second
		c := open(t, b, cfg)
		ended := background(func() error {
			return c.Run(hour(t), func(context.Context, record.Record) error {
				time.Sleep(time.Minute)
				return nil
			}, consumer.RunConfig{DrainTimeout: 2 * time.Minute})
		})
		time.Sleep(time.Second)
		other := poll(t, open(t, b, config(consumer.CommitProcessed)), func(r record.Record) { t.Errorf("offset %d is done twice", r.Offset) })
		require.NoError(t, c.Close())
		require.NoError(t, <-ended)
		require.Equal(t, record.Offsets{tp(0): 1}, committed(t, b, "g"))
		time.Sleep(time.Minute)
		other.leave(t)
	})
}

func TestCloseDuringRunIsBoundedByDrainTimeout(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 2)
		c := open(t, b, config(consumer.CommitProcessed))
		release := make(chan struct{})
		ended := background(func() error {
			return c.Run(hour(t), func(_ context.Context, r record.Record) error {
				if r.Offset == 1 {
					<-release
				}
				return nil
			}, consumer.RunConfig{DrainTimeout: 5 * time.Second})
		})
		time.Sleep(time.Second)
		start := time.Now()
		require.NoError(t, c.Close())
		require.LessOrEqual(t, time.Since(start), 6*time.Second)
		require.ErrorIs(t, <-ended, consumer.ErrDrainTimeout)
		require.Equal(t, record.Offsets{tp(0): 1}, committed(t, b, "g"))
		close(release)
	})
}

// Shutdown's context limits the wait for handlers. Their contexts end with it, and records
// processed in time are committed.
func TestShutdownDuringRunIsBoundedByItsContext(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 2)
		c := open(t, b, config(consumer.CommitProcessed))
		ended := background(func() error {
			return c.Run(hour(t), func(ctx context.Context, r record.Record) error {
				if r.Offset == 0 {
					return nil
				}
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), consumer.ErrDrainTimeout)
				return ctx.Err()
			}, consumer.RunConfig{DrainTimeout: time.Hour})
		})
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_ = c.Shutdown(ctx) // its context ends before c can leave
		require.Equal(t, 5*time.Second, time.Since(start))
		require.NoError(t, <-ended)
		require.Equal(t, record.Offsets{tp(0): 1}, committed(t, b, "g"))
	})
}

// Close in a handler ends Run and does not wait for that handler: the consumer is closed when Run
// has ended.
func TestCloseInAHandlerDoesNotWaitForIt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 2)
		c := open(t, b, config(consumer.CommitProcessed))
		err := c.Run(hour(t), func(_ context.Context, r record.Record) error {
			if r.Offset == 1 {
				start := time.Now()
				require.NoError(t, c.Close())
				require.Equal(t, start, time.Now())
			}
			return nil
		}, consumer.RunConfig{})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 2}, committed(t, b, "g"))
		_, err = b.WaitGroup(t.Context(), "g", func(g group.Info) bool { return len(g.Members) == 0 })
		require.NoError(t, err)
	})
}
