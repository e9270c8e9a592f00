package consumer_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
)

var memberIDs = regexp.MustCompile(`[^ ]*[0-9a-f-]{22,}|[A-Za-z0-9_-]{22}`)

// causes returns the causes of each generation of a group since the call of watch, until the group
// is empty.
func causes(t *testing.T, b *strata.Cluster, run func()) (got []string) {
	ctx, cancel := context.WithCancel(t.Context())
	events, ended := b.GroupEvents(ctx), make(chan struct{})
	go func() {
		defer close(ended)
		for e := range events {
			if e.Kind == group.Assigned || e.Kind == group.Emptied {
				got = append(got, memberIDs.ReplaceAllString(e.Cause(), "it"))
			}
		}
	}()
	run()
	synctest.Wait()
	cancel()
	<-ended
	return got
}

// The events of a group have the reason of a consumer that leaves or joins again.
func TestGroupEventsHaveTheReasonsOfConsumers(t *testing.T) {
	for name, protocol := range map[string]consumer.Protocol{"classic": consumer.ProtocolClassic, "consumer": consumer.ProtocolConsumer} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
				fill(t, b, 0, 10)
				cfg := config(consumer.CommitManual)
				cfg.Protocol = protocol
				got := causes(t, b, func() {
					c, err := consumer.New(b, cfg)
					require.NoError(t, err)
					_, err = c.Poll(t.Context())
					require.NoError(t, err)
					if protocol == consumer.ProtocolClassic {
						c.EnforceRebalance()
						time.Sleep(10 * time.Second)
						require.NoError(t, b.AddPartitions(t.Context(), "t", 3))
						time.Sleep(10 * time.Second)
					}
					time.Sleep(10 * time.Minute) // beyond MaxPollInterval
					_, err = c.Poll(t.Context())
					require.ErrorIs(t, err, nil)
					require.NoError(t, c.Close())
				})
				want := []string{"it joined", "it exceeded its max poll interval and left", "it joined", "it left (the consumer is being closed)"}
				if protocol == consumer.ProtocolClassic {
					want = append([]string{"it joined", "it joined again (rebalance enforced by user)", "it joined again (topic t has 3 partitions, and had 2)"}, want[1:]...)
				}
				require.Equal(t, want, got)
			})
		})
	}
}
