package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

func TestGroupComesWithItsFirstMemberOrByAnAdministrator(t *testing.T) {
	partitions, store := map[string]int32{"t": 1}, newFakeStore(map[string]int32{"t": 1})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		for _, id := range []string{"g", "h"} {
			_, err := c.Group(ctx, id)
			require.ErrorIs(t, err, ErrGroupNotFound)
		}
		m := newClient(c, "g", assignor.Range(), partitions).start()
		waitGroup(t, c, StableWith(1))
		require.NoError(t, c.ResetOffsets(ctx, "h", record.Offsets{{Topic: "t"}: 0}))
		groups, err := c.Groups(ctx)
		require.NoError(t, err)
		require.Len(t, groups, 2)
		require.ErrorIs(t, c.DeleteGroup(ctx, "g"), ErrNonEmptyGroup)
		m.stop(t)
		reopened(t, store, Config{}, func(next *Coordinator) {
			for _, id := range []string{"g", "h"} {
				require.NoError(t, next.DeleteGroup(ctx, id), "%s is there in the next process, and can be deleted", id)
				_, err := next.Group(ctx, id)
				require.ErrorIs(t, err, ErrGroupNotFound)
			}
		})
	})
}

// backwards assigns all partitions to the member with the highest id.
type backwards struct{ assignor.Assignor }

func (backwards) Name() string { return "backwards" }
func (b backwards) Assign(members []assignor.Member, partitions map[string]int32) (map[string][]record.TopicPartition, error) {
	last := members[0].ID
	for _, m := range members {
		last = max(last, m.ID)
	}
	out := map[string][]record.TopicPartition{}
	for p := range partitions["t"] {
		out[last] = append(out[last], record.TopicPartition{Topic: "t", Partition: p})
	}
	return out, nil
}

func TestAssignorOfOnesOwnDecidesWhatTheMembersGet(t *testing.T) {
	partitions := map[string]int32{"t": 4}
	inBubble(t, newFakeStore(partitions), Config{InitialRebalanceDelay: time.Second}, func(t *testing.T, c *Coordinator) {
		a, b := newClient(c, "g", backwards{}, partitions).start(), newClient(c, "g", backwards{}, partitions).start()
		info := waitGroup(t, c, StableWith(2))
		require.Equal(t, "backwards", info.Protocol)
		for _, m := range info.Members {
			want := 0
			if m.ID == max(a.memberID(), b.memberID()) {
				want = 4
			}
			require.Len(t, m.Assignment, want)
		}
		a.kill()
		b.kill()
	})
}

// Every join and every departure repeats the round: all members join, one assigns, and all receive
// their assignment.
func TestEveryChangeOfMembersRepeatsTheRound(t *testing.T) {
	partitions := map[string]int32{"t": 6}
	inBubble(t, newFakeStore(partitions), Config{}, func(t *testing.T, c *Coordinator) {
		generation := int32(0)
		settled := func(n int) {
			t.Helper()
			info := waitGroup(t, c, func(i Info) bool { return StableWith(n)(i) && assigned(i) == 6 && i.Generation > generation })
			require.Equal(t, generation+1, info.Generation)
			generation = info.Generation
			for _, m := range info.Members {
				require.Len(t, m.Assignment, 6/n, "all have a new share")
			}
		}
		var members []*client
		for n := range 3 {
			members = append(members, newClient(c, "g", assignor.Range(), partitions).start())
			settled(n + 1)
		}
		members[2].stop(t) // leaves by a Leave request
		settled(2)
		begin := time.Now()
		members[1].kill() // sends no more heartbeats
		settled(1)
		require.GreaterOrEqual(t, time.Since(begin), members[1].session-members[1].beat)
		again := newClient(c, "g", assignor.Range(), partitions)
		again.instance = "i"
		again.start()
		settled(2)
		again.kill()
		// evicted by an administrator
		errs, err := c.Leave(ctx, LeaveRequest{Group: "g", Members: []LeaveMember{{InstanceID: "i"}}})
		require.NoError(t, err)
		require.Equal(t, []error{nil}, errs)
		settled(1)
		members[0].kill()
	})
}

