package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

// A worker may notice that Run's context has ended before other goroutines do. Records that it
// returns then must not be handed out again, without a pause, until the others notice.
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
					calls := 0 // calls of one record, never two at once
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

// silentCommits is a backend that answers no commit until speaks is closed.
type silentCommits struct {
	consumer.Backend
	speaks chan struct{} // closed
}

func (b *silentCommits) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	select {
	case <-b.speaks:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return b.Backend.CommitOffsets(ctx, req)
}

// The coordinator does not answer the commit of a partition that is handed over. Run ends
// nevertheless, and the processed offsets are committed later.
func TestRunReturnsWithinDrainTimeoutOfItsEndDuringAHandOver(t *testing.T) {
	for name, end := range map[string]func(*consumer.Consumer){
		"wakeup": (*consumer.Consumer).Wakeup,
		"close":  func(c *consumer.Consumer) { go func() { _ = c.Close() }() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
				fill(t, b, 0, 1)
				fill(t, b, 1, 1)
				fill(t, b, 0, 1) // at work when Run ends
				w := &silentCommits{b, make(chan struct{})}
				cfg := config(consumer.CommitProcessed)
				cfg.CommitInterval = time.Hour
				c := open(t, w, cfg)
				ended := background(func() error {
					return c.Run(t.Context(), func(ctx context.Context, r record.Record) error {
						if r.Offset == 1 {
							<-ctx.Done()
							return ctx.Err()
						}
						return nil
					}, consumer.RunConfig{Workers: 2, DrainTimeout: 2 * time.Second})
				})
				time.Sleep(time.Second)
				other := poll(t, open(t, b, cfg), func(r record.Record) {
					if r.Offset == 0 {
						t.Errorf("partition %d is done twice", r.Partition)
					}
				})
				time.Sleep(10 * time.Second) // the hand-over is under way
				start := time.Now()
				end(c)
				require.NoError(t, <-ended)
				require.LessOrEqual(t, time.Since(start), 2*time.Second)
				close(w.speaks)
				require.NoError(t, c.Close())
				got := committed(t, b, "g")
				require.Equal(t, int64(1), got[tp(1)])
				require.GreaterOrEqual(t, got[tp(0)], int64(1))
				other.leave(t)
			})
		})
	}
}
