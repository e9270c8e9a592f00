package consumer_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// A handler that hangs is given up after MaxPollInterval. Its partition goes to another member,
// its own commit is rejected, and the member joins again when the handler has returned.
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

// The limit holds for each call of the handler: a member keeps a partition that it processes for
// long in small steps.
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
