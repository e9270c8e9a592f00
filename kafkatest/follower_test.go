package kafkatest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// readsOf returns the number of reads from a broker's replica of orders-0.
func readsOf(t *testing.T, s *Server, broker int32) int64 {
	p, err := s.Cluster().Backend().View(broker).Replica(record.TopicPartition{Topic: "orders"})
	require.NoError(t, err)
	return p.Stats().Reads
}

// franz-go in the rack of a follower reads from it. It gets each record once while the follower is
// cut off from its leader, killed, started again, and becomes the leader.
func TestFranzGoReadsFromTheFollowerInItsRack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{
			Pipe: true, Brokers: 3, Replicas: 3, Racks: []string{"a", "b", "c"}, Topics: map[string]int{"orders": 1},
			ReplicaSelector: replication.RackAwareSelector,
		})
		s.MoveLeader("orders", 0, 1)
		p := client(t, s)
		c := client(t, s, kgo.Rack("b"), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(0)}}),
			kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(500*time.Millisecond), kgo.RecheckPreferredReplicaInterval(time.Minute),
			kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }))
		sent, got := 0, 0
		exchange := func() {
			for range 20 {
				require.NoError(t, p.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte(fmt.Sprint(sent))}).FirstErr())
				sent++
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			for got < sent {
				fs := c.PollFetches(ctx)
				require.NoError(t, fs.Err())
				for _, r := range fs.Records() {
					require.Equal(t, fmt.Sprint(got), string(r.Value))
					got++
				}
			}
		}
		exchange()
		require.Positive(t, readsOf(t, s, 2))
		require.Zero(t, readsOf(t, s, 1))

		link := s.OneWay(1, 2)
		link.Cut()
		exchange()
		link.Mend()
		s.WaitISR("orders", 0, 1, 2, 3)
		exchange()
		s.KillBroker(2)
		exchange()
		require.Positive(t, readsOf(t, s, 1), "the leader serves what nobody else can")
		s.StartBroker(2)
		s.WaitISR("orders", 0, 1, 2, 3)
		exchange()
		s.MoveLeader("orders", 0, 2)
		exchange()
		s.MoveLeader("orders", 0, 3)
		exchange()
		require.Equal(t, sent, got)
	})
}
