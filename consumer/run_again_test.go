package consumer_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/record"
)

// A record that fails while Run ends, perhaps because of that end, is neither dead-lettered nor
// sent to a retry topic. Run returns no error, and the next Run processes the record. A
// dead-lettering that is under way is finished and counts.
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
					<-ctx.Done() // a handler that watches Run's context
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
