package systest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// racked returns a cluster as lossy's, with brokers in the racks a, b and c and reads from
// followers.
func racked(t *testing.T) *strata.Cluster {
	t.Helper()
	cfg, disks := lossy()
	for i, rack := range []string{"a", "b", "c"} {
		cfg.BrokerSpecs[int32(i+1)] = replication.BrokerSpec{FS: disks[i], Rack: rack}
	}
	cfg.ReplicaSelector = replication.RackAwareSelector
	cfg.Properties = map[string]string{"replica.lag.time.max.ms": "200"}
	c, err := strata.Open(cfg)
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", threeReplicas))
	unequal(rand.New(rand.NewPCG(1, 1)), c, disks)
	return c
}

// Consumers in every rack read while records are produced, brokers are killed, and paths between
// them are cut and slowed. Each consumer gets every record once and in order. No position is out
// of range, even if the follower is behind.
func TestReadersOfFollowersGetEverythingOnceThroughAStorm(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { readThroughAStorm(t, seed) })
		})
	}
}

func readThroughAStorm(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	c := racked(t)
	defer func() { require.NoError(t, c.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	got, failed := map[string][]string{}, []error{}
	var reading sync.WaitGroup
	for _, rack := range []string{"a", "b", "c"} {
		reading.Go(func() {
			for rec, err := range readerIn(ctx, c, rack, seed) {
				mu.Lock()
				if err != nil {
					failed = append(failed, fmt.Errorf("in rack %s: %w", rack, err))
				} else {
					got[rack] = append(got[rack], string(rec.Value))
				}
				mu.Unlock()
			}
		})
	}
	sent := produceAlways(t, c)
	for range 60 {
		undo := trouble(t, r, c)
		time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond)
		undo()
		for len(c.Backend().Status("orders", 0).ISR) < 3 {
			time.Sleep(time.Millisecond)
		}
	}
	all := sent()
	complete := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(failed) > 0 || len(got["a"]) >= len(all) && len(got["b"]) >= len(all) && len(got["c"]) >= len(all)
	}
	for deadline := time.Now().Add(time.Minute); !complete() && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	reading.Wait()
	require.Empty(t, failed)
	for _, rack := range []string{"a", "b", "c"} {
		require.Equal(t, all, got[rack], "in rack %s", rack)
	}
	require.Positive(t, c.Stats().Brokers.FollowerReads)
	require.Zero(t, c.Stats().Brokers.UncleanElections)
}

// produceAlways sends one record after the other until stop is called. stop returns the values
// sent.
func produceAlways(t *testing.T, c *strata.Cluster) (stop func() []string) {
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	end, all := make(chan struct{}), make(chan []string)
	go func() {
		var sent []string
		for {
			select {
			case <-end:
				all <- sent
				return
			default:
			}
			value := fmt.Sprint(len(sent))
			if _, err := p.Send(context.Background(), record.String("orders", "k", value)); err != nil {
				value = err.Error() // no consumer reads such a value
			}
			sent = append(sent, value)
			time.Sleep(time.Duration(len(sent)%7) * 5 * time.Millisecond)
		}
	}()
	return func() []string {
		close(end)
		defer func() { require.NoError(t, p.Close()) }()
		return <-all
	}
}

// readerIn reads the topic with a Consumer, or with Follow.
func readerIn(ctx context.Context, c *strata.Cluster, rack string, seed uint64) func(func(record.Record, error) bool) {
	if seed%2 == 0 {
		return consumer.Follow(ctx, c, consumer.ReadConfig{Topic: "orders", Rack: rack})
	}
	return func(yield func(record.Record, error) bool) {
		g, err := consumer.New(c, consumer.Config{
			Assign: record.Offsets{{Topic: "orders"}: 0}, Rack: rack, Reset: consumer.Fail(), MaxWait: 24 * time.Hour,
		})
		if err != nil {
			yield(record.Record{}, err)
			return
		}
		defer g.Close()
		for rec, err := range g.Records(ctx) {
			if !yield(rec, err) {
				return
			}
		}
	}
}

// trouble injects a fault into the cluster; undo ends it.
func trouble(t *testing.T, r *rand.Rand, c *strata.Cluster) (undo func()) {
	ids := []int32{1, 2, 3}
	broker := ids[r.IntN(3)]
	path := replication.NetworkPath{From: c.Backend().Leader("orders", 0), To: broker}
	end := []func() error{
		func() error { return c.KillBroker(broker) },
		func() error { return c.StopBroker(t.Context(), broker) },
	}
	switch n := r.IntN(5); {
	case n < 2:
		require.NoError(t, end[n]())
		return func() { require.NoError(t, c.StartBroker(t.Context(), broker)) }
	case n == 2 && path.From != broker:
		c.Backend().Network().Cut(path)
		return func() { c.Backend().Network().Mend(path) }
	case n == 3 && path.From != broker:
		c.Backend().Network().Pause(path)
		return func() { c.Backend().Network().Mend(path) }
	case n == 4 && slices.Contains(c.Backend().Status("orders", 0).ISR, broker):
		tp := record.TopicPartition{Topic: "orders"}
		// The broker may have left the ISR meanwhile.
		_ = c.Backend().TransferLeader(t.Context(), tp, broker)
	}
	return func() {}
}
