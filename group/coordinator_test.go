package group

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

var ctx = context.Background()

func commitOf(group string, offsets record.Offsets) CommitRequest {
	r := CommitRequest{Group: group, Generation: -1, Offsets: map[record.TopicPartition]record.Committed{}}
	for tp, o := range offsets {
		r.Offsets[tp] = record.Committed{Offset: o, LeaderEpoch: 3, Metadata: "note"}
	}
	return r
}

func TestAdministratorSeesLagAndMovesOffsetsOfAnEmptyGroupOnly(t *testing.T) {
	partitions := map[string]int32{"t": 2}
	store := newFakeStore(map[string]int32{"t": 2, "u": 1})
	store.ends = record.Offsets{{Topic: "t"}: 10, {Topic: "t", Partition: 1}: 20}
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		to := record.Offsets{{Topic: "t"}: 4, {Topic: "t", Partition: 1}: 20}
		require.NoError(t, c.ResetOffsets(ctx, "g", to)) // creates the group
		require.ErrorIs(t, c.ResetOffsets(ctx, "g", record.Offsets{{Topic: "ghost"}: 1}), ErrUnknownTopicOrPartition)
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.EqualValues(t, 6, info.Lag())
		require.EqualValues(t, 10, info.Offsets[record.TopicPartition{Topic: "t"}].End)

		m := newClient(c, "g", assignor.Range(), partitions).start()
		waitGroup(t, c, StableWith(1))
		require.ErrorIs(t, c.ResetOffsets(ctx, "g", to), ErrNonEmptyGroup)
		require.ErrorIs(t, c.DeleteGroup(ctx, "g"), ErrNonEmptyGroup)
		errs, err := c.DeleteOffsets(ctx, "g", tps("t", 0)[0], tps("u", 0)[0], tps("ghost", 0)[0])
		require.NoError(t, err)
		require.ErrorIs(t, errs[tps("t", 0)[0]], ErrGroupSubscribedToTopic)
		require.NoError(t, errs[tps("u", 0)[0]])
		require.ErrorIs(t, errs[tps("ghost", 0)[0]], ErrUnknownTopicOrPartition)
		m.stop(t)

		errs, err = c.DeleteOffsets(ctx, "g", tps("t", 0)[0])
		require.NoError(t, err)
		require.NoError(t, errs[tps("t", 0)[0]])
		require.EqualValues(t, -1, committed(t, c, "g", tps("t", 0)[0]))
		require.NoError(t, c.DeleteGroup(ctx, "g"))
		require.ErrorIs(t, c.DeleteGroup(ctx, "g"), ErrGroupNotFound)
		require.EqualValues(t, -1, committed(t, c, "g", tps("t", 1)[0]))
	})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) { // tombstones are durable
		groups, err := c.Groups(ctx)
		require.NoError(t, err)
		require.Empty(t, groups)
	})
}

func TestWaitGroupEndsWithItsContextAndWithTheCoordinator(t *testing.T) {
	inBubble(t, newFakeStore(nil), Config{}, func(t *testing.T, c *Coordinator) {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		info, err := c.WaitGroup(short, "g", StableWith(1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, Info{ID: "g", State: Dead}, info)
		result := make(chan error)
		go func() {
			_, err := c.WaitGroup(ctx, "g", StableWith(1))
			result <- err
		}()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-result, ErrClosed)
	})
}

func TestCloseEndsEveryCallWithErrClosed(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1})
	inBubble(t, store, Config{InitialRebalanceDelay: time.Hour}, func(t *testing.T, c *Coordinator) {
		results := make(chan error)
		go func() {
			_, err := c.Join(ctx, JoinRequest{Group: "g", ProtocolType: "consumer", SessionTimeout: time.Minute, Protocols: []assignor.Protocol{{Name: "range", Metadata: nil}}})
			results <- err
		}()
		synctest.Wait()
		store.with(func(f *fakeStore) { f.syncTime = time.Hour })
		go func() {
			_, err := c.CommitOffsets(ctx, commitOf("h", record.Offsets{{Topic: "t"}: 1}))
			results <- err
		}()
		synctest.Wait()
		done := make(chan error)
		for range 2 {
			go func() { done <- c.Close() }()
		}
		require.ErrorIs(t, <-results, ErrClosed)
		require.ErrorIs(t, <-results, ErrClosed)
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		_, err := c.FetchOffsets(ctx, "g", nil)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g"}), ErrClosed)
		_, err = c.Join(ctx, JoinRequest{Group: "new", ProtocolType: "consumer", SessionTimeout: time.Minute, Protocols: []assignor.Protocol{{Name: "range", Metadata: nil}}})
		require.ErrorIs(t, err, ErrClosed)
		time.Sleep(2 * time.Hour) // the log answers at last
	})
}

