package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// background runs fn and returns a channel with its result.
func background(fn func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- fn() }()
	return ended
}

// hour bounds a Run that a test's handler ends: what breaks shows as a failure, not as a test that
// never ends.
func hour(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// A handler is at work on the old position when the partition is sought. It heeds its context, and
// nothing else ends it.
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

// Go cannot end a goroutine from outside: Run returns without it and says so.
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

// One partition's record is in back-off, the other's partition is asked for by a new member: nobody
// waits for the back-off.
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

// Close comes while handlers work. They finish, what they did is committed, and only then the
// partitions go: no record has two bodies.
func TestCloseDuringRunLetsHandlersFinishAndCommitsThemBeforeItLeaves(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		fill(t, b, 1, 1)
		var mu sync.Mutex
		working, seen := 0, map[int32]int{}
		cfg := config(consumer.CommitProcessed)
		cfg.OnRevoked = func(context.Context, []record.TopicPartition) {
			mu.Lock()
			defer mu.Unlock()
			if working > 0 {
				t.Errorf("OnRevoked beside %d running handlers", working)
			}
		}
		c := open(t, b, cfg)
		ended := background(func() error {
			return c.Run(hour(t), func(_ context.Context, r record.Record) error {
				mu.Lock()
				working++
				seen[r.Partition]++
				mu.Unlock()
				time.Sleep(20 * time.Second)
				mu.Lock()
				working--
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

// The member stays in its group while its handlers finish, also longer than a session.
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

// Cancelling Run during the hand-over of a rebalance takes no time from the handlers, and what they
// do is committed.
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

// What a Seek makes obsolete is neither committed nor dead-lettered nor an error of Run; the new
// position is read once, in order.
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

// A handler that hangs is given up after MaxPollInterval: its partition goes to another member, its
// own commit is refused, and the member comes back when the handler has returned.
func TestAHandlerThatHangsLosesItsPartitionAfterMaxPollInterval(t *testing.T) {
	for name, joins := range map[string]time.Duration{"other member comes before": 50 * time.Second, "after": 70 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *strata.Cluster) { hangAndLose(t, b, joins) })
		})
	}
}

func hangAndLose(t *testing.T, b *strata.Cluster, joins time.Duration) {
	fill(t, b, 0, 3)
	fill(t, b, 1, 3)
	cfg := config(consumer.CommitProcessed)
	cfg.MaxPollInterval, cfg.RebalanceTimeout = time.Minute, 10*time.Second
	c := open(t, b, cfg)
	release := make(chan struct{})
	late, cause := make(chan error, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var hung atomic.Bool
	ended := background(func() error {
		return c.Run(ctx, func(ctx context.Context, r record.Record) error {
			if r.Partition == 0 && r.Offset == 1 && hung.CompareAndSwap(false, true) {
				<-release
				cause <- context.Cause(ctx)
				late <- c.Commit(context.WithoutCancel(ctx), r)
			}
			return nil
		}, consumer.RunConfig{Workers: 4})
	})
	time.Sleep(joins)
	if joins < cfg.MaxPollInterval {
		require.Len(t, c.Assignment(), 2, "not before MaxPollInterval")
	} else {
		require.Empty(t, c.Assignment())
	}
	var mu sync.Mutex
	got := map[string]int{}
	other := poll(t, open(t, b, config(consumer.CommitProcessed)), func(r record.Record) {
		mu.Lock()
		defer mu.Unlock()
		got[fmt.Sprint(r.Partition, "/", r.Offset)]++
	})
	time.Sleep(time.Minute)
	synctest.Wait()
	require.Len(t, other.Assignment(), 2)
	require.Equal(t, map[string]int{"0/1": 1, "0/2": 1}, got)
	close(release)
	err := <-cause
	require.ErrorIs(t, err, consumer.ErrRebalanced)
	if joins > cfg.MaxPollInterval {
		require.ErrorIs(t, err, consumer.ErrPollTimeout)
	}
	require.ErrorIs(t, <-late, consumer.ErrRebalanced)
	time.Sleep(time.Minute)
	synctest.Wait()
	require.Len(t, c.Assignment(), 1, "it is back")
	require.Equal(t, record.Offsets{tp(0): 3, tp(1): 3}, committed(t, b, "g"))
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, c.Close())
	other.leave(t)
}

// The limit is per call of the handler: a partition that is worked on for long in small steps
// stays.
func TestMaxPollIntervalIsPerCallOfTheHandler(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 5)
		cfg := config(consumer.CommitProcessed)
		cfg.MaxPollInterval = time.Minute
		c := open(t, b, cfg)
		n := 0
		err := c.Run(hour(t), func(context.Context, record.Record) error {
			time.Sleep(50 * time.Second)
			if n++; n == 5 {
				c.Wakeup()
			}
			return nil
		}, consumer.RunConfig{Workers: 1, MaxInFlight: 1})
		require.NoError(t, err)
		require.Equal(t, 5, n)
		require.Equal(t, int64(1), c.Stats().Rebalances)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 5}, committed(t, b, "g"))
	})
}

