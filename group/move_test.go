package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// The groups of these tests are in partition 0 of the offsets topic.
var onePartition = Config{OffsetsPartitions: 1}

func TestGroupMovesWithTheLeaderOfItsPartition(t *testing.T) {
	partitions := map[string]int32{"t": 4}
	store, tp := newFakeStore(partitions), record.TopicPartition{Topic: "t"}
	inBubble(t, store, onePartition, func(t *testing.T, c *Coordinator) {
		wire := newClient(c, "g", assignor.Range(), partitions).start()
		local := newClient(c, "g", assignor.Range(), partitions)
		local.host = ""
		local.start()
		info := waitGroup(t, c, func(i Info) bool { return StableWith(2)(i) && assigned(i) == 4 })
		commit(t, c, memberCommit(wire, 7))
		for broker := range int32(3) {
			store.lead(0, broker+2, 0)
			synctest.Wait()
			was, now := c.On(broker+1), c.On(broker+2)
			require.ErrorIs(t, was.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: wire.memberID(), Generation: info.Generation}), ErrNotCoordinator)
			found, err := was.FindCoordinator(ctx, "g")
			require.NoError(t, err)
			require.Equal(t, broker+2, found)
			moved, err := now.Describe(ctx, "g")
			require.NoError(t, err)
			require.Equal(t, durable(info), durable(moved), "members, generation and shares")
			require.EqualValues(t, 7, committed(t, now, "g", tp))
			commit(t, now, memberCommit(wire, 7))
			time.Sleep(time.Minute)
			require.Equal(t, info.Generation, waitGroup(t, c, StableWith(2)).Generation, "nobody has to join again")
		}
		local.kill() // its session ends at the present coordinator of the group
		waitGroup(t, c, func(i Info) bool { return StableWith(1)(i) && assigned(i) == 4 })
		wire.stop(t)
	})
}

// durable returns the part of a group's Info that its next coordinator has, too.
func durable(i Info) Info {
	i.Offsets, i.Members = nil, slices.Clone(i.Members)
	for m := range i.Members {
		// the last one sent; the log has the one of the last rebalance
		i.Members[m].SubscriptionData = nil
	}
	return i
}

// Requests that wait at a coordinator fail when its leadership ends. Members of the process find
// the next coordinator by themselves.
func TestCallsUnderWayFollowTheGroupToItsNextCoordinator(t *testing.T) {
	join := func(id string) JoinRequest {
		return JoinRequest{Group: "g", MemberID: id, ClientHost: "/10.0.0.1", ProtocolType: "consumer", SessionTimeout: 10 * time.Minute,
			RebalanceTimeout: 10 * time.Minute, Protocols: []assignor.Protocol{{Name: "range"}}}
	}
	store := newFakeStore(map[string]int32{"t": 1})
	inBubble(t, store, onePartition, func(t *testing.T, c *Coordinator) {
		first, err := c.Join(ctx, join(""))
		require.NoError(t, err)
		_, err = c.Sync(ctx, SyncRequest{Group: "g", MemberID: first.MemberID, Generation: first.Generation})
		require.NoError(t, err)
		client, process := make(chan error, 1), make(chan error, 1)
		broker := c.On(1)
		// wait for the first member
		go func() { _, err := broker.Join(ctx, join("")); client <- err }()
		go func() { _, err := c.Join(ctx, join("")); process <- err }()
		synctest.Wait()
		require.Equal(t, PreparingRebalance, describe(t, c).State)
		time.Sleep(time.Minute)
		begin := time.Now()
		store.lead(0, 2, 0)
		require.ErrorIs(t, <-client, ErrNotCoordinator)
		require.Equal(t, begin, time.Now(), "it is told at once")
		time.Sleep(time.Second)
		require.Empty(t, process)
		require.Equal(t, PreparingRebalance, describe(t, c).State, "it has joined at the next coordinator")
		require.Equal(t, first.Generation, describe(t, c).Generation)

		sync := make(chan error, 1)
		again, err := c.Join(ctx, join(first.MemberID))
		require.NoError(t, err)
		require.NoError(t, <-process)
		require.Equal(t, first.Generation+1, again.Generation)
		go func() {
			_, err := c.On(2).Sync(ctx, SyncRequest{Group: "g", MemberID: again.MemberID, Generation: again.Generation})
			sync <- err
		}()
		synctest.Wait()
		store.lead(0, 1, 0)
		if again.Leader == again.MemberID {
			require.NoError(t, <-sync)
			return
		}
		require.ErrorIs(t, <-sync, ErrNotCoordinator)
	})
}

