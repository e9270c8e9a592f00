package group

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

func commit(t testing.TB, c *Coordinator, r CommitRequest) {
	t.Helper()
	errs, err := c.CommitOffsets(ctx, r)
	require.NoError(t, err)
	for tp, err := range errs {
		require.NoError(t, err, "%v", tp)
	}
}

func committed(t testing.TB, c *Coordinator, group string, tp record.TopicPartition) int64 {
	t.Helper()
	got, err := c.FetchOffsets(ctx, group, []record.TopicPartition{tp})
	require.NoError(t, err)
	return got[tp].Offset
}

func TestNewGroupHasNoOffsets(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 2}), Config{}, func(t *testing.T, c *Coordinator) {
		got, err := c.FetchOffsets(ctx, "g", tps("t", 0, 1))
		require.NoError(t, err)
		none := record.Committed{Offset: -1, LeaderEpoch: -1}
		require.Equal(t, map[record.TopicPartition]record.Committed{tps("t", 0)[0]: none, tps("t", 1)[0]: none}, got)
		require.Nil(t, c.runtime.Known(), "reading makes no offsets topic")
		_, err = c.Group(ctx, "g")
		require.ErrorIs(t, err, ErrGroupNotFound)
	})
}

func TestCommittedOffsetsAreThereAfterARestart(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 2}), tps("t", 1)[0]
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{tp: 42}))
		commit(t, c, commitOf("h", record.Offsets{tp: 7}))
		commit(t, c, commitOf("g", record.Offsets{tp: 43}))
	})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		got, err := c.FetchOffsets(ctx, "g", nil)
		require.NoError(t, err)
		require.Equal(t, map[record.TopicPartition]record.Committed{tp: {Offset: 43, LeaderEpoch: 3, Metadata: "note"}}, got)
		require.EqualValues(t, 7, committed(t, c, "h", tp))
		groups, err := c.Groups(ctx)
		require.NoError(t, err)
		require.Len(t, groups, 2)
		require.Equal(t, Info{ID: "g", Type: Classic, State: Empty}, groups[0])
	})
}

func TestCommitIsRefusedPartitionByPartition(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{}, func(t *testing.T, c *Coordinator) {
		r := commitOf("g", record.Offsets{{Topic: "t"}: 1, {Topic: "t", Partition: 1}: 1, {Topic: "ghost"}: 1, {Topic: "t", Partition: -1}: 1})
		errs, err := c.CommitOffsets(ctx, r)
		require.NoError(t, err)
		require.Len(t, errs, 4)
		require.NoError(t, errs[record.TopicPartition{Topic: "t"}])
		for _, tp := range []record.TopicPartition{{Topic: "t", Partition: 1}, {Topic: "ghost"}, {Topic: "t", Partition: -1}} {
			require.ErrorIs(t, errs[tp], ErrUnknownTopicOrPartition)
		}
		tp := record.TopicPartition{Topic: "t"}
		r.Offsets = map[record.TopicPartition]record.Committed{tp: {Offset: 9, Metadata: strings.Repeat("é", 4097)}}
		errs, err = c.CommitOffsets(ctx, r)
		require.NoError(t, err)
		require.ErrorIs(t, errs[tp], ErrOffsetMetadataTooLarge)
		var tooLarge *MetadataTooLargeError
		require.ErrorAs(t, errs[tp], &tooLarge)
		require.Equal(t, 4097, tooLarge.Length)
		require.EqualValues(t, 1, committed(t, c, "g", tp))
		// offsets are not checked
		r.Offsets = map[record.TopicPartition]record.Committed{tp: {Offset: -5, Metadata: strings.Repeat("é", 4096)}}
		commit(t, c, r)
		require.EqualValues(t, -5, committed(t, c, "g", tp))
	})
}

func TestRequestThatDoesNotFitInABatchChangesNothing(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1000}), Config{MaxBatchBytes: 10_000}, func(t *testing.T, c *Coordinator) {
		all := record.Offsets{}
		for p := range int32(1000) {
			all[record.TopicPartition{Topic: "t", Partition: p}] = 1
		}
		_, err := c.CommitOffsets(ctx, commitOf("g", all))
		require.ErrorIs(t, err, ErrTooLarge)
		_, err = c.Group(ctx, "g")
		require.ErrorIs(t, err, ErrGroupNotFound)
		commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 1}))
	})
}

func TestDeletedTopicTakesItsOffsetsAlong(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1, "u": 1})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		all := record.Offsets{{Topic: "t"}: 1, {Topic: "u"}: 2}
		commit(t, c, commitOf("g", all))
		commit(t, c, commitOf("h", record.Offsets{{Topic: "t"}: 3}))
		store.set("t", TopicInfo{})
		synctest.Wait()
		got, err := c.FetchOffsets(ctx, "g", nil)
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.EqualValues(t, 2, got[record.TopicPartition{Topic: "u"}].Offset)
		_, err = c.Group(ctx, "h") // it had no other offset
		require.ErrorIs(t, err, ErrGroupNotFound)
		store.set("t", TopicInfo{ID: [16]byte{99}, Partitions: 1})
		require.EqualValues(t, -1, committed(t, c, "g", record.TopicPartition{Topic: "t"}))
	})
}

func TestOffsetOfAnEarlierTopicOfThatNameIsNotReturned(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 1}), record.TopicPartition{Topic: "t"}
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) { commit(t, c, commitOf("g", record.Offsets{tp: 5})) })
	// deleted and created again while no coordinator ran
	store.topics.Topics["t"] = TopicInfo{ID: [16]byte{77}, Partitions: 1}
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		require.EqualValues(t, -1, committed(t, c, "g", tp))
	})
}