// The dead letter topic takes records of the size that the source takes, so with the headers they
// are too large for it.
func TestARecordNearTheSizeLimitIsDeadLetteredByReference(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		require.NoError(t, b.CreateTopic(t.Context(), "dead", topic.Config{Partitions: 1}))
		p, err := producer.New(b, producer.Config{MaxRequestBytes: 2 << 20})
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
		big := bytes.Repeat([]byte("x"), 1<<20-100)
		r := record.Record{Topic: "t", Key: []byte("k"), Value: big, Headers: []record.Header{{Key: "trace", Value: []byte("1")}}}
		_, err = p.Send(t.Context(), r.To(0), record.String("t", "k", "next").To(0))
		require.NoError(t, err)

		c := open(t, b, config(consumer.CommitProcessed))
		err = c.Run(hour(t), func(_ context.Context, r record.Record) error {
			if r.Offset == 1 {
				c.Wakeup()
				return nil
			}
			return errors.New("no luck")
		}, consumer.RunConfig{DeadLetter: consumer.DeadLetterTopic(p, "dead")})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 2}, committed(t, b, "g"))

		d := read(t, open(t, b, consumer.Config{Topics: []string{"dead"}}), 1)[0]
		require.Equal(t, "k", string(d.Key))
		require.Empty(t, d.Value)
		left, _ := d.Header(consumer.HeaderOmitted)
		require.Equal(t, "value", string(left))
		trace, _ := d.Header("trace")
		require.Equal(t, "1", string(trace))
		offset, _ := d.Header(consumer.HeaderOffset)
		require.Equal(t, "0", string(offset))
	})
}

// Shutdown's context cuts the wait for handlers short: theirs ends, and what they did in time is
// committed.
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
		_ = c.Shutdown(ctx) // its time is over before it can leave
		require.Equal(t, 5*time.Second, time.Since(start))
		require.NoError(t, <-ended)
		require.Equal(t, record.Offsets{tp(0): 1}, committed(t, b, "g"))
	})
}

// Close in a handler ends Run, and does not wait for that handler: the consumer is closed when Run
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

// What fails while Run ends, perhaps because the end made it fail, is neither dead-lettered nor
// sent to a retry topic, nor an error of Run: the next one does it. A dead-lettering under way is
// finished and counts.
func TestWhatFailsAtTheEndOfRunIsLeftToTheNextOne(t *testing.T) {
	bubble(t, 3, func(t *testing.T, b *strata.Cluster) {
		for p := range int32(3) {
			fill(t, b, p, 1)
		}
		c := open(t, b, config(consumer.CommitProcessed))
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var dead []int32
		ended := background(func() error {
			return c.Run(ctx, func(_ context.Context, r record.Record) error {
				switch r.Partition {
				case 0:
					<-ctx.Done() // a handler that looks at the context of Run
					return ctx.Err()
				case 1:
					<-ctx.Done()
					return consumer.Permanent(ctx.Err())
				default:
					return errors.New("no luck")
				}
			}, consumer.RunConfig{Workers: 3, DeadLetter: func(_ context.Context, r record.Record, _ error) error {
				time.Sleep(10 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				dead = append(dead, r.Partition)
				return nil
			}})
		})
		time.Sleep(5 * time.Second)
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, []int32{2}, dead)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(2): 1}, committed(t, b, "g"))
	})
}

