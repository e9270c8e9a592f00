package replication

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// An append waits for a leader's slow disk, and the leader is fenced meanwhile. The append is not
// acknowledged, with or without other replicas, whether or not the partition was open.
func TestAppendUnderWayAtALeaderThatIsFencedIsNotAcknowledged(t *testing.T) {
	for name, replicas := range map[string][]int32{"replicated": {2, 1, 3}, "single": {2}} {
		for _, opened := range []bool{true, false} {
			t.Run(map[bool]string{true: name + " opened", false: name + " not opened"}[opened], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, ds := openThree(t)
					require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{replicas}}))
					tp, want := at("orders", 0), []string{"z"}
					if opened {
						require.NoError(t, all(c, tp, "a").Err)
						want = []string{"a", "z"}
					}
					mend := aloneFrom["both ways"](c, 2, othersOf(c, 2))
					if opened {
						defer ds[1].Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Delay: 20 * time.Second})()
					} else {
						defer ds[1].Inject(vfs.Fault{Pattern: "partition.metadata*", Delay: 20 * time.Second})()
					}
					under := make(chan error, 1)
					go func() { under <- tryAcks(c, tp, record.AcksAll, "under way").Err }()
					atSessionEnd(c)
					require.NotContains(t, c.Brokers(), int32(2))
					time.Sleep(time.Minute)
					if opened {
						require.ErrorIs(t, <-under, partition.ErrNotLeaderAfterAppend)
					} else {
						require.ErrorIs(t, <-under, ErrNotLeader)
					}
					mend()
					synctest.Wait()
					inSync(t, c, tp, len(replicas))
					require.NoError(t, all(c, tp, "z").Err)
					have := values(t, c, tp)
					if name == "single" && opened { // no other leader has truncated it
						want = []string{"a", "under way", "z"}
					}
					require.Equal(t, want, have)
				})
			})
		}
	}
}

// The disks of the others fail between the change that fences a leader and the election of the
// next one. No broker leads then, although the metadata still names the fenced leader.
func TestLeaderThatIsFencedLeadsNothingBeforeAnotherIsElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		tp := leads(t, c, 2)
		mend := aloneFrom["both ways"](c, 2, othersOf(c, 2))
		time.Sleep(c.cfg.SessionTimeout / 2)
		var work []func()
		for _, id := range []int{1, 3} { // the first write fences broker 2
			work = append(work, ds[id-1].Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", After: 1, Times: vfs.Always, Err: errDisk}))
		}
		time.Sleep(c.cfg.SessionTimeout / 2)
		synctest.Wait()
		require.True(t, c.isFenced(2))
		require.EqualValues(t, 2, c.Leader("orders", 0), "nobody could write that it leads no longer")
		c.settleHosted(2) // as when a partition is opened
		for _, acks := range []record.Acks{record.AcksNone, record.AcksLeader, record.AcksAll} {
			require.ErrorIs(t, tryAcks(c, tp, acks, "refused").Err, ErrNotLeader)
		}
		for _, w := range work {
			w()
		}
		atSessionEnd(c)
		require.NotEqual(t, int32(2), c.Leader("orders", 0))
		require.NoError(t, all(c, tp, "c").Err)
		mend()
		soonInSync(t, c, tp, 3)
		require.Equal(t, []string{"a", "b", "c"}, values(t, c, tp))
	})
}

// A replica that is eligible when its broker is fenced for a network cut stays eligible after the
// return, because it lost nothing. A restart would cost it the place, because the topic never
// syncs.
func TestBrokerThatComesBackKeepsItsPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{
			Assignment: [][]int32{{3, 2}}, Properties: properties("min.insync.replicas", "2", "flush.messages", neverSynced["flush.messages"]),
		}))
		tp := at("orders", 0)
		require.NoError(t, all(c, tp, "a").Err)
		mend := aloneFrom["both ways"](c, 2, othersOf(c, 2))
		atSessionEnd(c)
		require.Equal(t, []int32{2}, c.Status("orders", 0).Eligible)
		require.NoError(t, c.StopBroker(t.Context(), 3))
		require.EqualValues(t, -1, c.Leader("orders", 0))
		mend()
		synctest.Wait()
		require.EqualValues(t, 2, c.Leader("orders", 0), "it has all that was acknowledged")
		require.Equal(t, []int32{2}, c.Status("orders", 0).ISR)
		require.Empty(t, c.Stats().UncleanElections)
		require.NoError(t, c.StartBroker(t.Context(), 3))
		inSync(t, c, tp, 2)
		require.NoError(t, all(c, tp, "b").Err)
		require.Equal(t, []string{"a", "b"}, values(t, c, tp))
	})
}

// A fenced broker that still runs survives when all metadata copies have to be opened again, and
// returns afterwards.
func TestBrokerThatIsFencedAndRunsOutlivesCopiesThatAreOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		tp := leads(t, c, 2)
		mend := aloneFrom["both ways"](c, 2, othersOf(c, 2))
		atSessionEnd(c)
		n := c.serving()[2]
		var work []func()
		for _, id := range []int{1, 3} {
			for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpTruncate} {
				work = append(work, ds[id-1].Inject(vfs.Fault{Ops: op, Pattern: "*.log", Times: vfs.Always, Err: errDisk}))
			}
		}
		require.Error(t, c.CreateTopic(t.Context(), "refused", topic.Config{}))
		require.Error(t, c.meta.Failure(), "the copies are to be opened again")
		for _, w := range work {
			w()
		}
		require.NoError(t, c.CreateTopic(t.Context(), "created", topic.Config{}))
		require.Equal(t, []int32{1, 3}, c.Brokers())
		require.Same(t, n, c.serving()[2])
		require.NoError(t, all(c, tp, "c").Err)
		mend()
		synctest.Wait()
		require.Len(t, c.Brokers(), 3)
		require.Same(t, n, c.serving()[2])
	})
}

// A fenced broker that still runs ends when its disk hangs. The next change does not wait for it.
func TestBrokerThatIsFencedAndRunsEndsWhenItsDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		for _, name := range []string{"orders", "others"} {
			replicated(t, c, name, 1)
			require.NoError(t, all(c, at(name, 0), "a").Err)
		}
		mend := aloneFrom["both ways"](c, 2, othersOf(c, 2))
		atSessionEnd(c)
		work := ds.hang(2, vfs.OpRename, "o*")
		begin := time.Now()
		require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
		require.Equal(t, c.cfg.SessionTimeout, time.Since(begin))
		synctest.Wait()
		require.NotContains(t, c.serving(), int32(2))
		begin = time.Now()
		require.NoError(t, c.DeleteTopic(t.Context(), "others"))
		require.Equal(t, begin, time.Now())
		work()
		mend()
		downThen(t, c, 2)
		require.Len(t, c.Brokers(), 3)
	})
}
