package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

func TestOnlyTheGroupLeaderSeesTheWholeGroup(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 2}), Config{InitialRebalanceDelay: time.Second}, func(t *testing.T, c *Coordinator) {
		type answer struct {
			JoinResponse
			err error
		}
		answers := make(chan answer)
		join := func() {
			r, err := c.Join(ctx, JoinRequest{Group: "g", ClientID: "c", ProtocolType: "consumer", SessionTimeout: time.Minute,
				Protocols: []assignor.Protocol{{Name: "range", Metadata: assignor.SubscriptionFor(assignor.Range(), []string{"t"}, nil, -1, "")}}})
			answers <- answer{r, err}
		}
		go join()
		synctest.Wait() // the first member leads
		go join()
		var leader, follower JoinResponse
		for range 2 {
			a := <-answers
			require.NoError(t, a.err)
			if a.Leader == a.MemberID {
				leader = a.JoinResponse
			} else {
				follower = a.JoinResponse
			}
		}
		require.Len(t, leader.Members, 2)
		require.Equal(t, leader.MemberID, leader.Members[0].MemberID)
		require.Empty(t, follower.Members)
		require.Equal(t, leader.MemberID, follower.Leader)

		shares, err := assignor.AssignAll(assignor.Range(), leader.Members, map[string]int32{"t": 2})
		require.NoError(t, err)
		synced := make(chan SyncResponse)
		go func() {
			// Assignments in a follower's request are ignored.
			r, err := c.Sync(ctx, SyncRequest{Group: "g", MemberID: follower.MemberID, Generation: 1, Assignments: map[string][]byte{follower.MemberID: nil}})
			require.NoError(t, err)
			synced <- r
		}()
		synctest.Wait()
		mine, err := c.Sync(ctx, SyncRequest{Group: "g", MemberID: leader.MemberID, Generation: 1, Assignments: shares})
		require.NoError(t, err)
		theirs := <-synced
		require.Equal(t, shares[leader.MemberID], mine.Assignment)
		require.Equal(t, shares[follower.MemberID], theirs.Assignment)
		require.NotEqual(t, mine.Assignment, theirs.Assignment)
	})
}

func TestGroupsOnOneTopicKeepTheirOwnOffsetsAndMembers(t *testing.T) {
	partitions := map[string]int32{"t": 2}
	inBubble(t, newFakeStore(partitions), Config{}, func(t *testing.T, c *Coordinator) {
		for i, group := range []string{"g", "h", "a very different one"} {
			m := newClient(c, group, assignor.Range(), partitions).start()
			defer m.stop(t)
			info, err := c.WaitGroup(ctx, group, StableWith(1))
			require.NoError(t, err)
			require.Len(t, info.Members[0].Assignment, 2, "every group gets every partition")
			synctest.Wait()
			generation, _ := m.state()
			r := commitOf(group, record.Offsets{{Topic: "t"}: int64(i)})
			r.MemberID, r.Generation = m.memberID(), generation
			commit(t, c, r)
		}
		for i, group := range []string{"g", "h", "a very different one"} {
			require.EqualValues(t, i, committed(t, c, group, record.TopicPartition{Topic: "t"}))
		}
	})
}

func TestChangeOfAPartitionsLeaderDoesNotRebalance(t *testing.T) {
	partitions := map[string]int32{"t": 2}
	store := newFakeStore(partitions)
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		m := newClient(c, "g", assignor.Range(), partitions).start()
		before := waitGroup(t, c, StableWith(1))
		store.set("t", store.topics.Topics["t"]) // a new metadata version, the same partitions
		time.Sleep(time.Minute)
		synctest.Wait()
		after, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.Equal(t, before.Generation, after.Generation)
		require.Equal(t, Stable, after.State)
		m.stop(t)
	})
}
