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

// background runs fn on a goroutine and returns a channel with its result.
func background(fn func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- fn() }()
	return ended
}

// hour bounds a Run that a handler of the test ends, so that a defect fails the test instead of
// hanging it.
func hour(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// A handler processes a record at the old position when the partition is sought. Only its context
// ends it.
func TestRunReturnsWithinDrainTimeoutAfterASeek(t *testing.T) {
	for _, order := range []consumer.RunOrder{consumer.ByPartition, consumer.ByKey} {
		bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
			keyed(t, b, "a", "b", "c")
			c := open(t, b, config(consumer.CommitProcessed))
			ctx, cancel := context.WithCancel(t.Context())
			ended := background(func() error {
				return c.Run(ctx, func(ctx context.Context, r record.Record) error {
					<-ctx.Done()
					return ctx.Err()
				}, consumer.RunConfig{Workers: 3, Order: order, DrainTimeout: time.Second})
			})
			time.Sleep(time.Second)
			require.NoError(t, c.Seek(tp(0), 0))
			time.Sleep(time.Second)
			cancel()
			start := time.Now()
			require.NoError(t, <-ended)
			require.LessOrEqual(t, time.Since(start), time.Second)
		})
	}
}

// Go cannot end a goroutine from outside: Run returns without the handler and reports it.
func TestRunReturnsWithinDrainTimeoutOfAHandlerThatIgnoresItsContext(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		keyed(t, b, "a", "hung", "c")
		c := open(t, b, config(consumer.CommitProcessed))
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := background(func() error {
			return c.Run(ctx, func(_ context.Context, r record.Record) error {
				if string(r.Key) == "hung" {
					<-release
				}
				return nil
			}, consumer.RunConfig{Workers: 3, Order: consumer.ByKey, DrainTimeout: 2 * time.Second})
		})
		time.Sleep(time.Second)
		cancel()
		start := time.Now()
		err := <-ended
		require.LessOrEqual(t, time.Since(start), 2*time.Second)
		require.ErrorIs(t, err, consumer.ErrDrainTimeout)
		require.ErrorContains(t, err, "t-0 at offset 1")
		close(release)
		synctest.Wait()
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 1}, committed(t, b, "g"), "what ended behind Run's back is not processed")
	})
}

func TestRunDoesNotWaitAtItsEndForARecordThatIsToBeTriedAgain(t *testing.T) {
	for name, end := range map[string]func(*consumer.Consumer, context.CancelFunc){
		"cancel": func(_ *consumer.Consumer, cancel context.CancelFunc) { cancel() },
		"wakeup": func(c *consumer.Consumer, _ context.CancelFunc) { c.Wakeup() },
		"close":  func(c *consumer.Consumer, _ context.CancelFunc) { go func() { _ = c.Close() }() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				keyed(t, b, "a", "bad", "c")
				c := open(t, b, config(consumer.CommitProcessed))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := background(func() error {
					return c.Run(ctx, func(_ context.Context, r record.Record) error {
						if string(r.Key) == "bad" {
							return errors.New("no luck")
						}
						return nil
					}, consumer.RunConfig{Order: consumer.ByKey, Retries: 1, MinBackoff: time.Hour, DrainTimeout: 30 * time.Second})
				})
				time.Sleep(time.Second)
				start := time.Now()
				end(c, cancel)
				require.NoError(t, <-ended)
				require.Zero(t, time.Since(start), "back-off is no work")
				require.NoError(t, c.Close())
				require.Equal(t, record.Offsets{tp(0): 1}, committed(t, b, "g"))
			})
		})
	}
}

// A record of one partition is in back-off when a new member joins and gets the other partition.
// The rebalance does not wait for the back-off.
func TestARebalanceDoesNotWaitForARecordThatIsToBeTriedAgain(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		fill(t, b, 1, 1)
		c := open(t, b, config(consumer.CommitProcessed))
		ctx, cancel := context.WithCancel(t.Context())
		ended := background(func() error {
			return c.Run(ctx, func(context.Context, record.Record) error { return errors.New("no luck") },
				consumer.RunConfig{Retries: 1, MinBackoff: time.Hour, DrainTimeout: time.Minute})
		})
		time.Sleep(time.Second)
		start := time.Now()
		got := make(chan time.Time, 2)
		other := poll(t, open(t, b, config(consumer.CommitProcessed)), func(record.Record) { got <- time.Now() })
		require.Less(t, (<-got).Sub(start), 20*time.Second)
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, c.Close())
		other.leave(t)
	})
}

