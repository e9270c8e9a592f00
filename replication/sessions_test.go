package replication

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// aloneFrom are the ways to cut a broker off from all others.
var aloneFrom = map[string]func(c *Cluster, id int32, others []int32) (mend func()){
	"both ways": func(c *Cluster, id int32, others []int32) func() {
		var pairs [][2]int32
		for _, other := range others {
			pairs = append(pairs, [2]int32{id, other})
		}
		return cutBetween(c, pairs...)
	},
	"it is not heard": func(c *Cluster, id int32, others []int32) func() {
		return cutEach(c, others, func(other int32) NetworkPath { return NetworkPath{From: id, To: other} })
	},
	"it hears nobody": func(c *Cluster, id int32, others []int32) func() {
		return cutEach(c, others, func(other int32) NetworkPath { return NetworkPath{From: other, To: id} })
	},
	"what it says is held up": func(c *Cluster, id int32, others []int32) func() {
		return closeEach(c, others, c.Network().Pause, func(other int32) NetworkPath { return NetworkPath{From: id, To: other} })
	},
	"what it is told is held up": func(c *Cluster, id int32, others []int32) func() {
		return closeEach(c, others, c.Network().Pause, func(other int32) NetworkPath { return NetworkPath{From: other, To: id} })
	},
}

func cutEach(c *Cluster, others []int32, path func(other int32) NetworkPath) (mend func()) {
	return closeEach(c, others, c.Network().Cut, path)
}

func closeEach(c *Cluster, others []int32, closes func(NetworkPath), path func(other int32) NetworkPath) (mend func()) {
	for _, other := range others {
		closes(path(other))
	}
	return func() {
		for _, other := range others {
			c.Network().Mend(path(other))
		}
	}
}

func othersOf(c *Cluster, id int32) []int32 {
	return slices.DeleteFunc(c.Members(), func(other int32) bool { return other == id })
}

// leads makes a broker the leader of orders-0, which has replicas on all three brokers and two
// acknowledged records.
func leads(t *testing.T, c *Cluster, id int32) tp {
	t.Helper()
	replicated(t, c, "orders", 1)
	tp := at("orders", 0)
	require.NoError(t, all(c, tp, "a").Err)
	require.NoError(t, c.TransferLeader(t.Context(), tp, id))
	require.NoError(t, all(c, tp, "b").Err)
	return tp
}

// atSessionEnd waits until the session of a broker that was cut off just now has ended, with all
// consequences.
func atSessionEnd(c *Cluster) {
	time.Sleep(c.cfg.SessionTimeout)
	synctest.Wait()
}

// A leader that is cut off in any direction is fenced when its session ends, also if it is the
// controller. A producer with acks=all continues at another broker. Records that only the old
// leader has were not acknowledged, and are truncated when it returns. Then it is in sync again.
func TestLeaderThatIsCutOffIsFencedWhenItsSessionIsOver(t *testing.T) {
	for direction, cut := range aloneFrom {
		for _, role := range []string{"controller", "other"} {
			t.Run(direction+" "+role, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, _ := openThree(t)
					cutOff := c.Controller()
					if role != "controller" {
						cutOff = cutOff%3 + 1
					}
					tp := leads(t, c, cutOff)
					mend := cut(c, cutOff, othersOf(c, cutOff))
					under := begin(c, tp, "lost")
					time.Sleep(c.cfg.SessionTimeout - time.Millisecond)
					synctest.Wait()
					require.Len(t, c.Brokers(), 3, "its session is not over")
					require.Equal(t, cutOff, c.Leader("orders", 0))
					time.Sleep(time.Millisecond)
					synctest.Wait()
					require.Equal(t, othersOf(c, cutOff), c.Brokers())
					require.NotEqual(t, cutOff, c.Controller())
					require.ErrorIs(t, (<-under).Err, partition.ErrNotLeaderAfterAppend)
					require.Equal(t, othersOf(c, cutOff), c.Status("orders", 0).ISR)
					start := time.Now()
					require.NoError(t, all(c, tp, "c").Err)
					require.Equal(t, start, time.Now(), "nobody waits for it any more")
					epoch := c.Stats().ControllerEpoch
					time.Sleep(5*time.Minute + 7*time.Millisecond) // no timer is due just then
					require.Equal(t, epoch, c.Stats().ControllerEpoch)
					require.Equal(t, othersOf(c, cutOff), c.Brokers())
					mend()
					soonInSync(t, c, tp, 3)
					require.Len(t, c.Brokers(), 3)
					require.NoError(t, c.TransferLeader(t.Context(), tp, cutOff))
					require.NoError(t, all(c, tp, "d").Err)
					want := []string{"a", "b", "c", "d"}
					if direction == "what it is told is held up" { // waiting fetches received it
						want = slices.Insert(want, 2, "lost")
					}
					require.Equal(t, want, values(t, c, tp))
				})
			})
		}
	}
}

