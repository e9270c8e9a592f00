package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func deadTopic(t *testing.T, b *strata.Cluster) *producer.Producer {
	t.Helper()
	require.NoError(t, b.CreateTopic(t.Context(), "dead", topic.Config{Partitions: 1}))
	p, err := producer.New(b, producer.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func header(t *testing.T, r record.Record, key string) string {
	t.Helper()
	v, ok := r.Header(key)
	require.True(t, ok, "header %s", key)
	return string(v)
}

func TestAPanicInAHandlerIsAnErrorOfItsRecordWithAStack(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		p := deadTopic(t, b)
		keyed(t, b, "a", "bad", "c")
		c := open(t, b, config(consumer.CommitProcessed))
		var failed error
		toTopic := consumer.DeadLetterTopic(p, "dead")
		err := c.Run(hour(t), func(_ context.Context, r record.Record) error {
			switch string(r.Key) {
			case "bad":
				panic(fmt.Errorf("cannot: %w", io.ErrUnexpectedEOF))
			case "c":
				c.Wakeup()
			}
			return nil
		}, consumer.RunConfig{Workers: 1, Retries: 1, MinBackoff: time.Second, DeadLetter: func(ctx context.Context, r record.Record, err error) error {
			failed = err
			return toTopic(ctx, r, err)
		}})
		require.NoError(t, err)
		var panicked *consumer.HandlerPanicError
		require.ErrorAs(t, failed, &panicked)
		require.ErrorIs(t, failed, io.ErrUnexpectedEOF)
		require.Contains(t, string(panicked.Stack), "run_handler_test.go")
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 3}, committed(t, b, "g"))
		d := read(t, open(t, b, consumer.Config{Topics: []string{"dead"}}), 1)[0]
		require.Contains(t, header(t, d, consumer.HeaderError), "cannot: unexpected EOF")
		require.Contains(t, header(t, d, consumer.HeaderStack), "run_handler_test.go")
		require.Equal(t, "2", header(t, d, consumer.HeaderAttempts))
	})
}

func TestAPanicWithoutADeadLetterEndsRunAndNotTheProcess(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		c := open(t, b, config(consumer.CommitProcessed))
		err := c.Run(hour(t), func(context.Context, record.Record) error { panic("no") }, consumer.RunConfig{})
		var panicked *consumer.HandlerPanicError
		require.ErrorAs(t, err, &panicked)
		require.Equal(t, "no", panicked.Value)
		var at *consumer.PartitionError
		require.ErrorAs(t, err, &at)
		require.Equal(t, int64(0), at.Offset)
	})
}

func TestAPanicInDeadLetterIsItsError(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		c := open(t, b, config(consumer.CommitProcessed))
		first := errors.New("no luck")
		err := c.Run(hour(t), func(context.Context, record.Record) error { return first },
			consumer.RunConfig{DeadLetter: func(context.Context, record.Record, error) error { panic("none") }})
		require.ErrorIs(t, err, first)
		var panicked *consumer.HandlerPanicError
		require.ErrorAs(t, err, &panicked)
		require.Equal(t, int64(0), read(t, c, 1)[0].Offset, "it is not done")
	})
}

func TestAHandlerThatEndsItsGoroutineDoesNotEndRun(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		c := open(t, b, config(consumer.CommitProcessed))
		var failed []int64
		err := c.Run(hour(t), func(_ context.Context, r record.Record) error {
			if r.Offset == 9 {
				c.Wakeup()
				return nil
			}
			runtime.Goexit()
			return nil
		}, consumer.RunConfig{Workers: 1, DeadLetter: func(_ context.Context, r record.Record, err error) error {
			require.ErrorIs(t, err, consumer.ErrHandlerExit)
			failed = append(failed, r.Offset)
			return nil
		}})
		require.NoError(t, err)
		require.Len(t, failed, 9)
	})
}

func TestAttemptIsInTheHandlersContextWithTheValuesOfRuns(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 2)
		c := open(t, b, config(consumer.CommitProcessed))
		type key struct{}
		var seen, dead []int
		err := c.Run(context.WithValue(hour(t), key{}, "value"), func(ctx context.Context, r record.Record) error {
			require.Equal(t, "value", ctx.Value(key{}))
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			seen = append(seen, consumer.Attempt(child))
			if r.Offset == 1 {
				c.Wakeup()
				return nil
			}
			return errors.New("no luck")
		}, consumer.RunConfig{Workers: 1, Retries: 2, DeadLetter: func(ctx context.Context, _ record.Record, _ error) error {
			dead = append(dead, consumer.Attempt(ctx))
			return nil
		}})
		require.NoError(t, err)
		require.Equal(t, []int{1, 2, 3, 1}, seen)
		require.Equal(t, []int{3}, dead)
		require.Zero(t, consumer.Attempt(t.Context()))
	})
}

