package replication

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
)

// reassign requests other replicas of one partition, and waits until it is done.
func reassign(c *Cluster, tp tp, replicas ...int32) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := c.AlterPartitionReassignments(ctx, Reassignment{Partition: tp, Replicas: replicas})[0]; err != nil {
		return err
	}
	return c.WaitReassigned(ctx, tp)
}

func openMany(t *testing.T, n int) (*Cluster, disks) {
	t.Helper()
	ds := newDisks(n)
	return openWith(t, ds.config()), ds
}

// hasReplica reports whether a broker has a directory of a partition.
func hasReplica(t *testing.T, ds disks, broker int32, tp tp) bool {
	t.Helper()
	entries, err := ds[broker-1].ReadDir(fmt.Sprint("data/broker-", broker))
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name() == partitionDir(tp) {
			return true
		}
	}
	return false
}

func TestPartitionsMoveToOtherBrokers(t *testing.T) {
	for name, move := range map[string]struct{ from, to []int32 }{
		"one replica to another broker": {[]int32{1}, []int32{4}},
		"one to three":                  {[]int32{1}, []int32{1, 2, 3}},
		"one to three others":           {[]int32{1}, []int32{4, 2, 3}},
		"three to one":                  {[]int32{1, 2, 3}, []int32{2}},
		"three to one other":            {[]int32{1, 2, 3}, []int32{5}},
		"three to three others":         {[]int32{1, 2, 3}, []int32{3, 4, 5}},
		"one is replaced":               {[]int32{1, 2, 3}, []int32{1, 2, 4}},
		"two to four":                   {[]int32{1, 2}, []int32{2, 3, 4, 5}},
		"another order":                 {[]int32{1, 2, 3}, []int32{3, 2, 1}},
		"the same":                      {[]int32{1, 2}, []int32{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ds := openMany(t, 5)
				require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{move.from}, ReplicationFactor: len(move.from)}))
				tp := at("orders", 0)
				var want []string
				for i := range 5 {
					require.NoError(t, all(c, tp, fmt.Sprint(i)).Err)
					want = append(want, fmt.Sprint(i))
				}
				require.NoError(t, reassign(c, tp, move.to...))
				synctest.Wait() // a new leader receives its followers' end offsets
				s := c.Status("orders", 0)
				require.Equal(t, move.to, s.Replicas)
				require.ElementsMatch(t, move.to, s.ISR)
				require.Contains(t, move.to, s.Leader)
				require.Equal(t, want, values(t, c, tp))
				require.NoError(t, all(c, tp, "after").Err)
				synctest.Wait()
				s = c.Status("orders", 0)
				for _, r := range s.Copies {
					require.NoError(t, r.Err)
					require.EqualValues(t, 6, r.LogEndOffset, "broker %d", r.Broker)
				}
				for id := range int32(5) {
					wanted := len(missing([]int32{id + 1}, move.to)) == 0
					require.Equal(t, wanted, hasReplica(t, ds, id+1, tp), "broker %d", id+1)
				}
				// Afterwards the partition works like any other.
				require.NoError(t, c.StopBroker(t.Context(), s.Leader))
				if len(move.to) > 1 {
					require.NoError(t, all(c, tp, "the next leader's").Err)
				}
				require.NoError(t, c.StartBroker(t.Context(), s.Leader))
				require.NoError(t, c.WaitISR(t.Context(), tp))
				require.NoError(t, all(c, tp, "last").Err)
				vs := values(t, c, tp)
				require.Equal(t, append(want, "after"), vs[:6])
				require.Equal(t, "last", vs[len(vs)-1])
			})
		})
	}
}

// Records are written while a partition and its leader move. The acknowledged records are there,
// in order. The producer gets no errors except that another broker leads.
func TestRecordsAreWrittenWhileAPartitionMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openMany(t, 5)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1, 2}}, ReplicationFactor: 2}))
		tp := at("orders", 0)
		stop, written := make(chan struct{}), make(chan []string, 1)
		go func() {
			var vs []string
			defer func() { written <- vs }()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				v := fmt.Sprint(i)
				r := all(c, tp, v)
				for r.Err != nil {
					if !isMoved(r) {
						t.Errorf("record %d: %v", i, r.Err)
						return
					}
					time.Sleep(time.Millisecond)
					r = all(c, tp, v)
				}
				vs = append(vs, v)
			}
		}()
		for _, to := range [][]int32{{3, 4}, {5}, {1, 2, 3}, {4, 5, 1}, {2}, {3, 2, 1}} {
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, reassign(c, tp, to...))
			require.Equal(t, to, c.Status("orders", 0).Replicas)
		}
		close(stop)
		acked := <-written
		synctest.Wait()
		have := values(t, c, tp)
		i := 0
		for _, v := range have { // a retry after ErrNotLeaderAfterAppend may store it twice
			if i < len(acked) && v == acked[i] {
				i++
			}
		}
		require.Equal(t, len(acked), i, "all that was acknowledged, in order")
		require.Greater(t, len(acked), 100)
	})
}