func describe(t *testing.T, c *Coordinator) Info {
	t.Helper()
	info, err := c.Describe(ctx, "g")
	require.NoError(t, err)
	return info
}

// The commit was in the old leader's log when that died. Whether or not the next leader has it,
// the process sends it again, and it is not visible before it is committed.
func TestCommitUnderWayIsRepeatedAtTheNextCoordinator(t *testing.T) {
	for kept, found := range map[int]int64{0: -1, 2: 2} {
		t.Run(fmt.Sprint(kept, " batches kept"), func(t *testing.T) {
			store, tp := newFakeStore(map[string]int32{"t": 1}), record.TopicPartition{Topic: "t"}
			inBubble(t, store, onePartition, func(t *testing.T, c *Coordinator) {
				commit(t, c, commitOf("g", record.Offsets{tp: 1}))
				store.with(func(f *fakeStore) { f.syncTime = time.Second })
				confirmed, refused := make(chan error, 1), make(chan error, 1)
				go func() { _, err := c.CommitOffsets(ctx, commitOf("g", record.Offsets{tp: 2})); confirmed <- err }()
				go func() { _, err := c.On(1).CommitOffsets(ctx, commitOf("h", record.Offsets{tp: 2})); refused <- err }()
				time.Sleep(time.Second / 2)
				store.lead(0, 2, kept)
				err := <-refused
				require.ErrorIs(t, err, ErrNotCoordinator)
				require.ErrorIs(t, err, ErrUncertain)
				require.Equal(t, found, committed(t, c.On(2), "h", tp), "as the next leader's log has it")
				require.NoError(t, <-confirmed)
				require.EqualValues(t, 2, committed(t, c, "g", tp))
			})
		})
	}
}

// A shift that may be stored is not repeated: it would be applied twice.
func TestShiftThatMayBeStoredIsNotRepeated(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 1}), record.TopicPartition{Topic: "t"}
	store.ends = record.Offsets{tp: 100}
	inBubble(t, store, onePartition, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{tp: 50}))
		store.with(func(f *fakeStore) { f.syncTime = time.Second })
		shifted := make(chan error, 1)
		go func() { _, err := c.RewindGroup(ctx, "g", ShiftBy(-10), tp); shifted <- err }()
		time.Sleep(time.Second / 2)
		store.lead(0, 2, 1)
		err := <-shifted
		require.ErrorIs(t, err, ErrNotCoordinator)
		require.ErrorIs(t, err, ErrUncertain)
		require.EqualValues(t, 40, committed(t, c, "g", tp))
	})
}

// After the end of its leadership a coordinator has no append, no timer and no call left.
func TestCoordinatorThatIsNoneDoesNothing(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 1}), record.TopicPartition{Topic: "t"}
	inBubble(t, store, onePartition, func(t *testing.T, c *Coordinator) {
		m := newClient(c, "g", assignor.Range(), map[string]int32{"t": 1}).start()
		waitGroup(t, c, StableWith(1))
		old := c.runtime.Known()[0]
		m.kill()
		blocked := make(chan struct{})
		store.with(func(f *fakeStore) { f.blocked = blocked })
		result := make(chan error, 1)
		// the append is under way
		go func() { _, err := c.On(1).CommitOffsets(ctx, commitOf("h", record.Offsets{tp: 1})); result <- err }()
		synctest.Wait()
		store.lead(0, -1, 0)
		require.ErrorIs(t, <-result, ErrNotCoordinator)
		close(blocked)
		before := len(store.logs[0].data)
		time.Sleep(time.Hour) // the session of the member ends, and no coordinator notices
		require.True(t, old.Idle())
		require.Len(t, store.logs[0].data, before)
		require.Empty(t, c.runtime.Known())
		store.with(func(f *fakeStore) { f.blocked = nil })
		store.lead(0, 1, 0)
		require.Len(t, waitGroup(t, c, StableWith(1)).Members, 1, "a full session for the next coordinator to wait")
		waitGroup(t, c, func(i Info) bool { return len(i.Members) == 0 })
	})
}

