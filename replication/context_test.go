package replication

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// RELIABILITY L5: on a disk that takes an hour for each sync, every call returns when its context
// ends. The work that it began continues.
func TestContextEndsTheWaitForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		c := open(t, disk)
		create(t, c, "orders", 1, "retention.ms", "-1")
		for range 3 {
			produce(t, c, at("orders", 0), "x")
		}
		for _, s := range []struct {
			name string
			call func(context.Context) error
		}{
			{"CreateTopic", func(ctx context.Context) error { return c.CreateTopic(ctx, "other", topic.Config{}) }},
			{"AddPartitions", func(ctx context.Context) error { return c.AddPartitions(ctx, "orders", 5) }},
			{"AlterTopic", func(ctx context.Context) error {
				return c.AlterTopic(ctx, "orders", properties("retention.ms", "-1", "segment.ms", "7000000"))
			}},
			{"DeleteRecords", func(ctx context.Context) error {
				_, err := c.DeleteRecords(ctx, map[tp]int64{at("orders", 0): 2})
				return err
			}},
			{"DeleteTopic", func(ctx context.Context) error { return c.DeleteTopic(ctx, "orders") }},
		} {
			remove := disk.Inject(vfs.Fault{Ops: vfs.OpSync | vfs.OpSyncDir, Delay: time.Hour, Times: vfs.Always})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			err := s.call(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, s.name)
			require.Equal(t, time.Second, time.Since(start), s.name)
			remove()
			time.Sleep(10 * time.Hour) // the work of the call ends
		}
	})
}

// When two conditions hold at the time of a call, the outcome is not random. A call to a closed
// cluster, or with an ended context, gets nothing. An outcome that exists is returned even if the
// context has ended.
func TestChanceDecidesNothing(t *testing.T) {
	c := open(t, vfs.Mem())
	ended, end := context.WithCancel(t.Context())
	end()
	result := make(chan error, 1)
	for range 100 {
		require.ErrorIs(t, c.enter(ended, c.changing), context.Canceled)
		result <- nil
		require.NoError(t, outcome(ended, result))
	}
	require.ErrorIs(t, outcome(ended, result), context.Canceled)
	require.NoError(t, c.Close())
	for range 100 {
		require.ErrorIs(t, c.enter(t.Context(), c.changing), ErrClosed)
	}
}