// After the end of its session a leader that was cut off acknowledges nothing, with any acks,
// neither later nor earlier requests. Until then it accepts records that need no replication, as
// in Kafka, and loses them.
func TestFencedLeaderAcknowledgesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		cutOff := c.Controller()%3 + 1
		tp := leads(t, c, cutOff)
		require.NoError(t, c.CreateTopic(t.Context(), "single", topic.Config{Assignment: [][]int32{{cutOff}, {cutOff}}}))
		require.NoError(t, all(c, at("single", 0), "x").Err)
		mend := aloneFrom["both ways"](c, cutOff, othersOf(c, cutOff))
		require.NoError(t, tryAcks(c, tp, record.AcksLeader, "taken and lost").Err)
		require.NoError(t, all(c, at("single", 0), "y").Err)
		atSessionEnd(c)
		view := c.View(cutOff)
		for _, tp := range []record.TopicPartition{tp, at("single", 0), at("single", 1)} {
			for _, acks := range []record.Acks{record.AcksLeader, record.AcksNone, record.AcksAll} {
				done := make(chan partition.ProduceResult, 1)
				view.Produce(&partition.ProduceRequest{TopicPartition: tp, Batch: batch("refused"), Acks: acks, Done: func(r partition.ProduceResult) { done <- r }})
				require.ErrorIs(t, (<-done).Err, ErrNotLeader)
			}
		}
		require.Equal(t, int32(-1), c.Leader("single", 0), "nobody else has it")
		require.NoError(t, all(c, tp, "c").Err)
		mend()
		soonInSync(t, c, tp, 3)
		require.Equal(t, []string{"a", "b", "c"}, values(t, c, tp))
		require.Equal(t, cutOff, c.Leader("single", 0))
		require.NoError(t, all(c, at("single", 0), "z").Err)
		require.NoError(t, all(c, at("single", 1), "z").Err)
		require.Equal(t, []string{"x", "y", "z"}, values(t, c, at("single", 0)))
		require.Equal(t, []string{"z"}, values(t, c, at("single", 1)))
	})
}

// A reader waits at a leader that is cut off, and continues at the next one. If no other broker
// has the partition, it continues when the path is mended.
func TestReaderAtALeaderThatIsCutOffGoesOn(t *testing.T) {
	for name, assignment := range map[string][]int32{"replicated": {1, 2, 3}, "single": {2}, "single without a record": {2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := openThree(t)
				require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{assignment}}))
				tp := at("orders", 0)
				want := []string{"c"}
				if name != "single without a record" {
					require.NoError(t, all(c, tp, "a").Err)
					want = []string{"a", "c"}
				}
				if len(assignment) > 1 {
					require.NoError(t, c.TransferLeader(t.Context(), tp, 2))
				}
				ctx, cancel := context.WithCancel(t.Context())
				got := make(chan string, 10)
				var reader sync.WaitGroup
				reader.Go(func() { readOn(ctx, c, tp, got) })
				defer reader.Wait()
				defer cancel()
				mend := aloneFrom["both ways"](c, 2, othersOf(c, 2))
				atSessionEnd(c)
				if len(assignment) == 1 {
					require.Error(t, all(c, tp, "refused").Err)
					mend()
					synctest.Wait()
				}
				require.NoError(t, all(c, tp, "c").Err)
				for _, w := range want {
					require.Equal(t, w, <-got)
				}
				mend()
			})
		})
	}
}

// readOn sends the values of a partition to got, as a consumer reads them. It waits an hour for
// records, and fetches again after an error, from another leader if there is one.
func readOn(ctx context.Context, c *Cluster, tp tp, got chan<- string) {
	for next := int64(0); ctx.Err() == nil; {
		resp, err := c.Fetch(ctx, &partition.FetchRequest{
			MinBytes: 1, MaxWait: time.Hour, Partitions: []partition.FetchPartition{{TopicPartition: tp, Offset: next, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}},
		})
		if err != nil || resp.Partitions[0].Err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		for p := resp.Partitions[0].Bytes; len(p) > 0; {
			b, n, _ := record.Parse(p)
			for r := range b.All() {
				got <- string(r.Value)
				next = r.Offset + 1
			}
			p = p[n:]
		}
	}
}

