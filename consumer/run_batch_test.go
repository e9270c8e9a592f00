package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/record"
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
