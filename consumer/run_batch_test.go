package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

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

// The processed prefix of a partial batch is committed although the rest is not.
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

// A plain error, a panic or a permanent error of a batch names no record. The records are tried
// one by one, and only the bad one fails for good, after its own attempts.
func TestABatchThatFailsAsAWholeIsTriedRecordByRecord(t *testing.T) {
	fails := map[string]func() error{
		"error":     func() error { return errors.New("some row is bad") },
		"panic":     func() error { panic("some row is bad") },
		"permanent": func() error { return consumer.Permanent(errors.New("some row is bad")) },
		"goexit":    func() error { runtime.Goexit(); return nil },
	}
	for name, fail := range fails {
		for retries := range 3 {
			t.Run(fmt.Sprint(name, "/", retries), func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					fill(t, b, 0, 6)
					c := open(t, b, config(consumer.CommitProcessed))
					var sizes []int
					var done, dead []int64
					calls := 0
					err := c.RunBatches(hour(t), func(ctx context.Context, rs []record.Record) error {
						sizes = append(sizes, len(rs))
						for _, r := range rs {
							if r.Offset == 3 {
								return fail()
							}
						}
						for _, r := range rs {
							done = append(done, r.Offset)
						}
						if len(done) == 5 {
							c.Wakeup()
						}
						return nil
					}, consumer.RunConfig{Workers: 1, Retries: retries, DeadLetter: func(ctx context.Context, r record.Record, _ error) error {
						dead, calls = append(dead, r.Offset), consumer.Attempt(ctx)
						return nil
					}})
					alone := 1 + retries
					if name == "permanent" {
						alone = 1
					}
					require.NoError(t, err)
					require.Equal(t, append([]int{6}, slices.Repeat([]int{1}, 5+alone)...), sizes)
					require.Equal(t, []int64{0, 1, 2, 4, 5}, done)
					require.Equal(t, []int64{3}, dead)
					require.Equal(t, 1+alone, calls, "the call with the others is one, too")
					require.NoError(t, c.Close())
					require.Equal(t, record.Offsets{tp(0): 6}, committed(t, b, "g"))
				})
			})
		}
	}
}

// Without retries and dead letters Run ends at the bad record, not at the first one of its batch.
func TestABatchThatFailsAsAWholeEndsRunAtTheBadRecord(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 6)
		c := open(t, b, config(consumer.CommitProcessed))
		err := c.RunBatches(hour(t), func(ctx context.Context, rs []record.Record) error {
			if rs[len(rs)-1].Offset >= 3 {
				return errors.New("some row is bad")
			}
			return nil
		}, consumer.RunConfig{})
		require.ErrorContains(t, err, "t-0 at offset 3")
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 3}, committed(t, b, "g"))
	})
}

// Only records that failed alone go to a retry topic.
func TestABatchThatFailsAsAWholeSendsOnlyTheBadRecordToARetryTopic(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		require.NoError(t, b.CreateTopic(t.Context(), "later", topic.Config{Partitions: 1}))
		fill(t, b, 0, 6)
		pr, err := producer.New(b, producer.Config{})
		require.NoError(t, err)
		cfg := config(consumer.CommitProcessed)
		cfg.Topics = []string{"t", "later"}
		c := open(t, b, cfg)
		var late []string
		err = c.RunBatches(hour(t), func(ctx context.Context, rs []record.Record) error {
			for _, r := range rs {
				if r.Topic == "later" {
					late = append(late, string(r.Value))
				}
			}
			switch bad := slices.ContainsFunc(rs, func(r record.Record) bool { return string(r.Value) == "3" }); {
			case len(late) > 0:
				require.Equal(t, 3, consumer.Attempt(ctx), "with the others, alone, and now")
				c.Wakeup()
			case bad:
				return errors.New("some row is bad")
			}
			return nil
		}, consumer.RunConfig{Workers: 1, RetryTopics: &consumer.RetryTopics{
			Producer: pr, Stages: []consumer.RetryStage{{Topic: "later", Delay: time.Minute}},
		}})
		require.NoError(t, err)
		require.Equal(t, []string{"3"}, late)
		require.NoError(t, c.Close())
		require.NoError(t, pr.Close())
	})
}