// While an eager group rebalances no member has a share: no sync returns one, and no commit is
// accepted, until all members have joined and the group leader has assigned.
func TestNobodyHasAShareUntilTheGroupIsInSync(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 2}), Config{}, func(t *testing.T, c *Coordinator) {
		join := func(id string) JoinRequest {
			return JoinRequest{Group: "g", MemberID: id, ClientHost: "/h", ProtocolType: "consumer", SessionTimeout: time.Minute,
				Protocols: []assignor.Protocol{{Name: "range", Metadata: assignor.SubscriptionFor(assignor.Range(), []string{"t"}, nil, -1, "")}}}
		}
		first, err := c.Join(ctx, join(""))
		require.NoError(t, err)
		sync := func(m JoinResponse) (SyncResponse, error) {
			r := SyncRequest{Group: "g", MemberID: m.MemberID, Generation: m.Generation}
			if m.Leader == m.MemberID {
				r.Assignments, err = assignor.AssignAll(assignor.Range(), m.Members, map[string]int32{"t": 2})
				require.NoError(t, err)
			}
			return c.Sync(ctx, r)
		}
		_, err = sync(first)
		require.NoError(t, err)
		joined := make(chan JoinResponse)
		go func() {
			r, err := c.Join(ctx, join(""))
			require.NoError(t, err)
			joined <- r
		}()
		synctest.Wait() // the second member waits for the first
		_, err = sync(first)
		require.ErrorIs(t, err, ErrRebalanceInProgress)
		require.ErrorIs(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: first.MemberID, Generation: first.Generation}), ErrRebalanceInProgress)
		first, err = c.Join(ctx, join(first.MemberID))
		require.NoError(t, err)
		second := <-joined
		r := commitOf("g", record.Offsets{{Topic: "t"}: 5})
		r.MemberID, r.Generation = second.MemberID, second.Generation
		_, err = c.CommitOffsets(ctx, r)
		require.ErrorIs(t, err, ErrRebalanceInProgress)
		got := make(chan SyncResponse)
		go func() {
			resp, err := sync(second)
			require.NoError(t, err)
			got <- resp
		}()
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("a share before the group leader assigned")
		default:
		}
		mine, err := sync(first)
		require.NoError(t, err)
		require.NotEqual(t, mine.Assignment, (<-got).Assignment)
	})
}

// The rebalance timer starts with the first member that joins. Members that join and leave
// meanwhile do not restart it.
func TestComingAndGoingDoesNotPutOffTheEndOfARebalance(t *testing.T) {
	partitions := map[string]int32{"t": 2}
	inBubble(t, newFakeStore(partitions), Config{}, func(t *testing.T, c *Coordinator) {
		slow := newClient(c, "g", assignor.Range(), partitions)
		slow.session, slow.rebalance = time.Minute, 10*time.Second
		slow.start()
		waitGroup(t, c, StableWith(1))
		slow.kill() // does not join again, and its session continues
		begin := time.Now()
		first := newClient(c, "g", assignor.Range(), partitions)
		first.session, first.rebalance = time.Minute, 10*time.Second
		first.start()
		for range 4 {
			time.Sleep(2 * time.Second)
			other := newClient(c, "g", assignor.Range(), partitions)
			other.rebalance = 10 * time.Second
			other.start()
			synctest.Wait()
			other.kill() // its join is cancelled
		}
		waitGroup(t, c, StableWith(1))
		require.Equal(t, 10*time.Second, time.Since(begin))
		first.kill()
	})
}

// The leader of the group's partition of the offsets topic coordinates the group. The group's
// records are in that partition.
func TestCoordinatorOfAGroupIsTheLeaderOfItsPartition(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1})
	inBubble(t, store, Config{OffsetsPartitions: 50}, func(t *testing.T, c *Coordinator) {
		for group, want := range map[string]int32{"g": 3, "my-group": 12, "console-consumer": 40} {
			commit(t, c, commitOf(group, record.Offsets{{Topic: "t"}: 1}))
			p, err := c.OffsetsPartition(ctx, group, false)
			require.NoError(t, err)
			require.Equal(t, want, p)
			require.NotEmpty(t, store.logs[want].data, offsets.Topic)
		}
		for p, l := range store.logs {
			if p != 3 && p != 12 && p != 40 {
				require.Empty(t, l.data)
			}
		}
	})
}
