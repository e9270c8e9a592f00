package replication

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// replicated creates a topic with three replicas of each partition and min.insync.replicas 2.
func replicated(t *testing.T, c *Cluster, name string, partitions int, props ...string) {
	t.Helper()
	p := properties(append([]string{"min.insync.replicas", "2"}, props...)...)
	require.NoError(t, c.CreateTopic(t.Context(), name, topic.Config{Partitions: partitions, ReplicationFactor: 3, Properties: p}))
}

func openThree(t *testing.T) (*Cluster, disks) {
	t.Helper()
	ds := newDisks(3)
	return openWith(t, ds.config()), ds
}

// openThreePatient is openThree with sessions longer than any cut. A broker that is cut off is not
// fenced, and only leaders decide which replicas are in sync.
func openThreePatient(t *testing.T) (*Cluster, disks) {
	t.Helper()
	ds := newDisks(3)
	cfg := ds.config()
	cfg.SessionTimeout = 1000 * time.Hour
	return openWith(t, cfg), ds
}

// all appends one batch with acks=all, and waits for an hour at most.
func all(c *Cluster, tp tp, values ...string) partition.ProduceResult {
	return tryAcks(c, tp, record.AcksAll, values...)
}

func tryAcks(c *Cluster, tp tp, acks record.Acks, values ...string) partition.ProduceResult {
	done := make(chan partition.ProduceResult, 1)
	c.Produce(&partition.ProduceRequest{TopicPartition: tp, Batch: batch(values...), Acks: acks, Timeout: time.Hour, Done: func(r partition.ProduceResult) { done <- r }})
	return <-done
}

func TestRecordsAreOnAllReplicasWhenTheyAreAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		replicated(t, c, "orders", 3)
		for i := range 10 {
			for p := range int32(3) {
				require.NoError(t, all(c, at("orders", p), fmt.Sprint(i)).Err)
			}
		}
		for p := range int32(3) {
			s := c.Status("orders", p)
			require.NoError(t, s.Err)
			require.Equal(t, map[int32]int64{1: 10, 2: 10, 3: 10}, s.Ends)
			require.Equal(t, int64(10), s.HighWatermark)
			require.Len(t, values(t, c, at("orders", p)), 10)
		}
	})
}

// inSync waits until n replicas of a partition are in sync.
func inSync(t *testing.T, c *Cluster, tp tp, n int) {
	t.Helper()
	for {
		version := c.MetadataVersion()
		if s := c.Status(tp.Topic, tp.Partition); len(s.ISR) == n && s.Leader >= 0 {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		_, err := c.WaitMetadata(ctx, version)
		cancel()
		require.NoError(t, err, "%+v", c.Status(tp.Topic, tp.Partition))
	}
}

func TestFollowersLeadWhenTheLeaderIsGone(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *Cluster, id int32) error{
		"killed":  func(_ *testing.T, c *Cluster, id int32) error { return c.KillBroker(id) },
		"stopped": func(t *testing.T, c *Cluster, id int32) error { return c.StopBroker(t.Context(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := openThree(t)
				replicated(t, c, "orders", 1)
				var want []string
				for i := range 12 {
					leader := c.Leader("orders", 0)
					require.NoError(t, all(c, at("orders", 0), fmt.Sprint(i)).Err)
					want = append(want, fmt.Sprint(i))
					require.NoError(t, end(t, c, leader))
					next := c.Status("orders", 0)
					require.NotEqual(t, leader, next.Leader)
					require.Len(t, next.ISR, 2)
					require.NoError(t, all(c, at("orders", 0), "after ", fmt.Sprint(i)).Err)
					want = append(want, "after ", fmt.Sprint(i))
					require.Equal(t, want, values(t, c, at("orders", 0)))
					require.NoError(t, c.StartBroker(t.Context(), leader))
					inSync(t, c, at("orders", 0), 3)
				}
				require.NoError(t, all(c, at("orders", 0), "last").Err)
				s := c.Status("orders", 0)
				require.Equal(t, map[int32]int64{1: s.LogEndOffset, 2: s.LogEndOffset, 3: s.LogEndOffset}, s.Ends)
			})
		})
	}
}

// The whole process loses power, all brokers at once, and starts again.
func TestAllBrokersLosePower(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { allBrokersLosePower(t, seed) })
		})
	}
}

