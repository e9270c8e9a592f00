package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/record"
)

// A seek, a pause or a loss happens after Run has found fetched records of a partition and before
// it passes them to its workers. No handler is called for them.
func TestNothingFetchedBeforeASeekPauseOrLossReachesHandlersAfterIt(t *testing.T) {
	type what struct {
		do   func(t *testing.T, b *strata.Cluster, c *consumer.Consumer)
		next int64 // first record read after do
		free bool  // true: without a group
	}
	for name, w := range map[string]what{
		"seek": {next: 7, do: func(t *testing.T, b *strata.Cluster, c *consumer.Consumer) {
			require.NoError(t, c.Seek(tp(0), 7))
		}},
		"seek to the end": {next: 10, do: func(t *testing.T, b *strata.Cluster, c *consumer.Consumer) {
			require.NoError(t, c.SeekToEnd())
		}},
		"seek time": {next: 10, do: func(t *testing.T, b *strata.Cluster, c *consumer.Consumer) {
			require.NoError(t, c.SeekTime(t.Context(), time.Now().Add(time.Hour)))
		}},
		"pause": {do: func(t *testing.T, b *strata.Cluster, c *consumer.Consumer) { c.Pause() }},
		"lost": {do: func(t *testing.T, b *strata.Cluster, c *consumer.Consumer) {
			_, err := b.Backend().Leave(t.Context(), group.LeaveRequest{Group: "g", Members: []group.LeaveMember{{MemberID: c.Metadata().MemberID}}})
			require.NoError(t, err)
			time.Sleep(10 * time.Second) // the next heartbeat reports it
			require.Empty(t, c.Assignment())
		}},
		"topic created again": {free: true, do: func(t *testing.T, b *strata.Cluster, c *consumer.Consumer) {
			recreate(t, b, 1, 0)
			wired.Settle(t)
			require.Empty(t, c.Assignment(), "of the former topic")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				fill(t, b, 0, 10)
				cfg := config(consumer.CommitProcessed)
				if w.free {
					cfg.Group = ""
				}
				c := open(t, b, cfg)
				var seen []int64
				err := c.FeedOnce(hour(t), func(_ context.Context, r record.Record) error {
					seen = append(seen, r.Offset)
					return nil
				}, func() { w.do(t, b, c) })
				require.NoError(t, err)
				require.Empty(t, seen)
				c.Resume()
				filled := make(chan struct{})
				go func() {
					defer close(filled)
					time.Sleep(time.Minute)
					fill(t, b, 0, 5)
				}()
				require.Equal(t, w.next, read(t, c, 1)[0].Offset)
				<-filled
				require.NoError(t, c.Close())
			})
		})
	}
}