// A path that is mended just before the end of the session changes nothing. A path that is mended
// at the end, or just after it, brings the broker back.
func TestPathIsMendedAroundTheEndOfASession(t *testing.T) {
	for _, late := range []time.Duration{-time.Nanosecond, 0, time.Nanosecond, time.Millisecond} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := openThree(t)
				cutOff := c.Controller()
				tp := leads(t, c, cutOff)
				begun := c.Stats().ControllerEpoch
				mend := aloneFrom["both ways"](c, cutOff, othersOf(c, cutOff))
				under := begin(c, tp, "c")
				time.Sleep(c.cfg.SessionTimeout + late)
				mend()
				r := <-under
				synctest.Wait()
				inSync(t, c, tp, 3)
				require.Len(t, c.Brokers(), 3)
				if late < 0 {
					require.NoError(t, r.Err)
					require.Equal(t, cutOff, c.Leader("orders", 0))
					require.Equal(t, begun, c.Stats().ControllerEpoch)
				}
				require.NoError(t, all(c, tp, "d").Err)
				if have := values(t, c, tp); r.Err == nil {
					require.Equal(t, []string{"a", "b", "c", "d"}, have)
				} else {
					require.ErrorIs(t, r.Err, partition.ErrNotLeaderAfterAppend)
					require.Equal(t, []string{"a", "b", "d"}, slices.DeleteFunc(have, func(v string) bool { return v == "c" }))
				}
			})
		})
	}
}

// If no broker reaches a majority, the state does not change. No broker is fenced, the controller
// stays, and acks=all continues where the in-sync replicas reach each other.
func TestHalvesThatDoNotReachEachOtherStayAsTheyAre(t *testing.T) {
	for name, pairs := range map[string][][2]int32{
		"two and two": {{1, 3}, {1, 4}, {2, 3}, {2, 4}},
		"all pairs":   {{1, 2}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ds := newDisks(4)
				c := openWith(t, ds.config())
				require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{
					Assignment: [][]int32{{1, 2}, {3, 4}, {1, 3}}, Properties: properties("min.insync.replicas", "2"),
				}))
				require.NoError(t, c.CreateTopic(t.Context(), "single", topic.Config{Assignment: [][]int32{{1}, {4}}}))
				tps := []tp{at("orders", 0), at("orders", 1), at("orders", 2), at("single", 0), at("single", 1)}
				for _, tp := range tps {
					require.NoError(t, all(c, tp, "a").Err)
				}
				controller, epoch := c.Controller(), c.Stats().ControllerEpoch
				mend := cutBetween(c, pairs...)
				under := begin(c, at("orders", 2), "b")
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				require.Equal(t, controller, c.Controller())
				require.Equal(t, epoch, c.Stats().ControllerEpoch)
				require.Len(t, c.Brokers(), 4)
				require.Empty(t, under, "it cannot be replicated")
				if name == "two and two" {
					require.NoError(t, all(c, at("orders", 0), "b").Err)
					require.NoError(t, all(c, at("orders", 1), "b").Err)
				}
				require.NoError(t, all(c, at("single", 0), "b").Err)
				require.NoError(t, all(c, at("single", 1), "b").Err)
				mend()
				require.NoError(t, (<-under).Err)
				// Brokers may be fenced between the mending of the first path and of the last one.
				for _, tp := range tps {
					inSync(t, c, tp, len(c.Status(tp.Topic, tp.Partition).Replicas))
					require.NoError(t, all(c, tp, "c").Err)
				}
			})
		})
	}
}

// The end of a broker makes a majority of one half, and a start makes one of the other half.
// Sessions are judged again.
func TestHalfBecomesAMajorityWhenABrokerGoesOrComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openWith(t, newDisks(4).config())
		mend := cutBetween(c, [2]int32{1, 3}, [2]int32{1, 4}, [2]int32{2, 3}, [2]int32{2, 4})
		atSessionEnd(c)
		require.Len(t, c.Brokers(), 4)
		require.NoError(t, c.KillBroker(4))
		synctest.Wait()
		require.Equal(t, []int32{1, 2}, c.Brokers())
		mend()
		synctest.Wait()
		require.Equal(t, []int32{1, 2, 3}, c.Brokers())
		require.NoError(t, c.KillBroker(2))
		defer cutBetween(c, [2]int32{1, 3})()
		atSessionEnd(c)
		require.Equal(t, []int32{1, 3}, c.Brokers())
		require.NoError(t, c.StartBroker(t.Context(), 2))
		synctest.Wait()
		require.Len(t, c.Brokers(), 3)
		require.EqualValues(t, 2, c.Controller(), "it reaches both")
	})
}

