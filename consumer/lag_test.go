package consumer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// Checklist row LG1: an aborted transaction is alone in the partition, or follows records.
func TestAGroupThatHasReadAllIsNotBehind(t *testing.T) {
	for _, records := range []int{0, 3} {
		for _, way := range []string{"records", "poll", "run", "before delivery", "records before delivery"} {
			t.Run(fmt.Sprintf("%s behind %d records", way, records), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := jobs(t, records)
					defer func() { require.NoError(t, b.Close()) }()
					p, err := producer.New(b, producer.Config{TransactionalID: "id"})
					require.NoError(t, err)
					tx, err := p.Begin(t.Context())
					require.NoError(t, err)
					require.NoError(t, tx.Send(t.Context(), record.String("jobs", "", "aborted")))
					require.NoError(t, p.Flush(t.Context()))
					require.NoError(t, tx.Abort(t.Context()))
					require.NoError(t, p.Close())
					cfg := consumer.Config{Group: "g", Topics: []string{"jobs"}}
					if strings.HasSuffix(way, "before delivery") {
						cfg.Commit = consumer.CommitBeforeDelivery
					}
					c, err := consumer.New(over(t, b), cfg)
					require.NoError(t, err)
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan int, 1)
					go func() {
						n := 0
						defer func() { ended <- n }()
						switch way {
						case "records", "records before delivery":
							for range c.Records(ctx) {
								n++
							}
						case "poll", "before delivery":
							for batch, err := c.Poll(ctx); err == nil; batch, err = c.Poll(ctx) {
								n += batch.Len()
							}
						case "run":
							got := make(chan struct{}, records+1)
							_ = c.Run(ctx, func(context.Context, record.Record) error { got <- struct{}{}; return nil }, consumer.RunConfig{})
							n = len(got)
						}
					}()
					time.Sleep(10 * time.Second) // virtual: several commit intervals
					lags, err := b.Lags(t.Context())
					cancel()
					got := <-ended
					require.NoError(t, c.Close())
					require.NoError(t, err)
					require.Equal(t, records, got)
					require.Len(t, lags, 1)
					require.Zero(t, lags[0].Lag)
				})
			})
		}
	}
}