func TestAttemptTimeoutEndsTheContextOfOneAttempt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		c := open(t, b, config(consumer.CommitProcessed))
		start := time.Now()
		err := c.Run(hour(t), func(ctx context.Context, _ record.Record) error {
			if consumer.Attempt(ctx) == 3 {
				c.Wakeup()
				return nil
			}
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), consumer.ErrAttemptTimeout)
			require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
			return ctx.Err()
		}, consumer.RunConfig{AttemptTimeout: 10 * time.Second, Retries: 2, MinBackoff: time.Second, MaxBackoff: time.Second})
		require.NoError(t, err)
		require.InDelta(t, 21.5, time.Since(start).Seconds(), 0.5)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 1}, committed(t, b, "g"))
	})
}

func TestAPermanentErrorIsNotTriedAgain(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		p := deadTopic(t, b)
		fill(t, b, 0, 2)
		c := open(t, b, config(consumer.CommitProcessed))
		never := errors.New("no such mailbox")
		calls := 0
		var failed error
		err := c.Run(hour(t), func(_ context.Context, r record.Record) error {
			if r.Offset == 1 {
				c.Wakeup()
				return nil
			}
			calls++
			return fmt.Errorf("mail: %w", consumer.Permanent(never))
		}, consumer.RunConfig{
			Workers: 1, Retries: 5, RetryTopics: &consumer.RetryTopics{Producer: p, Stages: []consumer.RetryStage{{Topic: "dead", Delay: time.Hour}}},
			DeadLetter: func(_ context.Context, _ record.Record, err error) error {
				failed = err
				return nil
			},
		})
		require.NoError(t, err)
		require.Equal(t, 1, calls)
		require.ErrorIs(t, failed, never)
		require.Nil(t, consumer.Permanent(nil))
	})
}

// A record that is tried again holds back only its own key, and no worker.
func TestBackoffHoldsOnlyItsOwnKeyAndNoWorker(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		keyed(t, b, "bad", "a", "b", "bad", "c", "a")
		c := open(t, b, config(consumer.CommitProcessed))
		var mu sync.Mutex
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		ended := background(func() error {
			return c.Run(ctx, func(ctx context.Context, r record.Record) error {
				if string(r.Key) == "bad" && consumer.Attempt(ctx) == 1 && r.Offset == 0 {
					return errors.New("no luck")
				}
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, fmt.Sprint(string(r.Key), r.Offset))
				return nil
			}, consumer.RunConfig{Workers: 1, Order: consumer.ByKey, Retries: 1, MinBackoff: time.Minute, MaxBackoff: time.Minute})
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.ElementsMatch(t, []string{"a1", "b2", "c4", "a5"}, seen)
		require.Empty(t, committed(t, b, "g"), "the first is not done")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"bad0", "bad3"}, seen[4:])
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 6}, committed(t, b, "g"))
	})
}

func TestRunConfigRefusesWhatCannotBe(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		p := deadTopic(t, b)
		c := open(t, b, config(consumer.CommitProcessed))
		for _, cfg := range []consumer.RunConfig{
			{Workers: -1}, {AttemptTimeout: -1}, {BatchSize: -1}, {Order: 7},
			{RetryTopics: &consumer.RetryTopics{}},
			{RetryTopics: &consumer.RetryTopics{Producer: p}},
			{RetryTopics: &consumer.RetryTopics{Producer: p, Stages: []consumer.RetryStage{{"", time.Second}}}},
			{RetryTopics: &consumer.RetryTopics{Producer: p, Stages: []consumer.RetryStage{{"t", 0}}}},
			{RetryTopics: &consumer.RetryTopics{Stages: []consumer.RetryStage{{"t", time.Second}}}},
		} {
			err := c.RunBatches(t.Context(), nil, cfg)
			var bad *consumer.ConfigError
			require.ErrorAs(t, err, &bad, "%+v", cfg)
		}
	})
}