func TestARunAfterARunGoesOnWithWhatWasNotDone(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 9)
		c := open(t, b, config(consumer.CommitProcessed))
		var seen []int64
		for range 3 {
			n := 0
			require.NoError(t, c.Run(hour(t), func(_ context.Context, r record.Record) error {
				seen = append(seen, r.Offset)
				if n++; n == 3 {
					c.Wakeup()
				}
				return nil
			}, consumer.RunConfig{Workers: 4}))
		}
		require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8}, seen)
	})
}

// A free consumer has no group to lose partitions to, and nothing to commit.
func TestRunOfAFreeConsumer(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		fill(t, b, 1, 3)
		c := open(t, b, consumer.Config{Topics: []string{"t"}, MaxPollInterval: time.Second})
		var n atomic.Int32
		err := c.Run(hour(t), func(context.Context, record.Record) error {
			time.Sleep(time.Minute)
			if n.Add(1) == 6 {
				c.Wakeup()
			}
			return nil
		}, consumer.RunConfig{Workers: 2})
		require.NoError(t, err)
		require.NoError(t, c.Close())
	})
}

// The topic forbids what even a reference needs: the outcome is the producer's error, not a loop.
func TestADeadLetterThatCannotBeSmallEnoughIsAnErrorOfRun(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		require.NoError(t, b.CreateTopic(t.Context(), "dead", topic.Config{Partitions: 1, Properties: map[string]string{"max.message.bytes": "100"}}))
		p, err := producer.New(b, producer.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
		fill(t, b, 0, 1)
		c := open(t, b, config(consumer.CommitProcessed))
		err = c.Run(hour(t), func(context.Context, record.Record) error { return errors.New("no luck") },
			consumer.RunConfig{DeadLetter: consumer.DeadLetterTopic(p, "dead")})
		require.ErrorIs(t, err, producer.ErrMessageTooLarge)
		require.ErrorContains(t, err, "no luck")
	})
}

// What is left out goes step by step: stack, value, own headers, key.
func TestADeadLetterLeavesOutNoMoreThanItMust(t *testing.T) {
	pad := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	for name, test := range map[string]struct {
		r       record.Record
		omitted string
		value   int
	}{
		"fits":            {record.Record{Key: pad(10), Value: pad(1000)}, "", 1000},
		"without value":   {record.Record{Key: pad(10), Value: pad(1900)}, "value", 0},
		"without headers": {record.Record{Key: pad(10), Value: pad(10), Headers: []record.Header{{Key: "own", Value: pad(1900)}}}, "value,headers", 0},
		"without key":     {record.Record{Key: pad(1900), Value: pad(10)}, "key,value,headers", 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				require.NoError(t, b.CreateTopic(t.Context(), "dead", topic.Config{Partitions: 1, Properties: map[string]string{"max.message.bytes": "2000"}}))
				p, err := producer.New(b, producer.Config{})
				require.NoError(t, err)
				t.Cleanup(func() { _ = p.Close() })
				test.r.Topic = "t"
				_, err = p.Send(t.Context(), test.r)
				require.NoError(t, err)
				c := open(t, b, config(consumer.CommitProcessed))
				toTopic := consumer.DeadLetterTopic(p, "dead")
				err = c.Run(hour(t), func(context.Context, record.Record) error {
					panic("with a stack that does not fit either")
				}, consumer.RunConfig{DeadLetter: func(ctx context.Context, r record.Record, err error) error {
					defer c.Wakeup()
					return toTopic(ctx, r, err)
				}})
				require.NoError(t, err)
				d := read(t, open(t, b, consumer.Config{Topics: []string{"dead"}}), 1)[0]
				omitted, _ := d.Header(consumer.HeaderOmitted)
				require.Equal(t, test.omitted, string(omitted))
				require.Len(t, d.Value, test.value)
				from, _, ok := consumer.Origin(d)
				require.True(t, ok)
				require.Equal(t, tp(0), from)
				require.Contains(t, header(t, d, consumer.HeaderError), "does not fit")
			})
		})
	}
}
