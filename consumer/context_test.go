package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Every blocking call returns when its context ends, whatever it waits for: records, the disk, a
// rebalance.
func TestEveryBlockingCallEndsWithItsContext(t *testing.T) {
	calls := map[string]struct {
		call func(context.Context, *consumer.Consumer) error
		err  error
	}{
		"Poll":   {func(ctx context.Context, c *consumer.Consumer) error { _, err := c.Poll(ctx); return err }, context.DeadlineExceeded},
		"Commit": {func(ctx context.Context, c *consumer.Consumer) error { return c.Commit(ctx, record.Record{Topic: "t"}) }, context.DeadlineExceeded},
		"CommitOffsets": {func(ctx context.Context, c *consumer.Consumer) error {
			return c.CommitOffsets(ctx, record.Offsets{tp(0): 1})
		}, context.DeadlineExceeded},
		"CommitReturned": {func(ctx context.Context, c *consumer.Consumer) error { return c.CommitReturned(ctx) }, context.DeadlineExceeded},
		"Run": {func(ctx context.Context, c *consumer.Consumer) error {
			return c.Run(ctx, func(context.Context, record.Record) error { return nil }, consumer.RunConfig{})
		}, nil},
		"Records": {func(ctx context.Context, c *consumer.Consumer) error {
			for _, err := range c.Records(ctx) {
				return err
			}
			return nil
		}, nil},
		"Batches": {func(ctx context.Context, c *consumer.Consumer) error {
			for _, err := range c.Batches(ctx) {
				return err
			}
			return nil
		}, nil},
	}
	for name, tc := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.Mem()
				b, err := strata.Open(strata.Config{FS: disk})
				require.NoError(t, err)
				require.NoError(t, b.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1}))
				fill(t, b, 0, 1)
				c := open(t, b, consumer.Config{Group: "g", Topics: []string{"t"}, Commit: consumer.CommitManual, MaxWait: time.Hour})
				batch, err := c.Poll(t.Context())
				require.NoError(t, err)
				// creates the files of the offsets topic
				require.NoError(t, c.CommitOffsets(t.Context(), batch.Offsets()))
				remove := disk.Inject(vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Delay: time.Hour})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begun := time.Now()
				err = tc.call(ctx, c)
				require.Equal(t, time.Second, time.Since(begun))
				if tc.err == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, tc.err)
				}
				remove()
				time.Sleep(time.Hour) // the sync under way
				require.NoError(t, c.Close())
				require.NoError(t, b.Close())
			})
		})
	}
}