// isMoved reports whether an append was refused because another broker leads.
func isMoved(r partition.ProduceResult) bool {
	for _, e := range []error{ErrNotLeader, partition.ErrNotLeaderAfterAppend} {
		if errors.Is(r.Err, e) {
			return true
		}
	}
	return false
}

func TestReassignmentIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openMany(t, 4)
		tp := one(t, c) // 2, 3, 1
		require.NoError(t, all(c, tp, "a").Err)
		stop := collect(t, c, "orders")
		c.Network().Cut(NetworkPath{From: 4, To: 2})
		require.NoError(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp, Replicas: []int32{4, 3, 1}})[0])
		require.NoError(t, all(c, tp, "b").Err, "nobody waits for who is not in sync")
		under, err := c.PartitionReassignments()
		require.NoError(t, err)
		require.Equal(t, []OngoingReassignment{{Partition: tp, Replicas: []int32{4, 3, 1, 2}, Adding: []int32{4}, Removing: []int32{2}}}, under)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, c.WaitReassigned(ctx), context.DeadlineExceeded)
		require.NoError(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp})[0])
		require.NoError(t, c.WaitReassigned(t.Context()))
		require.ErrorIs(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp})[0], ErrNoReassignment)
		s := c.Status("orders", 0)
		require.Equal(t, []int32{3, 1, 2}, s.Replicas, "the merged order, as in Kafka")
		require.Equal(t, []int32{2, 1}, []int32{s.Leader, s.LeaderEpoch}, "the same leader in another epoch")
		c.Network().Mend(NetworkPath{From: 4, To: 2})
		require.NoError(t, all(c, tp, "c").Err)
		synctest.Wait()
		require.False(t, hasReplica(t, ds, 4, tp))
		require.Equal(t, []string{
			"orders-0: reassignment begun, replicas are [4 3 1 2]",
			"orders-0: broker 2 leads in epoch 1",
			"orders-0: reassignment cancelled, replicas are [3 1 2]",
		}, lines(stop()))
	})
}

// A broker is away when its replica is dropped. The replica is put aside when the broker returns.
func TestBrokerThatIsAwayGivesUpItsReplicaWhenItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openMany(t, 4)
		tp := one(t, c)
		require.NoError(t, all(c, tp, "a").Err)
		require.NoError(t, c.StopBroker(t.Context(), 1))
		require.NoError(t, reassign(c, tp, 2, 3, 4))
		require.True(t, hasReplica(t, ds, 1, tp))
		require.NoError(t, c.StartBroker(t.Context(), 1))
		require.False(t, hasReplica(t, ds, 1, tp))
		require.NoError(t, c.RemoveBroker(t.Context(), 1), "it has nothing any more")
		require.NoError(t, all(c, tp, "b").Err)
		require.Equal(t, []string{"a", "b"}, values(t, c, tp))
	})
}

func TestReassignmentsThatCannotBeAreRefused(t *testing.T) {
	c, _ := openMany(t, 3)
	tp := one(t, c)
	version := c.MetadataVersion()
	for _, bad := range []struct {
		what Reassignment
		err  error
	}{
		{Reassignment{Partition: tp, Replicas: []int32{}}, ErrInvalidAssignment},
		{Reassignment{Partition: tp, Replicas: []int32{1, 1}}, ErrInvalidAssignment},
		{Reassignment{Partition: tp, Replicas: []int32{1, 9}}, ErrUnknownBroker},
		{Reassignment{Partition: tp, Replicas: []int32{1, -1}}, ErrInvalidAssignment},
		{Reassignment{Partition: tp, Replicas: nil}, ErrNoReassignment},
		{Reassignment{Partition: at("orders", 1), Replicas: []int32{1}}, ErrUnknownTopic},
		{Reassignment{Partition: at("orders", -1), Replicas: []int32{1}}, ErrUnknownTopic},
		{Reassignment{Partition: at("none", 0), Replicas: nil}, ErrUnknownTopic},
	} {
		require.ErrorIs(t, c.AlterPartitionReassignments(t.Context(), bad.what)[0], bad.err, "%+v", bad.what)
	}
	require.Equal(t, version, c.MetadataVersion())
	twice := c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp, Replicas: []int32{1, 3}}, Reassignment{Partition: tp, Replicas: []int32{1}})
	require.NoError(t, twice[0])
	require.ErrorIs(t, twice[1], ErrInvalidAssignment)
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp, Replicas: []int32{1}})[0], ErrClosed)
	require.ErrorIs(t, c.WaitReassigned(t.Context()), ErrClosed)
}