// Cancelling Run during the hand-over of a rebalance takes no time from the handlers. The records
// that they process are committed.
func TestCancelDuringARebalanceLetsHandlersFinish(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		fill(t, b, 1, 1)
		c := open(t, b, config(consumer.CommitProcessed))
		ctx, cancel := context.WithCancel(t.Context())
		ended := background(func() error {
			return c.Run(ctx, func(ctx context.Context, _ record.Record) error {
				select {
				case <-time.After(20 * time.Second):
					return nil
				case <-ctx.Done():
					t.Errorf("cancelled: %v", context.Cause(ctx))
					return ctx.Err()
				}
			}, consumer.RunConfig{Workers: 2})
		})
		time.Sleep(time.Second)
		other := poll(t, open(t, b, config(consumer.CommitProcessed)), func(r record.Record) { t.Errorf("partition %d is done twice", r.Partition) })
		time.Sleep(10 * time.Second) // the hand-over is under way
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 1, tp(1): 1}, committed(t, b, "g"))
		time.Sleep(time.Minute)
		other.leave(t)
	})
}

// Records that a Seek makes obsolete are neither committed nor dead-lettered, and cause no error
// of Run. The new position is read once, in order.
func TestSeekDuringRunMakesRecordsInHandObsolete(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		c := open(t, b, config(consumer.CommitProcessed))
		var seen []int64
		var dead []int64
		busy := false
		err := c.Run(hour(t), func(_ context.Context, r record.Record) error {
			require.False(t, busy, "two bodies of one partition at a time")
			busy = true
			defer func() { busy = false }()
			seen = append(seen, r.Offset)
			switch {
			case r.Offset == 2 && len(seen) == 3:
				require.NoError(t, c.Seek(tp(0), 7))
				time.Sleep(time.Second)
				return errors.New("of no interest any more")
			case r.Offset == 9:
				c.Wakeup()
			}
			return nil
		}, consumer.RunConfig{Workers: 4, DeadLetter: func(_ context.Context, r record.Record, _ error) error {
			dead = append(dead, r.Offset)
			return nil
		}})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Equal(t, []int64{0, 1, 2, 7, 8, 9}, seen)
		require.Empty(t, dead)
		require.Equal(t, record.Offsets{tp(0): 10}, committed(t, b, "g"))
	})
}

// A partition that is paused while its records wait for a worker gets none, also if it is next.
func TestPartitionThatIsPausedWhileItWaitsForAWorkerGetsNone(t *testing.T) {
	for _, order := range []consumer.RunOrder{consumer.ByPartition, consumer.ByKey} {
		bubble(t, 3, func(t *testing.T, b *strata.Cluster) {
			for p := range int32(3) {
				fill(t, b, p, 3)
			}
			c := open(t, b, config(consumer.CommitProcessed))
			calls, own := map[int32]int{}, int32(-1)
			ctx, cancel := context.WithCancel(t.Context())
			ended := background(func() error {
				return c.Run(ctx, func(_ context.Context, r record.Record) error {
					if own < 0 {
						own = r.Partition
						time.Sleep(time.Minute) // all records are fetched, and wait
						for p := range int32(3) {
							if p != own {
								c.Pause(tp(p))
							}
						}
					}
					calls[r.Partition]++
					return nil
				}, consumer.RunConfig{Workers: 1, Order: order})
			})
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			require.Equal(t, map[int32]int{own: 3}, calls, "order %v", order)
			c.Resume()
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, map[int32]int{0: 3, 1: 3, 2: 3}, calls, "order %v", order)
			cancel()
			require.NoError(t, <-ended)
		})
	}
}

// Paused partitions get no handler calls, also for records that were fetched before.
func TestPauseDuringRunHoldsWhatWaits(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		c := open(t, b, config(consumer.CommitProcessed))
		var seen []int64
		ctx, cancel := context.WithCancel(t.Context())
		ended := background(func() error {
			return c.Run(ctx, func(_ context.Context, r record.Record) error {
				seen = append(seen, r.Offset)
				if r.Offset == 2 {
					c.Pause(tp(0))
				}
				return nil
			}, consumer.RunConfig{Workers: 1})
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []int64{0, 1, 2}, seen)
		c.Resume(tp(0))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, seen)
		cancel()
		require.NoError(t, <-ended)
	})
}
