package strata_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// lossy is a cluster of three brokers, each with a disk of its own that loses what was not synced.
func lossy() (strata.Config, []*vfs.MemFS) {
	disks := []*vfs.MemFS{vfs.Mem(), vfs.Mem(), vfs.Mem()}
	cfg := strata.Config{FS: disks[0], Dir: "data", Brokers: 3, BrokerSpecs: map[int32]replication.BrokerSpec{}}
	for i, d := range disks {
		cfg.BrokerSpecs[int32(i+1)] = replication.BrokerSpec{FS: d}
	}
	return cfg, disks
}

var threeReplicas = topic.Config{Partitions: 1, ReplicationFactor: 3, MinInSyncReplicas: 2}

// settled waits until all replicas of a partition are in sync and equally long, and returns how long.
func settled(t *testing.T, c *strata.Cluster, name string, replicas int) int64 {
	t.Helper()
	for {
		version := c.Backend().MetadataVersion()
		s := c.Backend().Status(name, 0)
		if s.Leader >= 0 && len(s.ISR) == replicas {
			// The replicas have what is acknowledged: one more record, and all have all before it.
			p, err := producer.New(c, producer.Config{})
			require.NoError(t, err)
			_, err = p.Send(t.Context(), record.String(name, "", "settled"))
			require.NoError(t, err)
			require.NoError(t, p.Close())
			return s.LogEndOffset
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		_, err := c.Backend().WaitMetadata(ctx, version)
		cancel()
		require.NoError(t, err, "%+v", s)
	}
}

// A producer that waits for all replicas in sync, two at least, while the leader loses power a
// hundred times: what it was told is there, once and in order.
func TestAcknowledgedRecordsSurviveAHundredLeaders(t *testing.T) {
	kills := 100
	if testing.Short() {
		kills = 20
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { surviveLeaders(t, seed, kills) })
		})
	}
}

func surviveLeaders(t *testing.T, seed uint64, kills int) {
	r := rand.New(rand.NewPCG(seed, 7))
	cfg, _ := lossy()
	c, err := strata.Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.CreateTopic(t.Context(), "orders", threeReplicas))
	p, err := producer.New(c, producer.Config{Linger: time.Millisecond})
	require.NoError(t, err)
	var mu sync.Mutex
	acked := map[string]int64{}
	var failed []string
	stop := make(chan struct{})
	sent := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				sent <- n
				return
			default:
			}
			value := fmt.Sprint(n)
			n++
			p.SendAsync(t.Context(), record.String("orders", "k", value), func(r record.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = append(failed, fmt.Sprint(value, ": ", err))
					return
				}
				acked[value] = r.Offset
			})
			time.Sleep(time.Duration(n%5) * time.Millisecond)
		}
	}()
	for range kills {
		time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
		leader := c.Backend().Leader("orders", 0)
		require.Positive(t, leader)
		require.NoError(t, c.Backend().KillBroker(leader))
		time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
		require.NoError(t, c.Backend().StartBroker(t.Context(), leader))
		for len(c.Backend().Status("orders", 0).ISR) < 2 {
			time.Sleep(time.Millisecond)
		}
	}
	close(stop)
	total := <-sent
	require.NoError(t, p.Close())
	require.Empty(t, failed)
	require.Len(t, acked, total)
	end := settled(t, c, "orders", 3)
	require.EqualValues(t, total, end, "nothing twice")
	checkOrder(t, c, acked)
	require.Equal(t, map[int32]int64{1: end + 1, 2: end + 1, 3: end + 1}, c.Backend().Status("orders", 0).Ends)
}

// checkOrder reads a partition from the start: every value is where its producer was told, and they
// are in the order in which they were sent.
func checkOrder(t *testing.T, c *strata.Cluster, acked map[string]int64) {
	t.Helper()
	next, last := int64(0), -1
	for next < int64(len(acked)) {
		resp, err := c.Backend().Fetch(t.Context(), &partition.FetchRequest{Partitions: []partition.FetchPartition{
			{TopicPartition: record.TopicPartition{Topic: "orders"}, Offset: next, CurrentLeaderEpoch: -1},
		}})
		require.NoError(t, err)
		require.NoError(t, resp.Partitions[0].Err)
		require.NotEmpty(t, resp.Partitions[0].Bytes)
		for rest := resp.Partitions[0].Bytes; len(rest) > 0; {
			b, n, err := record.Parse(rest)
			require.NoError(t, err)
			for r, err := range b.All() {
				require.NoError(t, err)
				if string(r.Value) == "settled" {
					continue
				}
				require.Equal(t, r.Offset, acked[string(r.Value)])
				var i int
				_, err := fmt.Sscan(string(r.Value), &i)
				require.NoError(t, err)
				require.Greater(t, i, last)
				last = i
			}
			next, rest = b.NextOffset(), rest[n:]
		}
	}
}
