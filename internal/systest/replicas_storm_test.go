package systest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// lossy configures a cluster of three brokers, each with a disk of its own. A killed broker's disk
// loses unsynced data.
func lossy() (strata.Config, []*vfs.MemFS) {
	disks := []*vfs.MemFS{vfs.Mem(), vfs.Mem(), vfs.Mem()}
	cfg := strata.Config{FS: disks[0], Dir: "data", Brokers: 3, BrokerSpecs: map[int32]replication.BrokerSpec{}}
	for i, d := range disks {
		cfg.BrokerSpecs[int32(i+1)] = replication.BrokerSpec{FS: d}
	}
	return cfg, disks
}

var threeReplicas = topic.Config{Partitions: 1, ReplicationFactor: 3, MinInSyncReplicas: 2}

// settled waits until all replicas of a partition are in sync and have the same end offset, and
// returns it.
func settled(t *testing.T, c *strata.Cluster, name string, replicas int) int64 {
	t.Helper()
	for {
		version := c.Backend().MetadataVersion()
		s := c.Backend().Status(name, 0)
		if s.Leader >= 0 && len(s.ISR) == replicas {
			// All replicas have the acknowledged records. Once they have one more record, they
			// have all before it.
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

// Producers wait for all in-sync replicas, at least two, and a group reads. Meanwhile the leader,
// or the group's coordinator, loses power a hundred times. Every acknowledged record is there, and
// is read, once and in order. No commit goes back, and at the end all replicas have the same
// batches.
func TestAcknowledgedRecordsSurviveAHundredLeaders(t *testing.T) {
	kills := 100
	if sample.Hurried() {
		kills = 20
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { surviveLeaders(t, seed, kills, losePower) })
		})
	}
}

// The same while the leader, or the coordinator, is cut off from the others, mostly for longer
// than its session timeout. Then it is fenced, and sometimes killed.
func TestAcknowledgedRecordsSurviveLeadersThatAreCutOff(t *testing.T) {
	cuts, seeds := 25, uint64(3)
	switch {
	case sample.Hurried():
		cuts, seeds = 10, 1
	case sample.Whole():
		cuts = 300
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { surviveLeaders(t, seed, cuts, cutOff) })
		})
	}
}

// losePower cuts a broker's power, and starts it soon.
func losePower(t *testing.T, r *rand.Rand, c *strata.Cluster, victim int32) {
	require.NoError(t, c.KillBroker(victim))
	time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
	require.NoError(t, c.StartBroker(t.Context(), victim))
}

// cutOff cuts a broker's paths in both directions, or in one. It may also kill the broker. Then it
// restores the paths and the broker.
func cutOff(t *testing.T, r *rand.Rand, c *strata.Cluster, victim int32) {
	net, direction, length := c.Backend().Network(), r.IntN(4), time.Duration(r.Int64N(int64(20*time.Second)))
	each := func(do func(replication.NetworkPath)) {
		for _, other := range []int32{victim%3 + 1, (victim+1)%3 + 1} {
			if direction != 1 {
				do(replication.NetworkPath{From: victim, To: other})
			}
			if direction != 2 {
				do(replication.NetworkPath{From: other, To: victim})
			}
		}
	}
	each(net.Cut)
	time.Sleep(length)
	killed := r.IntN(4) == 0
	if killed {
		require.NoError(t, c.KillBroker(victim))
	}
	each(net.Mend)
	if killed {
		require.NoError(t, c.StartBroker(t.Context(), victim))
	}
}

func surviveLeaders(t *testing.T, seed uint64, kills int, strike func(t *testing.T, r *rand.Rand, c *strata.Cluster, victim int32)) {
	r := rand.New(rand.NewPCG(seed, 7))
	cfg, disks := lossy()
	cfg.Group.OffsetsPartitions = 2
	c, err := strata.Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.CreateTopic(t.Context(), "orders", threeReplicas))
	unequal(r, c, disks)
	var w witness
	w.run(t, c, 3)
	var g reading
	g.run(t, c)
	coordinators := 0
	for range kills {
		time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
		victim := c.Backend().Leader("orders", 0)
		require.Positive(t, victim)
		coordinator, err := c.Backend().FindCoordinator(t.Context(), "g")
		require.NoError(t, err)
		if r.IntN(3) == 0 {
			victim = coordinator
		}
		if victim == coordinator {
			coordinators++
		}
		strike(t, r, c, victim)
		await(t, "another broker is in sync", func() bool { return len(c.Backend().Status("orders", 0).ISR) >= 2 })
	}
	require.Positive(t, coordinators)
	values := w.end(t)
	requireSame(t, values, g.end(t, c, len(values)), "what the group has read")
	end := settled(t, c, "orders", 3)
	require.EqualValues(t, len(values), end, "nothing twice")
	requireSame(t, values, readValues(t, c, len(values)), "what is read")
	require.Equal(t, map[int32]int64{1: end + 1, 2: end + 1, 3: end + 1}, c.Backend().Status("orders", 0).Ends)
	require.NoError(t, c.Close())
	requireEqualFiles(t, disks, "orders")
}

// unequal gives disks and paths different delays, so that for a while one broker has a record and
// the next one does not.
func unequal(r *rand.Rand, c *strata.Cluster, disks []*vfs.MemFS) {
	some := func() time.Duration { return time.Duration(1+r.IntN(8)) * time.Millisecond }
	for i, d := range disks {
		d.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: some()})
		for to := range disks {
			if to != i {
				c.Backend().Network().Slow(replication.NetworkPath{From: int32(i + 1), To: int32(to + 1)}, some())
			}
		}
	}
}

// readValues reads n records of a partition from the start.
func readValues(t *testing.T, c *strata.Cluster, n int) (values []string) {
	t.Helper()
	for r, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: "orders"}) {
		require.NoError(t, err)
		if values = append(values, string(r.Value)); len(values) == n {
			break
		}
	}
	return values
}
