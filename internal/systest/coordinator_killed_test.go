package systest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// The broker that coordinates a group dies again and again while members process records. They
// commit their offsets at the next coordinator, or when the broker is back. No member joins again,
// and no record is delivered twice.
func TestMembersWorkThroughTheDeathOfTheirCoordinator(t *testing.T) {
	t.Run("another takes over", func(t *testing.T) { workThroughDeaths(t, nil) })
	t.Run("nobody does until it is back", func(t *testing.T) { workThroughDeaths(t, []int32{2}) })
}

// workThroughDeaths kills the coordinator of a running group. offsets are the replicas of the
// offsets topic; nil: the default.
func workThroughDeaths(t *testing.T, offsets []int32) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		c, err := strata.Open(strata.Config{FS: vfs.Mem(), Dir: "data", Brokers: 3})
		require.NoError(t, err)
		if offsets != nil {
			compacted := map[string]string{"cleanup.policy": "compact"}
			require.NoError(t, c.Backend().EnsureTopic(ctx, "__consumer_offsets", topic.Config{Assignment: [][]int32{offsets}, Properties: compacted}))
		}
		coordinator, err := c.Backend().FindCoordinator(ctx, "billing")
		require.NoError(t, err)
		var elsewhere [][]int32
		for b := range int32(3) {
			if b+1 != coordinator {
				elsewhere = append(elsewhere, []int32{b + 1}, []int32{b + 1})
			}
		}
		require.NoError(t, c.CreateTopic(ctx, "orders", topic.Config{Assignment: elsewhere}))
		const records = 120
		p, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		for i := range records {
			_, err := p.Send(ctx, record.String("orders", fmt.Sprint("key ", i), fmt.Sprint(i)))
			require.NoError(t, err)
		}
		require.NoError(t, p.Close())

		handled := make(chan string, 2*records)
		var members []*consumer.Consumer
		for range 2 {
			m, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}})
			require.NoError(t, err)
			members = append(members, m)
			go func() {
				for r, err := range m.Records(ctx) {
					if err != nil {
						return
					}
					time.Sleep(time.Second) // processing
					if err := m.Commit(ctx, r); err != nil {
						handled <- err.Error()
					}
					handled <- string(r.Value)
				}
			}()
		}
		before, err := c.WaitGroup(ctx, "billing", func(i group.Info) bool {
			return group.StableWith(2)(i) && len(i.Members[0].Assignment) == 2 && len(i.Members[1].Assignment) == 2
		})
		require.NoError(t, err)
		seen := map[string]int{}
		for i := range records {
			if i%10 == 5 {
				require.NoError(t, c.Backend().KillBroker(coordinator))
				time.Sleep(5 * time.Second)
				require.NoError(t, c.Backend().StartBroker(ctx, coordinator))
			}
			seen[<-handled]++
		}
		synctest.Wait()
		require.Len(t, seen, records, "each once, and no commit has failed: %v", seen)
		after, err := c.WaitGroup(ctx, "billing", func(i group.Info) bool { return i.Lag() == 0 })
		require.NoError(t, err)
		require.Equal(t, before.Generation, after.Generation, "nobody has joined again")
		for _, m := range members {
			require.NoError(t, m.Close())
		}
		require.NoError(t, c.Close())
	})
}

// Checklist row N25. A second member joins, and the coordinator dies while the first one is to
// give up half of its partitions. The other brokers receive the coordinator's records at once. The
// coordinator receives their acknowledgements later.
func TestMembersHaveTheirHalvesWhenTheCoordinatorDies(t *testing.T) {
	for _, at := range []time.Duration{10, 20, 30, 40, 50, 160, 180} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c, err := strata.Open(strata.Config{FS: vfs.Mem(), Dir: "data", Brokers: 3})
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, c.CreateTopic(ctx, "orders", topic.Config{Partitions: 4}))
				member := func() *consumer.Consumer {
					m, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}, Protocol: consumer.ProtocolConsumer})
					require.NoError(t, err)
					go func() {
						for range m.Records(ctx) {
						}
					}()
					return m
				}
				first := member()
				defer first.Close()
				_, err = c.WaitGroup(ctx, "billing", group.StableWith(1))
				require.NoError(t, err)
				time.Sleep(5 * time.Second)
				coordinator, err := c.Backend().FindCoordinator(ctx, "billing")
				require.NoError(t, err)
				for id := range int32(3) {
					if id+1 != coordinator {
						c.Network().Slow(replication.NetworkPath{From: id + 1, To: coordinator}, 50*time.Millisecond)
					}
				}
				time.Sleep(time.Second)
				second := member()
				defer second.Close()
				time.Sleep(at * time.Millisecond)
				require.NoError(t, c.KillBroker(coordinator))
				require.NoError(t, c.StartBroker(ctx, coordinator))
				time.Sleep(20 * time.Second)
				require.Len(t, first.Assignment(), 2)
				require.Len(t, second.Assignment(), 2)
			})
		})
	}
}