// A path is mended between a fenced broker and a broker that is not the controller. The latter
// takes the role, since it reaches all brokers, and brings the fenced one back.
func TestBrokerThatAnotherOneReachesIsBroughtBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openWith(t, newDisks(4).config())
		defer aloneFrom["both ways"](c, 4, othersOf(c, 4))()
		atSessionEnd(c)
		require.Equal(t, []int32{1, 2, 3}, c.Brokers())
		require.EqualValues(t, 1, c.Controller())
		c.Network().Mend(NetworkPath{From: 4, To: 2})
		c.Network().Mend(NetworkPath{From: 2, To: 4})
		synctest.Wait()
		require.EqualValues(t, 2, c.Controller())
		require.Len(t, c.Brokers(), 4)
	})
}

// Two brokers that are cut off together are fenced together. A broker that returns to the others
// counts for the majority again.
func TestBrokersAreFencedOneAfterTheOtherAsLongAsAMajorityIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(5)
		c := openWith(t, ds.config())
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{4, 5, 1, 2, 3}}}))
		tp := at("orders", 0)
		require.NoError(t, all(c, tp, "a").Err)
		require.EqualValues(t, 1, c.Controller())
		mend := cutBetween(c, [2]int32{1, 4}, [2]int32{1, 5}, [2]int32{2, 4}, [2]int32{2, 5}, [2]int32{3, 4}, [2]int32{3, 5})
		atSessionEnd(c)
		require.Equal(t, []int32{1, 2, 3}, c.Brokers())
		require.NoError(t, all(c, tp, "b").Err)
		mend3 := cutBetween(c, [2]int32{3, 1}, [2]int32{3, 2})
		atSessionEnd(c)
		require.Equal(t, []int32{1, 2}, c.Brokers(), "two of the three that served")
		require.NoError(t, all(c, tp, "c").Err)
		mend2 := cutBetween(c, [2]int32{1, 2})
		atSessionEnd(c)
		require.Equal(t, []int32{1, 2}, c.Brokers(), "one of two is no majority")
		mend()
		atSessionEnd(c)
		require.Len(t, c.Brokers(), 5, "4 and 5 reach everybody")
		require.EqualValues(t, 4, c.Controller())
		mend2()
		mend3()
		inSync(t, c, tp, 5)
		require.Len(t, c.Brokers(), 5)
		require.NoError(t, all(c, tp, "d").Err)
		require.Equal(t, []string{"a", "b", "c", "d"}, values(t, c, tp))
	})
}

// A fenced broker that runs can be stopped or killed, and started, while it is cut off.
func TestBrokerThatIsFencedAndRunsIsEndedAndStarted(t *testing.T) {
	for how, end := range map[string]func(c *Cluster, id int32) error{
		"killed":  func(c *Cluster, id int32) error { return c.KillBroker(id) },
		"stopped": func(c *Cluster, id int32) error { return c.StopBroker(context.Background(), id) },
	} {
		for _, when := range []string{"cut off", "mended"} {
			t.Run(how+" started "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, _ := openThree(t)
					cutOff := c.Controller()
					tp := leads(t, c, cutOff)
					mend := aloneFrom["both ways"](c, cutOff, othersOf(c, cutOff))
					require.NoError(t, tryAcks(c, tp, record.AcksLeader, "lost").Err)
					atSessionEnd(c)
					require.NoError(t, all(c, tp, "c").Err)
					require.ErrorIs(t, c.StartBroker(t.Context(), cutOff), ErrBrokerRunning)
					require.NoError(t, end(c, cutOff))
					require.ErrorIs(t, end(c, cutOff), ErrBrokerDown)
					if when == "mended" {
						mend()
						time.Sleep(time.Minute)
						require.Len(t, c.Brokers(), 2, "it was ended")
						require.NoError(t, c.StartBroker(t.Context(), cutOff))
					} else {
						require.NoError(t, c.StartBroker(t.Context(), cutOff))
						synctest.Wait()
						require.Len(t, c.Brokers(), 3)
						atSessionEnd(c)
						require.Len(t, c.Brokers(), 2, "its session has begun when it was started")
						mend()
					}
					inSync(t, c, tp, 3)
					require.NoError(t, all(c, tp, "d").Err)
					require.Equal(t, []string{"a", "b", "c", "d"}, values(t, c, tp))
				})
			})
		}
	}
}

