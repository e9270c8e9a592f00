package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/offsets"
)

// fakeStates keeps the start offset of each share-partition, by topic-partition.
type fakeStates struct {
	mu    sync.Mutex
	there map[string]int64
	err   error
}

func (f *fakeStates) each(topics []offsets.ShareStatesTopic, do func(key string)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range topics {
		for _, p := range t.Partitions {
			if f.err == nil {
				do(fmt.Sprintf("%s-%d", t.Topic, p))
			}
		}
	}
	return f.err
}

func (f *fakeStates) Begin(_ context.Context, _ string, topics []offsets.ShareStatesTopic) error {
	return f.each(topics, func(key string) {
		if _, ok := f.there[key]; !ok {
			f.there[key] = -1
		}
	})
}

func (f *fakeStates) Delete(_ context.Context, _ string, topics []offsets.ShareStatesTopic) error {
	return f.each(topics, func(key string) { delete(f.there, key) })
}

func (f *fakeStates) Reset(_ context.Context, _ string, p SharePartition, start int64) error {
	return f.each([]offsets.ShareStatesTopic{{Topic: p.Topic, Partitions: []int32{p.Partition}}}, func(key string) { f.there[key] = start })
}

func (f *fakeStates) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func shareJoin(member string, topics ...string) ShareHeartbeatRequest {
	return ShareHeartbeatRequest{Group: "g", MemberID: member, ClientHost: "/h", SubscribedTopics: topics}
}

// count returns the number of a member's partitions.
func count(ts []offsets.TopicIDPartitions) (n int) {
	for _, t := range ts {
		n += len(t.Partitions)
	}
	return n
}

// Checklist row S13.
func TestMembersOfAShareGroupTakeFromItsPartitionsTogether(t *testing.T) {
	store, states := newFakeStore(map[string]int32{"t": 2}), &fakeStates{there: map[string]int64{}}
	inBubble(t, store, Config{ShareStates: states}, func(t *testing.T, c *Coordinator) {
		one, err := c.ShareHeartbeat(t.Context(), shareJoin("m1", "t", "absent"))
		require.NoError(t, err)
		require.Equal(t, 2, count(one.Assignment), "a member that is alone has all, at once")
		require.Equal(t, map[string]int64{"t-0": -1, "t-1": -1}, states.there)
		require.Equal(t, 5*time.Second, one.HeartbeatInterval)
		time.Sleep(time.Second)
		for _, id := range []string{"m2", "m3", "m4"} {
			resp, err := c.ShareHeartbeat(t.Context(), shareJoin(id, "t"))
			require.NoError(t, err)
			require.NotNil(t, resp.Assignment)
		}
		time.Sleep(time.Second)
		epochs := map[string]int32{"m1": one.MemberEpoch}
		for _, id := range []string{"m1", "m2", "m3", "m4"} {
			resp, err := c.ShareHeartbeat(t.Context(), shareJoin(id, "t"))
			require.NoError(t, err)
			require.NotZero(t, count(resp.Assignment), "there may be more members than partitions")
			epochs[id] = resp.MemberEpoch
		}
		d, err := c.DescribeShareGroup(t.Context(), "g")
		require.NoError(t, err)
		require.Equal(t, []any{Stable, "simple", 4}, []any{d.State, d.Assignor, len(d.Members)})
		require.Equal(t, []string{"t"}, d.Members[0].Topics)
		info, err := c.Describe(t.Context(), "g")
		require.NoError(t, err)
		require.Equal(t, []any{Share, "share", Stable}, []any{info.Type, info.ProtocolType, info.State})

		store.set("t", TopicInfo{ID: store.topics.Topics["t"].ID, Partitions: 3})
		time.Sleep(time.Second)
		_, err = c.ShareHeartbeat(t.Context(), ShareHeartbeatRequest{Group: "g", MemberID: "m2", MemberEpoch: epochs["m2"]})
		require.NoError(t, err)
		require.Contains(t, states.there, "t-2", "a new partition gets its state first")

		time.Sleep(44500 * time.Millisecond)
		d, err = c.DescribeShareGroup(t.Context(), "g")
		require.NoError(t, err)
		require.Len(t, d.Members, 1, "those that were not heard of for 45 s are gone")
		resp, err := c.ShareHeartbeat(t.Context(), shareJoin("m2", "t"))
		require.NoError(t, err)
		require.Equal(t, 3, count(resp.Assignment))
		_, err = c.ShareHeartbeat(t.Context(), ShareHeartbeatRequest{Group: "g", MemberID: "m1", MemberEpoch: epochs["m1"]})
		require.ErrorIs(t, err, ErrUnknownMember)
		_, err = c.ShareHeartbeat(t.Context(), ShareHeartbeatRequest{Group: "g", MemberID: "m2", MemberEpoch: resp.MemberEpoch + 1})
		require.ErrorIs(t, err, ErrFencedMemberEpoch)
	})
}

