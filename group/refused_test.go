package group

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
)

// A static member's successor has a subscription that does not fit in a batch. It is rejected, and
// the predecessor stays a member with its offsets.
func TestRefusedSuccessorDoesNotFenceAStaticMember(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1})
	inBubble(t, store, Config{MaxBatchBytes: 2000}, func(t *testing.T, c *Coordinator) {
		join := func(metadata string) (JoinResponse, error) {
			return c.Join(ctx, JoinRequest{Group: "g", InstanceID: "i", ClientHost: "/h", ProtocolType: "x", SessionTimeout: time.Minute,
				Protocols: []assignor.Protocol{{Name: "p", Metadata: []byte(metadata)}}})
		}
		first, err := join("small")
		require.NoError(t, err)
		_, err = c.Sync(ctx, SyncRequest{Group: "g", MemberID: first.MemberID, InstanceID: "i", Generation: first.Generation})
		require.NoError(t, err)
		_, err = join(strings.Repeat("x", 3000))
		require.ErrorIs(t, err, ErrTooLarge)
		require.NoError(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: first.MemberID, InstanceID: "i", Generation: first.Generation}))
		r := commitOf("g", record.Offsets{{Topic: "t"}: 5})
		r.MemberID, r.InstanceID, r.Generation = first.MemberID, "i", first.Generation
		commit(t, c, r)
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.Equal(t, first.MemberID, info.Leader)
		require.Equal(t, "small", string(info.Members[0].SubscriptionData))
		second, err := join("other")
		require.NoError(t, err, "one that fits takes its place")
		require.ErrorIs(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: first.MemberID, InstanceID: "i", Generation: first.Generation}), ErrFencedInstance)
		require.NotEqual(t, first.MemberID, second.MemberID)
	})
}

// An assignment that does not fit in a batch is rejected and leaves the group unchanged: the next
// Sync of the group leader, with a smaller one, succeeds.
func TestRefusedAssignmentLeavesTheGroupWhole(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1})
	inBubble(t, store, Config{MaxBatchBytes: 2000}, func(t *testing.T, c *Coordinator) {
		joined, err := c.Join(ctx, JoinRequest{Group: "g", ClientHost: "/h", ProtocolType: "x", SessionTimeout: time.Minute, Protocols: []assignor.Protocol{{Name: "p"}}})
		require.NoError(t, err)
		sync := SyncRequest{Group: "g", MemberID: joined.MemberID, Generation: joined.Generation, Assignments: map[string][]byte{joined.MemberID: make([]byte, 3000)}}
		_, err = c.Sync(ctx, sync)
		require.ErrorIs(t, err, ErrTooLarge)
		sync.Assignments[joined.MemberID] = []byte("A")
		resp, err := c.Sync(ctx, sync)
		require.NoError(t, err)
		require.Equal(t, "A", string(resp.Assignment))
	})
}

// A commit is confirmed when it is durable: not before the log has answered, and then the next
// process has it.
func TestCommitIsConfirmedWhenItIsDurableAndNotBefore(t *testing.T) {
	tp := record.TopicPartition{Topic: "t"}
	store := newFakeStore(map[string]int32{"t": 1})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		store.with(func(f *fakeStore) { f.syncTime = time.Second })
		begin := time.Now()
		commit(t, c, commitOf("g", record.Offsets{tp: 5}))
		require.Equal(t, time.Second, time.Since(begin))
		reopened(t, store, Config{}, func(next *Coordinator) { require.Equal(t, int64(5), committed(t, next, "g", tp)) })

		held := make(chan struct{})
		store.with(func(f *fakeStore) { f.blocked = held })
		done := make(chan error)
		go func() {
			_, err := c.CommitOffsets(ctx, commitOf("g", record.Offsets{tp: 6}))
			done <- err
		}()
		select {
		case <-done:
			t.Fatal("confirmed although nothing is written")
		case <-time.After(time.Minute):
		}
		reopened(t, store, Config{}, func(next *Coordinator) { require.Equal(t, int64(5), committed(t, next, "g", tp)) })
		close(held)
		require.NoError(t, <-done)
		reopened(t, store, Config{}, func(next *Coordinator) { require.Equal(t, int64(6), committed(t, next, "g", tp)) })
	})
}
