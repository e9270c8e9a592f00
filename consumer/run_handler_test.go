package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
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

// A record that is tried again holds its own key only, and no worker.
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

func TestBatchHandlersGetWhatWaitsOfAPartitionInOrder(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 25)
		fill(t, b, 1, 7)
		c := open(t, b, config(consumer.CommitProcessed))
		var mu sync.Mutex
		next := map[int32]int64{}
		sizes := map[int32][]int{}
		n := 0
		err := c.RunBatches(hour(t), func(_ context.Context, rs []record.Record) error {
			mu.Lock()
			defer mu.Unlock()
			for _, r := range rs {
				require.Equal(t, rs[0].Partition, r.Partition)
				require.Equal(t, next[r.Partition], r.Offset)
				next[r.Partition]++
			}
			sizes[rs[0].Partition] = append(sizes[rs[0].Partition], len(rs))
			if n += len(rs); n == 32 {
				c.Wakeup()
			}
			return nil
		}, consumer.RunConfig{BatchSize: 10})
		require.NoError(t, err)
		require.Equal(t, map[int32][]int{0: {10, 10, 5}, 1: {7}}, sizes)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 25, tp(1): 7}, committed(t, b, "g"))
	})
}

func TestABatchErrorSaysHowManyRecordsAreDone(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		c := open(t, b, config(consumer.CommitProcessed))
		var batches [][]int64
		var dead []int64
		err := c.RunBatches(hour(t), func(_ context.Context, rs []record.Record) error {
			var offsets []int64
			for _, r := range rs {
				offsets = append(offsets, r.Offset)
			}
			batches = append(batches, offsets)
			if i := slices.Index(offsets, 4); i >= 0 {
				return fmt.Errorf("insert: %w", &consumer.BatchError{Done: i, Err: errors.New("row 4 is bad")})
			}
			if offsets[len(offsets)-1] == 9 {
				c.Wakeup()
			}
			return nil
		}, consumer.RunConfig{Retries: 1, DeadLetter: func(_ context.Context, r record.Record, err error) error {
			require.ErrorContains(t, err, "row 4 is bad")
			dead = append(dead, r.Offset)
			return nil
		}})
		require.NoError(t, err)
		require.Equal(t, [][]int64{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {4, 5, 6, 7, 8, 9}, {5, 6, 7, 8, 9}}, batches)
		require.Equal(t, []int64{4}, dead)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 10}, committed(t, b, "g"))
	})
}

// What a partial batch has done is committed although the rest is not.
func TestThePrefixOfAPartialBatchIsCommitted(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		c := open(t, b, config(consumer.CommitProcessed))
		err := c.RunBatches(hour(t), func(_ context.Context, rs []record.Record) error {
			return &consumer.BatchError{Done: 6, Err: errors.New("disk full")}
		}, consumer.RunConfig{})
		require.ErrorContains(t, err, "t-0 at offset 6")
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 6}, committed(t, b, "g"))
	})
}

// A plain error blames nobody: the records are tried one by one, and only the bad one fails for
// good.
func TestABatchThatFailsAsAWholeIsTriedRecordByRecord(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 6)
		c := open(t, b, config(consumer.CommitProcessed))
		var sizes []int
		var done, dead []int64
		err := c.RunBatches(hour(t), func(ctx context.Context, rs []record.Record) error {
			sizes = append(sizes, len(rs))
			for _, r := range rs {
				if r.Offset == 3 {
					return errors.New("some row is bad")
				}
			}
			for _, r := range rs {
				done = append(done, r.Offset)
			}
			if len(done) == 5 {
				c.Wakeup()
			}
			return nil
		}, consumer.RunConfig{Retries: 1, DeadLetter: func(_ context.Context, r record.Record, _ error) error {
			dead = append(dead, r.Offset)
			return nil
		}})
		require.NoError(t, err)
		require.Equal(t, []int{6, 1, 1, 1, 1, 1, 1}, sizes)
		require.Equal(t, []int64{0, 1, 2, 4, 5}, done)
		require.Equal(t, []int64{3}, dead)
	})
}

// retrying runs handlers over "t" and two retry topics.
func retrying(p *producer.Producer, more consumer.RunConfig) consumer.RunConfig {
	more.RetryTopics = &consumer.RetryTopics{Producer: p, Stages: []consumer.RetryStage{{"t-10s", 10 * time.Second}, {"t-5m", 5 * time.Minute}}}
	return more
}

func retryTopics(t *testing.T, b *strata.Cluster) *producer.Producer {
	t.Helper()
	p := deadTopic(t, b)
	require.NoError(t, b.CreateTopic(t.Context(), "t-10s", topic.Config{Partitions: 2}))
	require.NoError(t, b.CreateTopic(t.Context(), "t-5m", topic.Config{Partitions: 1}))
	return p
}