func TestIdleCoordinatorHoldsNoTimersAndOneGoroutine(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{}, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 1}))
		require.NoError(t, c.DeleteGroup(ctx, "g"))
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, s := range c.runtime.Known() {
			require.True(t, s.Idle())
		}
	})
}

func TestBadConfigsAreRefusedWithEveryComplaint(t *testing.T) {
	_, err := NewCoordinator(newFakeStore(nil), Config{MaxSize: -1, MinSessionTimeout: time.Hour, MaxSessionTimeout: time.Minute, ExpiryInterval: -5})
	require.ErrorContains(t, err, "MaxSize")
	require.ErrorContains(t, err, "MinSessionTimeout")
	require.ErrorContains(t, err, "ExpiryInterval")
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{}, func(t *testing.T, c *Coordinator) {
		good := JoinRequest{Group: "g", ProtocolType: "consumer", SessionTimeout: 10 * time.Second, Protocols: []assignor.Protocol{{Name: "range", Metadata: nil}}}
		for name, x := range map[string]struct {
			spoil func(r *JoinRequest)
			want  error
		}{
			"group":      {func(r *JoinRequest) { r.Group = "" }, ErrInvalidGroupID},
			"long group": {func(r *JoinRequest) { r.Group = strings.Repeat("x", 40_000) }, ErrInvalidGroupID},
			"short":      {func(r *JoinRequest) { r.SessionTimeout = time.Second }, ErrInvalidSessionTimeout},
			"long":       {func(r *JoinRequest) { r.SessionTimeout = time.Hour }, ErrInvalidSessionTimeout},
			"member":     {func(r *JoinRequest) { r.MemberID = "x" }, ErrUnknownMember},
			"protocols":  {func(r *JoinRequest) { r.Protocols = nil }, ErrInconsistentProtocol},
			"type":       {func(r *JoinRequest) { r.ProtocolType = "" }, ErrInconsistentProtocol},
			"client id":  {func(r *JoinRequest) { r.ClientID = strings.Repeat("x", 40_000) }, errFieldTooLong},
		} {
			r := good
			x.spoil(&r)
			_, err := c.Join(ctx, r)
			require.ErrorIs(t, err, x.want, name)
		}
		_, err := c.Sync(ctx, SyncRequest{Group: "none", MemberID: "m"})
		require.ErrorIs(t, err, ErrUnknownMember)
		errs, err := c.Leave(ctx, LeaveRequest{Group: "none", Members: make([]LeaveMember, 2)})
		require.NoError(t, err)
		require.Equal(t, []error{ErrUnknownMember, ErrUnknownMember}, errs)
		r := commitOf("none", record.Offsets{{Topic: "t"}: 1})
		r.Generation = 3
		_, err = c.CommitOffsets(ctx, r)
		require.ErrorIs(t, err, ErrIllegalGeneration)
		require.ErrorIs(t, err, ErrGroupNotFound)
	})
}

func TestWatchersAreForgotten(t *testing.T) {
	inBubble(t, newFakeStore(nil), Config{}, func(t *testing.T, c *Coordinator) {
		_, err := c.WaitGroup(ctx, "g", func(Info) bool { return true })
		require.NoError(t, err)
		for _, s := range c.runtime.Known() {
			require.True(t, s.Idle())
		}
	})
}

func TestOffsetsPartitionIsKnownOnceThereIsAnOffsetsTopic(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{OffsetsPartitions: 7}, func(t *testing.T, c *Coordinator) {
		_, err := c.OffsetsPartition(ctx, "g", false)
		require.ErrorIs(t, err, ErrNotCoordinator)
		for _, create := range []bool{true, false} {
			p, err := c.OffsetsPartition(ctx, "g", create)
			require.NoError(t, err)
			require.Equal(t, offsets.PartitionFor("g", 7), p)
		}
		_, err = c.Describe(ctx, "g")
		require.ErrorIs(t, err, ErrGroupNotFound)
		commit(t, c, commitOf("g", record.Offsets{tps("t", 0)[0]: 1}))
		info, err := c.Describe(ctx, "g")
		require.NoError(t, err)
		require.Equal(t, Info{ID: "g", Type: Classic, State: Empty}, info)
	})
}