func TestShiftLeavesOffsetsOfAnEarlierTopicOfThatName(t *testing.T) {
	kept, again, never := at("kept"), at("again"), at("never")
	store := newFakeStore(map[string]int32{"kept": 1, "again": 1, "never": 1})
	store.ends = record.Offsets{kept: 10, again: 10, never: 10}
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{kept: 5, again: 5}))
	})
	store.topics.Topics["again"] = TopicInfo{ID: [16]byte{77}, Partitions: 1} // deleted and created while no coordinator ran
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		moved, err := c.RewindGroup(ctx, "g", ShiftBy(-2), kept, again, never)
		require.NoError(t, err)
		require.Equal(t, record.Offsets{kept: 3}, moved)
		for tp, want := range map[record.TopicPartition]int64{kept: 3, again: -1, never: -1} {
			require.Equal(t, want, committed(t, c, "g", tp), "%v", tp)
		}
	})
}

func at(topic string) record.TopicPartition { return record.TopicPartition{Topic: topic} }

// A member whose subscription is unreadable may read any topic: no offset is deleted or expires
// while it is there.
func TestMemberWithAnUnreadableSubscriptionKeepsAllOffsets(t *testing.T) {
	offsets := record.Offsets{at("t"): 1, at("u"): 2}
	inBubble(t, newFakeStore(map[string]int32{"t": 1, "u": 1}), Config{OffsetsRetention: time.Hour}, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", offsets))
		id, generation := joinRaw(t, c, []byte{0}) // half a version
		errs, err := c.DeleteOffsets(ctx, "g", at("t"), at("u"))
		require.NoError(t, err)
		for tp := range offsets {
			require.ErrorIs(t, errs[tp], ErrGroupSubscribedToTopic)
		}
		for range 180 {
			time.Sleep(time.Minute)
			require.NoError(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: id, Generation: generation}))
		}
		for tp, want := range offsets {
			require.Equal(t, want, committed(t, c, "g", tp))
		}
	})
}

// joinRaw adds the only member of group g, whose subscription is metadata.
func joinRaw(t *testing.T, c *Coordinator, metadata []byte) (id string, generation int32) {
	t.Helper()
	join := JoinRequest{Group: "g", ProtocolType: ProtocolTypeConsumer, SessionTimeout: 5 * time.Minute, RebalanceTimeout: time.Minute,
		Protocols: []assignor.Protocol{{Name: "range", Metadata: metadata}}}
	joined, err := c.Join(ctx, join)
	require.NoError(t, err)
	_, err = c.Sync(ctx, SyncRequest{Group: "g", MemberID: joined.MemberID, Generation: joined.Generation})
	require.NoError(t, err)
	return joined.MemberID, joined.Generation
}

func TestOffsetsAreKeptForEverUnlessRetentionIsSet(t *testing.T) {
	for _, retention := range []time.Duration{0, 7 * 24 * time.Hour} {
		inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{OffsetsRetention: retention}, func(t *testing.T, c *Coordinator) {
			commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 1}))
			time.Sleep(7*24*time.Hour - time.Hour)
			require.EqualValues(t, 1, committed(t, c, "g", record.TopicPartition{Topic: "t"}))
			time.Sleep(30 * 24 * time.Hour)
			_, err := c.Group(ctx, "g")
			if retention == 0 {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrGroupNotFound)
			}
		})
	}
}

func TestOffsetsDoNotExpireWhileTheGroupReadsTheTopic(t *testing.T) {
	partitions := map[string]int32{"t": 1}
	store := newFakeStore(map[string]int32{"t": 1, "u": 1})
	inBubble(t, store, Config{OffsetsRetention: time.Hour}, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 1, {Topic: "u"}: 2}))
		m := newClient(c, "g", assignor.Range(), partitions).start()
		time.Sleep(2 * time.Hour)
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.Len(t, info.Offsets, 1) // u is not subscribed to any more
		require.EqualValues(t, 1, info.Offsets[record.TopicPartition{Topic: "t"}].Offset)
		m.stop(t)
		time.Sleep(50 * time.Minute)
		require.EqualValues(t, 1, committed(t, c, "g", record.TopicPartition{Topic: "t"}))
		time.Sleep(30 * time.Minute)
		_, err = c.Group(ctx, "g")
		require.ErrorIs(t, err, ErrGroupNotFound)
	})
}

func TestRefusedCommitStillTellsWhichPartitionsDoNotExist(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{}, func(t *testing.T, c *Coordinator) {
		there, gone := tps("t", 0)[0], tps("t", 1)[0]
		r := commitOf("g", record.Offsets{there: 1, gone: 1})
		r.MemberID, r.Generation = "m", 1
		errs, err := c.CommitOffsets(ctx, r)
		require.ErrorIs(t, err, ErrGroupNotFound)
		require.Equal(t, map[record.TopicPartition]error{gone: ErrUnknownTopicOrPartition}, errs)
		r = commitOf("g", record.Offsets{gone: 1})
		r.MemberID, r.Generation = "m", 1
		errs, err = c.CommitOffsets(ctx, r)
		require.NoError(t, err, "the group is not asked")
		require.Equal(t, map[record.TopicPartition]error{gone: ErrUnknownTopicOrPartition}, errs)
	})
}