// The last broker that serves can be neither stopped nor killed, even if fenced brokers run.
// Fenced brokers can.
func TestLastBrokerThatServesStaysBesideOnesThatAreFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		tp := leads(t, c, 2)
		mend := aloneFrom["both ways"](c, 2, othersOf(c, 2))
		atSessionEnd(c)
		require.NoError(t, c.KillBroker(1))
		require.Equal(t, []int32{3}, c.Brokers())
		require.ErrorIs(t, c.KillBroker(3), ErrLastBroker)
		require.ErrorIs(t, c.StopBroker(t.Context(), 3), ErrLastBroker)
		mend()
		soonInSync(t, c, tp, 2)
		require.NoError(t, all(c, tp, "c").Err)
		require.NoError(t, c.StartBroker(t.Context(), 1))
		inSync(t, c, tp, 3)
	})
}

// A broker is cut off while a partition moves to it or from it. Only its own part is delayed.
// Steps without it are finished, and the other steps continue when it returns.
func TestReassignmentGoesOnBesideABrokerThatIsCutOff(t *testing.T) {
	for name, cutOff := range map[string]int32{"from it": 2, "to it": 4, "beside it": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ds := newDisks(4)
				c := openWith(t, ds.config())
				require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{
					Assignment: [][]int32{{2, 3, 1}}, Properties: properties("min.insync.replicas", "2"),
				}))
				tp := at("orders", 0)
				require.NoError(t, all(c, tp, "a").Err)
				mend := aloneFrom["both ways"](c, cutOff, othersOf(c, cutOff))
				require.NoError(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp, Replicas: []int32{4, 3, 1}})[0])
				atSessionEnd(c)
				require.NoError(t, all(c, tp, "b").Err)
				if name == "from it" {
					require.NoError(t, c.WaitReassigned(t.Context()))
					require.NotContains(t, c.Status("orders", 0).Replicas, cutOff)
				}
				mend()
				require.NoError(t, c.WaitReassigned(t.Context()))
				require.NoError(t, c.WaitISR(t.Context(), tp, 4, 3, 1))
				require.NoError(t, all(c, tp, "c").Err)
				require.Equal(t, []string{"a", "b", "c"}, values(t, c, tp))
				synctest.Wait()
				require.Len(t, c.Brokers(), 4)
			})
		})
	}
}

// Topics are created, deleted and configured while a broker is fenced and runs. Nothing is written
// to its copy of the metadata. The copy has all changes when the broker returns.
func TestBrokerThatIsFencedAndRunsFollowsTheMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(3)
		c, err := Open(ds.config())
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		tp := leads(t, c, 2)
		replicated(t, c, "deleted", 1)
		require.NoError(t, all(c, at("deleted", 0), "x").Err)
		before := c.meta.Own().EndOffset()
		mend := aloneFrom["both ways"](c, 2, othersOf(c, 2))
		atSessionEnd(c)
		require.NoError(t, c.DeleteTopic(t.Context(), "deleted"))
		replicated(t, c, "created", 1)
		require.NoError(t, c.AlterTopic(t.Context(), "orders", properties("retention.ms", "1")))
		require.NotNil(t, c.meta.Apart(2))
		require.Equal(t, before, c.meta.Apart(2).EndOffset(), "nothing is written to its copy")
		require.NoError(t, all(c, at("created", 0), "y").Err)
		mend()
		soonInSync(t, c, tp, 3)
		inSync(t, c, at("created", 0), 3)
		require.True(t, c.meta.Has(2))
		for _, l := range c.meta.Copies() {
			require.Equal(t, c.meta.Own().EndOffset(), l.EndOffset())
		}
	})
}

// The disks of the others fail when a broker should be fenced, or should join again. Both happen
// later.
func TestSessionIsLookedAtAgainWhenTheMetadataCannotBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		tp := leads(t, c, 2)
		fail := func() (mend func()) {
			one, three := ds.fail(1), ds.fail(3)
			return func() { one(); three() }
		}
		mend := aloneFrom["both ways"](c, 2, othersOf(c, 2))
		work := fail()
		for range 3 {
			atSessionEnd(c)
			require.False(t, c.isFenced(2), "nobody could write that")
		}
		work()
		atSessionEnd(c)
		require.True(t, c.isFenced(2))
		require.NoError(t, all(c, tp, "c").Err)
		work = fail()
		mend()
		for range 3 {
			atSessionEnd(c)
			require.True(t, c.isFenced(2))
		}
		work()
		atSessionEnd(c)
		require.False(t, c.isFenced(2))
		inSync(t, c, tp, 3)
		require.NoError(t, c.meta.Failure())
	})
}