// Checklist row S14.
func TestPartitionsOfAShareGroupAreAssignedOnceTheyHaveAState(t *testing.T) {
	store, states := newFakeStore(map[string]int32{"t": 2}), &fakeStates{there: map[string]int64{}, err: errors.New("no disk")}
	inBubble(t, store, Config{ShareStates: states}, func(t *testing.T, c *Coordinator) {
		one, err := c.ShareHeartbeat(t.Context(), shareJoin("m1", "t"))
		require.NoError(t, err)
		require.Empty(t, one.Assignment)
		states.fail(nil)
		beat := func(epoch int32) ShareHeartbeatResponse {
			time.Sleep(time.Second)
			resp, err := c.ShareHeartbeat(t.Context(), ShareHeartbeatRequest{Group: "g", MemberID: "m1", MemberEpoch: epoch})
			require.NoError(t, err)
			return resp
		}
		require.Nil(t, beat(one.MemberEpoch).Assignment)
		two := beat(one.MemberEpoch)
		require.Equal(t, 2, count(two.Assignment))
		require.Nil(t, beat(two.MemberEpoch).Assignment, "nothing has changed")
	})
}

// Checklist row S14.
func TestStatesOfAShareGroupGoWithIt(t *testing.T) {
	store, states := newFakeStore(map[string]int32{"t": 2, "u": 1}), &fakeStates{there: map[string]int64{}}
	tID, uID := store.topics.Topics["t"].ID, store.topics.Topics["u"].ID
	inBubble(t, store, Config{ShareStates: states}, func(t *testing.T, c *Coordinator) {
		_, err := c.ShareHeartbeat(t.Context(), shareJoin("m1", "t"))
		require.NoError(t, err)
		to := map[SharePartition]int64{{TopicID: uID, Topic: "u"}: 7}
		_, err = c.ResetShareOffsets(t.Context(), "g", to)
		require.ErrorIs(t, err, ErrNonEmptyGroup)
		require.ErrorIs(t, c.DeleteShareOffsets(t.Context(), "g", tID), ErrNonEmptyGroup)
		require.ErrorIs(t, c.DeleteGroup(t.Context(), "g"), ErrNonEmptyGroup)
		require.Len(t, states.there, 2)
		_, err = c.ShareHeartbeat(t.Context(), ShareHeartbeatRequest{Group: "g", MemberID: "m1", MemberEpoch: -1})
		require.NoError(t, err)

		errs, err := c.ResetShareOffsets(t.Context(), "g", to)
		require.NoError(t, err)
		require.Equal(t, map[SharePartition]error{{TopicID: uID, Topic: "u"}: nil}, errs)
		require.Equal(t, map[string]int64{"t-0": -1, "t-1": -1, "u-0": 7}, states.there)
		require.NoError(t, c.DeleteShareOffsets(t.Context(), "g", tID))
		require.ErrorIs(t, c.DeleteShareOffsets(t.Context(), "g", tID), ErrUnknownTopicOrPartition)
		left, err := c.ShareStatesOf(t.Context(), "g")
		require.NoError(t, err)
		require.Equal(t, []offsets.ShareStatesTopic{{TopicID: uID, Topic: "u", Partitions: []int32{0}}}, left)

		again, err := NewCoordinator(store, Config{ShareStates: states})
		require.NoError(t, err)
		defer checkEvents(t, again)()
		defer again.Close()
		states.fail(errors.New("no disk"))
		require.Error(t, again.DeleteGroup(t.Context(), "g"), "a group is not deleted before its states")
		states.fail(nil)
		require.NoError(t, again.DeleteGroup(t.Context(), "g"))
		require.Empty(t, states.there)
		_, err = again.DescribeShareGroup(t.Context(), "g")
		require.ErrorIs(t, err, ErrGroupNotFound)

		_, err = again.ResetShareOffsets(t.Context(), "new", to)
		require.NoError(t, err, "a group that does not exist is made")
		require.NoError(t, again.DeleteGroup(t.Context(), "new"))
		require.Empty(t, states.there)
	})
}

