package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

func TestLagCountsPartitionsWithoutACommitFromTheirStart(t *testing.T) {
	partitions := map[string]int32{"t": 3, "u": 2}
	store := logs(partitions)
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		m := newClient(c, "g", assignor.Range(), map[string]int32{"t": 3}).start()
		info := waitGroup(t, c, StableWith(1))
		require.Equal(t, int64(3*90), info.Lag(), "it has committed nothing")
		commit(t, c, memberCommit(m, 60))
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.Equal(t, int64(40+90+90), info.Lag())
		require.Equal(t, OffsetInfo{Committed: record.Committed{Offset: 60, LeaderEpoch: 3, Metadata: "note"}, Start: 10, End: 100, Lag: 40, CommittedAt: time.UnixMilli(time.Now().UnixMilli())}, info.Offsets[record.TopicPartition{Topic: "t"}])
		require.Equal(t, OffsetInfo{Committed: record.Committed{Offset: -1, LeaderEpoch: -1}, Start: 10, End: 100, Lag: 90}, info.Offsets[record.TopicPartition{Topic: "t", Partition: 2}])
		m.kill()

		// retention has deleted the records at that offset
		commit(t, c, commitOf("old", record.Offsets{{Topic: "u"}: 3}))
		info, err = c.Group(ctx, "old")
		require.NoError(t, err)
		require.Equal(t, int64(90+90), info.Lag(), "no more than there is")
	})
}

// The first protocol of the members, an assignor of their own, does not have Kafka's format; the
// group uses the second.
func TestLagOfAGroupThatNeverCommittedIsThereWhileItRebalances(t *testing.T) {
	inBubble(t, logs(map[string]int32{"t": 3}), Config{}, func(t *testing.T, c *Coordinator) {
		join := func(id, instance string, protocols ...assignor.Protocol) JoinResponse {
			r, err := c.Join(ctx, JoinRequest{Group: "g", MemberID: id, InstanceID: instance, ClientHost: "/h", ProtocolType: ProtocolTypeConsumer,
				SessionTimeout: time.Minute, RebalanceTimeout: time.Minute, Protocols: protocols})
			require.NoError(t, err)
			return r
		}
		lag := func(state State) {
			t.Helper()
			synctest.Wait()
			info, err := c.Group(ctx, "g")
			require.NoError(t, err)
			require.Equal(t, state, info.State)
			require.Equal(t, int64(3*90), info.Lag())
			lags, err := c.Lags(ctx)
			require.NoError(t, err)
			require.Equal(t, int64(3*90), lags[0].Lag)
		}
		custom := assignor.Protocol{Name: "custom", Metadata: []byte{1}}
		ours := assignor.Protocol{Name: "range", Metadata: assignor.SubscriptionFor(assignor.Range(), []string{"t"}, nil, -1, "")}
		m := join("", "i", custom, ours)
		lag(CompletingRebalance)
		_, err := c.Sync(ctx, SyncRequest{Group: "g", MemberID: m.MemberID, InstanceID: "i", Generation: m.Generation, Assignments: map[string][]byte{}})
		require.NoError(t, err)
		lag(Stable)
		second := make(chan JoinResponse, 1)
		go func() { second <- join("", "", custom, ours) }()
		lag(PreparingRebalance)
		m = join(m.MemberID, "i", custom, ours)
		require.Equal(t, m.Generation, (<-second).Generation)
		lag(CompletingRebalance)
	})
}

func TestLagAndDrainTimeOfAllGroupsAreOneCallAway(t *testing.T) {
	partitions := map[string]int32{"t": 1}
	tp := record.TopicPartition{Topic: "t"}
	store := logs(partitions)
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		for group, at := range map[string]int64{"a": 20, "b": 20, "c": 100} {
			commit(t, c, commitOf(group, record.Offsets{tp: at}))
		}
		member := newClient(c, "d", assignor.Range(), partitions).start()
		_, err := c.WaitGroup(ctx, "d", StableWith(1))
		require.NoError(t, err)
		lags := func() []GroupLag {
			l, err := c.Lags(ctx)
			require.NoError(t, err)
			return l
		}
		require.Equal(t, []GroupLag{{"a", Empty, 0, 80, DrainUnknown, 0}, {"b", Empty, 0, 80, DrainUnknown, 0}, {"c", Empty, 0, 0, 0, 0}, {"d", Stable, 1, 90, DrainUnknown, 0}}, lags())
		time.Sleep(10 * time.Second)
		commit(t, c, commitOf("a", record.Offsets{tp: 60})) // 40 in 10 s, 40 left
		store.with(func(f *fakeStore) { f.ends[tp] = 120 }) // 20 more for every group
		require.Equal(t, []GroupLag{{"a", Empty, 0, 60, 30 * time.Second, 0}, {"b", Empty, 0, 100, DrainNever, 0}, {"c", Empty, 0, 20, DrainNever, 0}, {"d", Stable, 1, 110, DrainNever, 0}}, lags())
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 30*time.Second+300*time.Millisecond, lags()[0].Drain.Round(time.Millisecond), "still since the first")
		time.Sleep(time.Minute)
		require.Equal(t, DrainNever, lags()[0].Drain, "it stands still")
		require.NoError(t, c.DeleteGroup(ctx, "a"))
		require.Len(t, lags(), 3)
		require.Len(t, c.lags, 3, "nothing is kept of a group that is gone")
		member.kill()
	})
}

func TestTolerableLagIsSetPerApplication(t *testing.T) {
	partitions := map[string]int32{"t": 1}
	tp := record.TopicPartition{Topic: "t"}
	inBubble(t, logs(partitions), Config{}, func(t *testing.T, c *Coordinator) {
		for _, group := range []string{"done", "few", "fast", "slow", "stuck", "nobody's"} {
			commit(t, c, commitOf(group, record.Offsets{tp: 10}))
		}
		limits := map[string]LagLimit{
			"done": {}, "few": {Records: 50, Drain: time.Second}, "fast": {Drain: 10 * time.Second}, "slow": {Drain: 10 * time.Second}, "stuck": {Records: 89, Drain: time.Hour},
		}
		beyond := func() map[string]string {
			lags, err := c.Lags(ctx)
			require.NoError(t, err)
			got := map[string]string{}
			for _, l := range lags {
				limit, ok := limits[l.Group]
				if !ok {
					continue
				}
				var e *LagError
				if err := limit.Check(l); err != nil {
					require.ErrorAs(t, err, &e)
					require.Equal(t, LagError{l, limit}, *e)
					got[l.Group] = e.Error()
				}
			}
			return got
		}
		require.Equal(t, map[string]string{"done": "group done: lag 90 is more than 0"}, beyond(), "nothing is known of how fast they are")
		time.Sleep(10 * time.Second)
		for group, at := range map[string]int64{"done": 100, "few": 50, "fast": 55, "slow": 54} {
			commit(t, c, commitOf(group, record.Offsets{tp: at}))
		}
		require.Equal(t, map[string]string{
			"slow":  "group slow: lag 46 is more than 0 and takes 10.455s to catch up with, longer than 10s",
			"stuck": "group stuck: lag 90 is more than 89 and does not shrink",
		}, beyond(), "fast is behind as far as it may, few by no more than is always tolerated")
		limits["slow"], limits["stuck"] = LagLimit{Drain: 11 * time.Second}, LagLimit{Records: 90}
		limits["few"], limits["fast"] = LagLimit{Records: 49}, LagLimit{Records: -1, Drain: -1}
		require.Equal(t, map[string]string{"few": "group few: lag 50 is more than 49", "fast": "group fast: lag 45 is more than 0"}, beyond())
	})
}