// One partition of the offsets topic has no leader, another cannot be read; g is in a third one.
func TestPartitionInTroubleDoesNotConcernTheOthers(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 1}), record.TopicPartition{Topic: "t"}
	leaderless, broken := offsets.PartitionFor("my-group", 50), offsets.PartitionFor("console-consumer", 50)
	inBubble(t, store, Config{OffsetsPartitions: 50}, func(t *testing.T, c *Coordinator) {
		for _, group := range []string{"g", "my-group", "console-consumer"} {
			commit(t, c, commitOf(group, record.Offsets{tp: 5}))
		}
		store.with(func(f *fakeStore) { f.logs[broken].readErr = errors.New("damaged") })
		store.lead(broken, 1, 0)
		store.lead(leaderless, -1, 0)
		synctest.Wait()
		begin := time.Now()
		commit(t, c, commitOf("g", record.Offsets{tp: 6}))
		require.EqualValues(t, 6, committed(t, c, "g", tp))
		infos, err := c.Groups(ctx)
		require.ErrorIs(t, err, ErrCoordinatorNotAvailable)
		require.ErrorContains(t, err, "damaged")
		require.Equal(t, []Info{{ID: "g", Type: Classic, State: Empty}}, infos)
		lags, err := c.Lags(ctx)
		require.ErrorIs(t, err, ErrCoordinatorNotAvailable)
		require.Len(t, lags, 1)
		require.ErrorIs(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "my-group", MemberID: "m"}), ErrCoordinatorNotAvailable)
		_, err = c.FetchOffsets(ctx, "console-consumer", nil)
		require.ErrorIs(t, err, ErrCoordinatorNotAvailable)
		require.NotErrorIs(t, err, ErrMoving)
		require.Equal(t, begin, time.Now(), "none of them waits")

		// A request for a group without a coordinator waits for one, until its context ends.
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = c.FetchOffsets(short, "my-group", nil)
		require.ErrorIs(t, err, ErrCoordinatorNotAvailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, begin.Add(time.Second), time.Now())
		long, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		_, err = c.CommitOffsets(long, commitOf("my-group", record.Offsets{tp: 6}))
		require.ErrorIs(t, err, ErrCoordinatorNotAvailable)
		require.LessOrEqual(t, time.Since(begin), time.Second+coordinator.MoveTimeout+coordinator.LongestPause)
		time.AfterFunc(coordinator.MoveTimeout/2, func() { store.lead(leaderless, 3, 0) })
		commit(t, c, commitOf("my-group", record.Offsets{tp: 6}))
		require.EqualValues(t, 6, committed(t, c.On(3), "my-group", tp))
		store.with(func(f *fakeStore) { f.logs[broken].readErr = nil })
		time.Sleep(time.Second)
		require.EqualValues(t, 5, committed(t, c, "console-consumer", tp), "it is loaded when it can be read")
	})
}

// WaitGroup and the deletion of a topic's offsets outlast a change of the coordinator.
func TestWatchersAndDeletionsFollowTheGroup(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 1, "u": 1}), record.TopicPartition{Topic: "t"}
	inBubble(t, store, onePartition, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{tp: 5, {Topic: "u"}: 5}))
		seen := make(chan Info, 1)
		go func() {
			info, err := c.WaitGroup(ctx, "g", func(i Info) bool { return i.Offsets[tp].Offset == 6 })
			if err == nil {
				seen <- info
			}
		}()
		synctest.Wait()
		store.lead(0, 2, 0)
		synctest.Wait()
		commit(t, c, commitOf("g", record.Offsets{tp: 6}))
		<-seen
		store.with(func(f *fakeStore) { f.logs[0].readErr = errors.New("slow") })
		store.lead(0, 1, 0)
		store.set("u", TopicInfo{})
		synctest.Wait()
		store.with(func(f *fakeStore) { f.logs[0].readErr = nil })
		time.Sleep(time.Second)
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.Len(t, info.Offsets, 1, "the topic was deleted while its offsets were being loaded")
	})
}
