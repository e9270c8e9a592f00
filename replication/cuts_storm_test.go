package replication

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
)

// Network paths are cut at random, for longer than sessions last. Meanwhile brokers are killed,
// stopped and started, topics are created and deleted, and partitions move. With any cuts the
// brokers, leaders and in-sync sets become stable. When all paths are mended, all brokers serve
// and all replicas are in sync. Acknowledged records are there, once and in order.
func TestAnythingIsCutWhileEverythingChanges(t *testing.T) {
	first, seeds := seedsOf(t, 12, 60, 1000)
	fenced := 0
	for seed := first; seed < first+seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fenced += cutAnything(t, seed) })
		})
	}
	t.Logf("%d times a broker was fenced and ran", fenced)
	require.NotZero(t, fenced)
}

// cutAnything runs one seed, and returns how often a running broker was seen fenced.
func cutAnything(t *testing.T, seed uint64) (fenced int) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	n := 3 + rnd.Int32N(3)
	ds := newDisks(int(n))
	c, err := Open(ds.config())
	require.NoError(t, err)
	replicated(t, c, "orders", 3)
	require.NoError(t, c.CreateTopic(t.Context(), "single", topic.Config{Partitions: int(n)}))
	tps := []tp{at("orders", 0), at("orders", 1), at("orders", 2), at("single", 0), at("single", 1)}
	acknowledged := make([][]string, len(tps))
	ctx, cancel := context.WithCancel(t.Context())
	var producers sync.WaitGroup
	for i, tp := range tps {
		producers.Go(func() {
			for v := 0; ctx.Err() == nil; v++ {
				if value := fmt.Sprint(v); all(c, tp, value).Err == nil {
					acknowledged[i] = append(acknowledged[i], value)
				}
				time.Sleep(700*time.Millisecond + time.Duration(i)*time.Millisecond)
			}
		})
	}
	var under sync.WaitGroup
	for range 60 {
		what := rnd.Uint64()
		under.Go(func() { changeAnything(t, c, n, what) })
		pause := time.Second
		if rnd.IntN(5) == 0 {
			pause = 25 * time.Second
		}
		time.Sleep(1 + time.Duration(rnd.Int64N(int64(pause))))
		for id := range c.serving() {
			if c.isFenced(id) {
				fenced++
			}
		}
	}
	cancel()
	under.Wait()
	time.Sleep(11 * time.Minute) // lag and sessions have timed out, leaders are balanced
	synctest.Wait()
	rests, epoch := described(t, c), c.Stats().ControllerEpoch
	time.Sleep(time.Hour)
	after := described(t, c)
	// A leader that makes no progress causes a check of all disks at each check of its followers'
	// lag.
	require.LessOrEqual(t, after.Version-rests.Version, int64(n)*int64(time.Hour/(c.cfg.ReplicaMaxLag/2)))
	after.Version = rests.Version
	require.Equal(t, rests, after, "it does not come to rest")
	require.Equal(t, epoch, c.Stats().ControllerEpoch)
	mendAll(c, n)
	synctest.Wait()
	for _, id := range c.Members() {
		if err := c.StartBroker(t.Context(), id); err != nil {
			require.ErrorIs(t, err, ErrBrokerRunning)
		}
	}
	producers.Wait()
	require.Len(t, c.Brokers(), int(n))
	soon, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	require.NoError(t, c.WaitReassigned(soon))
	for i, tp := range tps {
		require.NoError(t, c.WaitISR(soon, tp))
		have := values(t, c, tp)
		require.Len(t, slices.Compact(slices.Clone(have)), len(have), "%v: something is there twice", tp)
		next := 0
		for _, v := range acknowledged[i] {
			at := slices.Index(have[next:], v)
			require.GreaterOrEqual(t, at, 0, "%v: %s was acknowledged", tp, v)
			next += at + 1
		}
	}
	require.NoError(t, c.Close())
	ds.requireEqualCopies(t)
	return fenced
}

func described(t *testing.T, c *Cluster) Metadata {
	t.Helper()
	m, err := c.Metadata(t.Context())
	require.NoError(t, err)
	return m
}

func mendAll(c *Cluster, n int32) {
	for from := range n {
		for to := range n {
			c.Network().Mend(NetworkPath{From: from + 1, To: to + 1})
		}
	}
}

// changeAnything makes one random change, which may be refused.
func changeAnything(t *testing.T, c *Cluster, n int32, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 4))
	broker, other := 1+rnd.Int32N(n), 1+rnd.Int32N(n)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	switch rnd.IntN(14) {
	case 0, 1:
		aloneFrom[slices.Sorted(maps.Keys(aloneFrom))[rnd.IntN(len(aloneFrom))]](c, broker, othersOf(c, broker))
	case 2:
		for from := range n {
			for to := range n {
				if p := (NetworkPath{From: from + 1, To: to + 1}); rnd.IntN(3) == 0 {
					c.Network().Cut(p)
				} else {
					c.Network().Mend(p)
				}
			}
		}
	case 3:
		c.Network().Cut(NetworkPath{From: broker, To: other})
	case 4, 5:
		mendAll(c, n)
	case 6:
		_ = c.KillBroker(broker)
	case 7:
		_ = c.StopBroker(ctx, broker)
	case 8, 9:
		_ = c.StartBroker(ctx, broker)
	case 10:
		_ = c.CreateTopic(ctx, fmt.Sprint("extra", other), topic.Config{ReplicationFactor: 3})
	case 11:
		_ = c.DeleteTopic(ctx, fmt.Sprint("extra", other))
	case 12:
		var replicas []int32
		for _, id := range rnd.Perm(int(n))[:3] {
			replicas = append(replicas, int32(id)+1)
		}
		c.AlterPartitionReassignments(ctx, Reassignment{Partition: at("orders", rnd.Int32N(3)), Replicas: replicas})
	case 13:
		_ = c.TransferLeader(ctx, at("orders", rnd.Int32N(3)), broker)
	}
}