func allBrokersLosePower(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	ds := newDisks(3)
	var mu sync.Mutex
	acked := map[string]int64{}
	for life := range 3 {
		c, err := Open(ds.config())
		require.NoError(t, err)
		if life == 0 {
			replicated(t, c, "orders", 1)
		}
		inSync(t, c, at("orders", 0), 3)
		for _, d := range ds { // one disk is slower than another
			d.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: time.Duration(r.IntN(12)) * time.Millisecond})
		}
		dead := false
		for i := range 30 {
			value := fmt.Sprint(life, "-", i)
			c.Produce(&partition.ProduceRequest{TopicPartition: at("orders", 0), Batch: batch(value), Acks: record.AcksAll, Done: func(r partition.ProduceResult) {
				mu.Lock()
				defer mu.Unlock()
				if r.Err == nil && !dead {
					acked[value] = r.BaseOffset
				}
			}})
			time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
		}
		mu.Lock()
		dead = true
		after := disks{}
		for _, d := range ds {
			after = append(after, d.Crash(r.Uint64()))
		}
		mu.Unlock()
		_ = c.Close()
		ds = after
	}
	c := openWith(t, ds.config())
	require.NotEmpty(t, acked)
	inSync(t, c, at("orders", 0), 3)
	require.NoError(t, all(c, at("orders", 0), "last").Err)
	have := values(t, c, at("orders", 0))
	for v, offset := range acked {
		require.Less(t, offset, int64(len(have)))
		require.Equal(t, v, have[offset])
	}
}

// A follower that is cut off from the leader leaves the in-sync set, and acks=all waits for it
// until then. It returns when it has the records of the others.
func TestFollowerThatIsCutOffLeavesAndReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		replicated(t, c, "orders", 1)
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		leader := c.Leader("orders", 0)
		lost := leader%3 + 1
		both := []NetworkPath{{From: leader, To: lost}, {From: lost, To: leader}}
		for _, path := range both {
			c.Network().Cut(path)
		}
		begin := time.Now()
		require.NoError(t, all(c, at("orders", 0), "b").Err)
		require.GreaterOrEqual(t, time.Since(begin), 30*time.Second, "replica.lag.time.max.ms")
		require.LessOrEqual(t, time.Since(begin), 46*time.Second, "half as much again")
		require.NotContains(t, c.Status("orders", 0).ISR, lost)
		begin = time.Now()
		require.NoError(t, all(c, at("orders", 0), "c").Err)
		require.Equal(t, begin, time.Now(), "nobody waits for it any more")
		for _, path := range both {
			c.Network().Mend(path)
		}
		inSync(t, c, at("orders", 0), 3)
		synctest.Wait()
		require.Equal(t, map[int32]int64{1: 3, 2: 3, 3: 3}, c.Status("orders", 0).Ends)
	})
}

// With fewer replicas in sync than min.insync.replicas, a batch is refused before it is appended.
// A batch that was appended before waits, or times out and stays in the log. It is readable only
// when there are enough replicas.
func TestTooFewReplicasInSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThreePatient(t)
		replicated(t, c, "orders", 1)
		tp := at("orders", 0)
		require.NoError(t, all(c, tp, "a").Err)
		leader := c.Leader("orders", 0)
		others := []int32{leader%3 + 1, (leader+1)%3 + 1}
		for _, id := range others {
			c.Network().Cut(NetworkPath{From: leader, To: id})
		}
		late, patient := make(chan partition.ProduceResult, 1), make(chan partition.ProduceResult, 1)
		c.Produce(&partition.ProduceRequest{TopicPartition: tp, Batch: batch("late"), Timeout: 10 * time.Second, Done: func(r partition.ProduceResult) { late <- r }, Acks: record.AcksAll})
		c.Produce(&partition.ProduceRequest{TopicPartition: tp, Batch: batch("patient"), Timeout: time.Hour, Done: func(r partition.ProduceResult) { patient <- r }, Acks: record.AcksAll})
		r := <-late
		require.ErrorIs(t, r.Err, partition.ErrTimeout)
		require.EqualValues(t, 1, r.BaseOffset)
		inSync(t, c, tp, 1)
		r = all(c, tp, "refused")
		require.ErrorIs(t, r.Err, partition.ErrNotEnoughReplicas)
		require.EqualValues(t, -1, r.BaseOffset)
		require.NoError(t, tryAcks(c, tp, record.AcksLeader, "first").Err)
		require.NoError(t, tryAcks(c, tp, record.AcksNone, "none").Err)
		require.Equal(t, []string{"a"}, values(t, c, tp), "what too few have is not shown")
		select {
		case r := <-patient:
			t.Fatalf("acknowledged below the minimum: %+v", r)
		default:
		}
		for _, id := range others {
			c.Network().Mend(NetworkPath{From: leader, To: id})
		}
		r = <-patient
		require.NoError(t, r.Err)
		require.EqualValues(t, 2, r.BaseOffset)
		inSync(t, c, tp, 3)
		require.NoError(t, all(c, tp, "z").Err)
		require.Equal(t, []string{"a", "late", "patient", "first", "none", "z"}, values(t, c, tp))
	})
}