// Checklist row S13.
func TestGroupsOfOtherKindsDoNotBecomeShareGroups(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 2})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		_, err := c.ShareHeartbeat(t.Context(), shareJoin("m1", "t"))
		require.NoError(t, err)
		modern := ConsumerHeartbeatRequest{Group: "g", MemberID: "m", ClientHost: "/h", RebalanceTimeout: time.Minute, SubscribedTopics: []string{"t"}, Owned: []offsets.TopicIDPartitions{}}
		join := JoinRequest{Group: "g", ClientHost: "/h", SessionTimeout: 10 * time.Second, RebalanceTimeout: 10 * time.Second, ProtocolType: "consumer"}
		refused := func() {
			t.Helper()
			_, err := c.ConsumerHeartbeat(t.Context(), modern)
			require.ErrorIs(t, err, ErrGroupNotFound)
			_, err = c.Join(t.Context(), join)
			require.ErrorIs(t, err, ErrInconsistentProtocol)
			_, err = c.DescribeConsumerGroup(t.Context(), "g")
			require.ErrorIs(t, err, ErrGroupNotFound)
		}
		refused()
		_, err = c.ShareHeartbeat(t.Context(), ShareHeartbeatRequest{Group: "g", MemberID: "m1", MemberEpoch: -1})
		require.NoError(t, err)
		refused()

		modern.Group = "other"
		_, err = c.ConsumerHeartbeat(t.Context(), modern)
		require.NoError(t, err)
		share := shareJoin("m1", "t")
		share.Group = "other"
		for _, leave := range []bool{true, false} {
			_, err = c.ShareHeartbeat(t.Context(), share)
			require.ErrorIs(t, err, ErrGroupNotFound)
			_, err = c.ResetShareOffsets(t.Context(), "other", nil)
			require.ErrorIs(t, err, ErrGroupNotFound)
			if leave {
				_, err = c.ConsumerHeartbeat(t.Context(), ConsumerHeartbeatRequest{Group: "other", MemberID: "m", MemberEpoch: -1})
				require.NoError(t, err)
			}
		}
	})
}

// Checklist row S13.
func TestHeartbeatsOfShareGroupsThatMakeNoSenseAreRefused(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 2})
	inBubble(t, store, Config{ShareMaxSize: 1}, func(t *testing.T, c *Coordinator) {
		for name, r := range map[string]ShareHeartbeatRequest{
			"no group":  {MemberID: "m", SubscribedTopics: []string{"t"}},
			"no member": {Group: "g", SubscribedTopics: []string{"t"}},
			"epoch -2":  {Group: "g", MemberID: "m", MemberEpoch: -2, SubscribedTopics: []string{"t"}},
			"no topics": {Group: "g", MemberID: "m"},
		} {
			_, err := c.ShareHeartbeat(t.Context(), r)
			require.ErrorIs(t, err, ErrInvalidRequest, name)
		}
		_, err := c.ShareHeartbeat(t.Context(), ShareHeartbeatRequest{Group: "g", MemberID: "m", MemberEpoch: 3})
		require.ErrorIs(t, err, ErrGroupNotFound)
		_, err = c.ShareHeartbeat(t.Context(), shareJoin("m1", "t"))
		require.NoError(t, err)
		_, err = c.ShareHeartbeat(t.Context(), shareJoin("m2", "t"))
		require.ErrorIs(t, err, ErrGroupMaxSize)
		_, err = c.ShareHeartbeat(t.Context(), shareJoin("m1", "t"))
		require.NoError(t, err)
	})
}
