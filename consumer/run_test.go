package consumer_test

import (
	"context"
	"errors"
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

func keyed(t *testing.T, b *strata.Cluster, keys ...string) {
	t.Helper()
	p, err := producer.New(b, producer.Config{})
	require.NoError(t, err)
	for _, k := range keys {
		_, err := p.Send(t.Context(), record.String("t", k, k).To(0))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
}

func TestRunCommitsOnlyTheContiguousPrefixOfWhatIsDone(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		keyed(t, b, "a", "slow", "c", "d")
		c := open(t, b, config(consumer.CommitProcessed))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(5 * time.Second)
			cancel()
		}()
		err := c.Run(ctx, func(ctx context.Context, r record.Record) error {
			if string(r.Key) != "slow" {
				return nil
			}
			<-ctx.Done() // for longer than any timeout
			return ctx.Err()
		}, consumer.RunConfig{Workers: 8, Order: consumer.ByKey, DrainTimeout: time.Second})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 1}, committed(t, b, "g"), "the second was not done")
		c = open(t, b, config(consumer.CommitManual))
		require.Equal(t, int64(1), read(t, c, 1)[0].Offset)
	})
}

func TestRunRetriesAndThenSendsToTheDeadLetterTopic(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		require.NoError(t, b.CreateTopic(t.Context(), "dead", topic.Config{Partitions: 1}))
		keyed(t, b, "good", "bad", "good2")
		p, err := producer.New(b, producer.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
		c := open(t, b, config(consumer.CommitProcessed))
		var mu sync.Mutex
		tries, start := 0, time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = c.Run(ctx, func(_ context.Context, r record.Record) error {
			mu.Lock()
			defer mu.Unlock()
			if string(r.Key) == "bad" {
				tries++
				return errors.New("no luck")
			}
			return nil
		}, consumer.RunConfig{Retries: 3, MinBackoff: time.Second, DeadLetter: consumer.DeadLetterTopic(p, "dead")})
		require.NoError(t, err)
		require.Equal(t, 4, tries)
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 3}, committed(t, b, "g"))

		d := open(t, b, consumer.Config{Topics: []string{"dead"}})
		r := read(t, d, 1)[0]
		require.Equal(t, "bad", string(r.Value))
		offset, _ := r.Header(consumer.HeaderOffset)
		require.Equal(t, "1", string(offset))
		cause, _ := r.Header(consumer.HeaderError)
		require.Contains(t, string(cause), "no luck")
	})
}

func TestRunEndsWithTheHandlersErrorAndGivesTheRecordBack(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		keyed(t, b, "a", "b")
		c := open(t, b, config(consumer.CommitProcessed))
		broken := errors.New("broken")
		err := c.Run(t.Context(), func(_ context.Context, r record.Record) error {
			if string(r.Key) == "b" {
				return broken
			}
			return nil
		}, consumer.RunConfig{Workers: 1})
		require.ErrorIs(t, err, broken)
		require.Equal(t, int64(1), read(t, c, 1)[0].Offset)
	})
}

func TestRunKeepsTheOrderOfAKeyAndBoundsWhatIsInFlight(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		var keys []string
		for range 100 {
			keys = append(keys, "a", "b")
		}
		keyed(t, b, keys...)
		c := open(t, b, config(consumer.CommitProcessed))
		var mu sync.Mutex
		last := map[string]int64{"a": -1, "b": -1}
		n := 0
		err := c.Run(t.Context(), func(_ context.Context, r record.Record) error {
			mu.Lock()
			defer mu.Unlock()
			if r.Offset <= last[string(r.Key)] {
				t.Errorf("%s: %d after %d", r.Key, r.Offset, last[string(r.Key)])
			}
			last[string(r.Key)] = r.Offset
			if n++; n == 200 {
				c.Wakeup()
			}
			return nil
		}, consumer.RunConfig{Workers: 4, Order: consumer.ByKey, MaxInFlight: 3})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 200}, committed(t, b, "g"))
	})
}

func TestRunLetsHandlersFinishBeforeAPartitionGoes(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		fill(t, b, 1, 1)
		c := open(t, b, config(consumer.CommitProcessed))
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		// One worker may have both partitions. A record that it has not begun is dropped, and goes
		// to the other member.
		begun := map[int32]bool{}
		ended := make(chan error, 1)
		go func() {
			ended <- c.Run(ctx, func(_ context.Context, r record.Record) error {
				mu.Lock()
				begun[r.Partition] = true
				mu.Unlock()
				time.Sleep(10 * time.Second)
				return nil
			}, consumer.RunConfig{Workers: 2})
		}()
		time.Sleep(time.Second)
		other := poll(t, open(t, b, config(consumer.CommitProcessed)), func(r record.Record) {
			mu.Lock()
			defer mu.Unlock()
			if begun[r.Partition] {
				t.Errorf("record of partition %d is done twice", r.Partition)
			}
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, other.Assignment(), 1)
		require.Equal(t, record.Offsets{tp(0): 1, tp(1): 1}, committed(t, b, "g"))
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, c.Close())
		other.leave(t)
	})
}
