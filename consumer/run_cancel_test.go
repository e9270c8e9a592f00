package consumer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/record"
)

// A worker may see that Run's context has ended before anything else does. What it puts back then must not be handed out
// again, without a pause, for as long as the others take to notice.
func TestAFailureAfterRunsContextHasEndedIsNotTriedAgain(t *testing.T) {
	for name, run := range map[string]func(context.Context, *consumer.Consumer, consumer.Handler, consumer.RunConfig) error{
		"Run": func(ctx context.Context, c *consumer.Consumer, h consumer.Handler, cfg consumer.RunConfig) error {
			return c.Run(ctx, h, cfg)
		},
		"RunBatches": func(ctx context.Context, c *consumer.Consumer, h consumer.Handler, cfg consumer.RunConfig) error {
			return c.RunBatches(ctx, func(ctx context.Context, rs []record.Record) error { return h(ctx, rs[0]) }, cfg)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				keyed(t, b, "a")
				c := open(t, b, config(consumer.CommitProcessed))
				for range 300 {
					ctx, cancel := context.WithCancel(t.Context())
					calls := 0 // of one record: never two at once
					require.NoError(t, run(ctx, c, func(ctx context.Context, _ record.Record) error {
						calls++
						require.Equal(t, calls, consumer.Attempt(ctx))
						cancel()
						return errors.New("no luck")
					}, consumer.RunConfig{Workers: 1}))
					require.Equal(t, 1, calls)
				}
				require.NoError(t, c.Close())
				require.Empty(t, committed(t, b, "g"), "no verdict on the record either")
			})
		})
	}
}