// One record of a key fails. Those behind it go on at once, also those of its key; it comes again
// when it is due, and in the end goes to the dead letter topic with its history.
func TestARecordWaitsInRetryTopicsWhileThoseBehindItGoOn(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		p := retryTopics(t, b)
		sent := time.Now().Add(-24 * time.Hour)
		r := record.Record{Topic: "t", Key: []byte("k"), Value: []byte("bad"), Timestamp: sent, Headers: []record.Header{{Key: "own", Value: []byte("1")}}}
		_, err := p.Send(t.Context(), r, record.String("t", "k", "good"))
		require.NoError(t, err)
		cfg := config(consumer.CommitProcessed)
		cfg.Topics = []string{"t", "t-10s", "t-5m"}
		c := open(t, b, cfg)
		start := time.Now()
		var calls []string
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		err = c.Run(ctx, func(ctx context.Context, r record.Record) error {
			calls = append(calls, fmt.Sprintf("%s %s #%d %s", r.Value, r.Topic, consumer.Attempt(ctx), time.Since(start).Truncate(time.Second)))
			require.Equal(t, "k", string(r.Key))
			if string(r.Value) == "bad" {
				require.Equal(t, "1", header(t, r, "own"))
				require.Equal(t, sent.UnixMilli(), r.Timestamp.UnixMilli())
				from, offset, _ := consumer.Origin(r)
				require.Equal(t, tp(0), from)
				require.Zero(t, offset)
				return errors.New("no luck")
			}
			return nil
		}, retrying(p, consumer.RunConfig{Retries: 1, MinBackoff: time.Second, MaxBackoff: time.Second, DeadLetter: consumer.DeadLetterTopic(p, "dead")}))
		require.NoError(t, err)
		require.Len(t, calls, 7)
		require.Equal(t, "bad t #1 0s", calls[0])
		require.Regexp(t, `^bad t #2 [01]s$`, calls[1])
		require.Regexp(t, `^good t #1 [01]s$`, calls[2])
		require.Regexp(t, `^bad t-10s #3 1[01]s$`, calls[3])
		require.Regexp(t, `^bad t-5m #5 5m1[0-3]s$`, calls[5])
		require.NoError(t, c.Close())
		require.Equal(t, int64(2), committed(t, b, "g")[tp(0)])

		d := read(t, open(t, b, consumer.Config{Topics: []string{"dead"}}), 1)[0]
		from, offset, ok := consumer.Origin(d)
		require.True(t, ok)
		require.Equal(t, tp(0), from)
		require.Zero(t, offset)
		require.Equal(t, "6", header(t, d, consumer.HeaderAttempts))
		require.Equal(t, "1", header(t, d, "own"))
		for _, h := range d.Headers {
			require.False(t, strings.HasPrefix(h.Key, "retry."), h.Key)
		}
	})
}

// Neither the due time nor the number of attempts is lost with the process.
func TestARecordInARetryTopicSurvivesARestart(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		p := retryTopics(t, b)
		keyed(t, b, "bad")
		cfg := config(consumer.CommitProcessed)
		cfg.Topics = []string{"t", "t-10s", "t-5m"}
		start := time.Now()
		var tries atomic.Int32
		var at []string
		for range 40 { // each lives for 2 s
			c := open(t, b, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			require.NoError(t, c.Run(ctx, func(ctx context.Context, r record.Record) error {
				tries.Add(1)
				at = append(at, strconv.Itoa(consumer.Attempt(ctx))+r.Topic)
				if tries.Load() == 2 {
					require.GreaterOrEqual(t, time.Since(start), 10*time.Second)
					require.Less(t, time.Since(start), 20*time.Second)
					return nil
				}
				return errors.New("no luck")
			}, retrying(p, consumer.RunConfig{})))
			cancel()
			require.NoError(t, c.Close())
		}
		require.Equal(t, []string{"1t", "2t-10s"}, at)
		o := committed(t, b, "g")
		require.Equal(t, int64(1), o[record.TopicPartition{Topic: "t-10s", Partition: 0}]+o[record.TopicPartition{Topic: "t-10s", Partition: 1}])
	})
}

// A long delay in front of a short one: each is handed out when due, and the prefix is committed
// only when the first is done.
func TestRecordsOfOneRetryTopicAreHandedOutWhenDueNotInOrder(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		p := deadTopic(t, b)
		require.NoError(t, b.CreateTopic(t.Context(), "later", topic.Config{Partitions: 1}))
		due := func(v string, d time.Duration) record.Record {
			r := record.String("later", "", v)
			r.Headers = []record.Header{{Key: consumer.HeaderRetryDue, Value: strconv.AppendInt(nil, time.Now().Add(d).UnixMilli(), 10)}}
			return r
		}
		garbage := record.String("later", "", "garbage")
		garbage.Headers = []record.Header{{Key: consumer.HeaderRetryDue, Value: []byte("soon")}, {Key: consumer.HeaderRetryAttempts, Value: []byte("-7")}}
		_, err := p.Send(t.Context(), due("far", 1000*time.Hour), due("hour", time.Hour), due("minute", time.Minute), garbage, due("past", -time.Hour))
		require.NoError(t, err)
		cfg := config(consumer.CommitProcessed)
		cfg.Topics = []string{"later"}
		c := open(t, b, cfg)
		var mu sync.Mutex
		got := map[string]time.Duration{}
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		ended := background(func() error {
			return c.Run(ctx, func(ctx context.Context, r record.Record) error {
				mu.Lock()
				defer mu.Unlock()
				got[string(r.Value)] = time.Since(start).Round(time.Second)
				require.Equal(t, 1, consumer.Attempt(ctx))
				return nil
			}, consumer.RunConfig{Workers: 1, RetryTopics: &consumer.RetryTopics{Producer: p, Stages: []consumer.RetryStage{{"later", 2 * time.Hour}}}})
		})
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		require.Equal(t, map[string]time.Duration{"garbage": 0, "past": 0, "minute": time.Minute, "hour": time.Hour}, got)
		require.Empty(t, committed(t, b, "g"))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 2*time.Hour, got["far"], "no longer than the longest delay")
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, c.Close())
		require.Equal(t, int64(5), committed(t, b, "g")[record.TopicPartition{Topic: "later"}])
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