// A fetch that waits at a leader continues at the next one.
func TestWaitingFetchGoesOnAtTheNextLeader(t *testing.T) {
	for name, written := range map[string]bool{"written": true, "never written": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := openThree(t)
				replicated(t, c, "orders", 1)
				tp, from := at("orders", 0), int64(0)
				if written {
					require.NoError(t, all(c, tp, "a").Err)
					from = 1
				}
				got := make(chan *partition.FetchResponse, 1)
				go func() {
					for {
						resp, err := c.Fetch(t.Context(), &partition.FetchRequest{MaxWait: time.Hour, Partitions: []partition.FetchPartition{{TopicPartition: tp, Offset: from, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}})
						if err != nil || len(resp.Partitions[0].Bytes) > 0 {
							got <- resp
							return
						}
						time.Sleep(10 * time.Millisecond)
					}
				}()
				synctest.Wait()
				require.NoError(t, c.KillBroker(c.Leader("orders", 0)))
				begin := time.Now()
				require.NoError(t, all(c, tp, "b").Err)
				require.NotEmpty(t, (<-got).Partitions[0].Bytes)
				require.Less(t, time.Since(begin), time.Second)
			})
		})
	}
}

// Idle partitions with several replicas change neither the disks nor the metadata.
func TestIdleReplicasDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 100)
		for p := range int32(100) {
			require.NoError(t, all(c, at("orders", p), "a").Err)
		}
		time.Sleep(10 * time.Minute) // reserved space is given back
		before := ds[0].Count(vfs.OpChange) + ds[1].Count(vfs.OpChange) + ds[2].Count(vfs.OpChange)
		version := c.MetadataVersion()
		time.Sleep(10 * time.Minute)
		require.Equal(t, version, c.MetadataVersion())
		require.Equal(t, before, ds[0].Count(vfs.OpChange)+ds[1].Count(vfs.OpChange)+ds[2].Count(vfs.OpChange))
		for p := range int32(100) {
			require.Len(t, c.Status("orders", p).ISR, 3)
		}
	})
}

// A broker that was away returns after its leader has deleted records that it lacks.
func TestFollowerComesBackBehindTheLogStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		replicated(t, c, "orders", 1)
		tp := at("orders", 0)
		require.NoError(t, all(c, tp, "a", "b").Err)
		leader := c.Leader("orders", 0)
		away := leader%3 + 1
		require.NoError(t, c.StopBroker(t.Context(), away))
		for range 5 {
			require.NoError(t, all(c, tp, "c", "d", "e").Err)
		}
		starts, err := c.DeleteRecords(t.Context(), map[record.TopicPartition]int64{tp: 9})
		require.NoError(t, err)
		require.EqualValues(t, 9, starts[tp])
		require.NoError(t, c.StartBroker(t.Context(), away))
		inSync(t, c, tp, 3)
		require.NoError(t, c.KillBroker(leader))
		require.NoError(t, c.KillBroker(6-leader-away))
		require.Equal(t, away, c.Leader("orders", 0))
		s := c.Status("orders", 0)
		require.EqualValues(t, 9, s.LogStartOffset)
		require.EqualValues(t, 17, s.LogEndOffset)
	})
}

// A leader that returns, because no other replica may lead, is followed by the replicas that were
// there before it.
func TestLeaderThatComesBackIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1, 2}}}))
		tp := at("orders", 0)
		require.NoError(t, all(c, tp, "a").Err)
		require.NoError(t, c.KillBroker(1))
		require.NoError(t, all(c, tp, "only on 2").Err)
		require.NoError(t, c.KillBroker(2))
		require.NoError(t, c.StartBroker(t.Context(), 1))
		require.EqualValues(t, -1, c.Leader("orders", 0), "it lacks what was acknowledged")
		require.ErrorIs(t, all(c, tp, "b").Err, ErrNotLeader)
		require.NoError(t, c.StartBroker(t.Context(), 2))
		require.EqualValues(t, 2, c.Leader("orders", 0))
		inSync(t, c, tp, 2)
		require.NoError(t, all(c, tp, "c").Err)
		require.NoError(t, c.KillBroker(2))
		require.Equal(t, []string{"a", "only on 2", "c"}, values(t, c, tp))
	})
}

// The first record of a partition reaches a broker that was away when the topic was created.
func TestFirstRecordReachesABrokerThatWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		require.NoError(t, c.StopBroker(t.Context(), 3))
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1, 2, 3}}}))
		require.NoError(t, c.StartBroker(t.Context(), 3))
		inSync(t, c, at("orders", 0), 3)
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		require.Equal(t, map[int32]int64{1: 1, 2: 1, 3: 1}, c.Status("orders", 0).Ends)
	})
}

// While a cluster opens, no replica leads, copies or sends requests before its broker has loaded
// its logs.
func TestReplicasRestWhileTheClusterOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(3)
		for _, d := range ds {
			d.Inject(vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Delay: time.Millisecond})
		}
		for life := range 8 {
			c, err := Open(ds.config())
			require.NoError(t, err)
			if life == 0 {
				replicated(t, c, "orders", 6)
				replicated(t, c, "unwritten", 6)
			}
			for p := range int32(6) {
				inSync(t, c, at("unwritten", p), 3)
				inSync(t, c, at("orders", p), 3)
				require.NoError(t, all(c, at("orders", p), "v").Err)
				require.Len(t, values(t, c, at("orders", p)), life+1)
			}
			require.Zero(t, c.Stats().OfflinePartitions)
			require.NoError(t, c.KillBroker(int32(life%3+1)))
			require.NoError(t, c.Close())
		}
	})
}
