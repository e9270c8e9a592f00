package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
)

func TestClassicMembersOfAConsumerGroupAreAnsweredAsInKafka(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		require.Zero(t, c.beat(c.beatRequest(s, "g", "m1", 0)).ErrorCode)
		r := joinAs(9, "g", "", nil)
		r.Protocols[0].Metadata = nil
		first := c.join(r)
		require.Equal(t, MemberIDRequired, Code(first.ErrorCode), "what it subscribes to is looked at when it comes with its id")
		require.NotEmpty(t, first.MemberID)
		r = joinAs(9, "g", first.MemberID, nil)
		r.ProtocolType = "connect"
		got := c.join(r)
		require.Equal(t, []any{InconsistentGroupProtocol, ""}, []any{Code(got.ErrorCode), got.MemberID})

		c.alone("classic")
		got = c.join(joinAs(9, "classic", "nobody", nil))
		require.Equal(t, []any{UnknownMemberID, "nobody"}, []any{Code(got.ErrorCode), got.MemberID}, "a classic group tells the id")
	})
}

// The coordinator of the newer protocol has no place for an assignor's user data, so the upgrade
// would lose them. Kafka rejects it too.
func TestClassicGroupWhoseAssignorTellsMoreThanPartitionsIsNotUpgraded(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		first := c.join(joinAs(9, "g", "", nil))
		joined := c.join(joinAs(9, "g", first.MemberID, nil))
		share := assignor.Assignment{Partitions: []record.TopicPartition{{Topic: "t"}}, UserData: []byte{0}}.AppendTo(nil)
		require.Zero(t, c.sync(5, "g", first.MemberID, joined.Generation, map[string]string{first.MemberID: string(share)}).ErrorCode)

		refused := c.beat(c.beatRequest(s, "g", "m1", 0))
		require.Equal(t, GroupIDNotFound, Code(refused.ErrorCode))
		require.Equal(t, "Cannot upgrade classic group g to consumer group because an unsupported custom assignor is in use. "+
			"Please refer to the documentation or switch to a default assignor before re-attempting the upgrade.", *refused.ErrorMessage)
		require.Equal(t, "Stable", c.state("g"))

		require.Zero(t, c.leave(5, "g", kmsg.LeaveGroupRequestMember{MemberID: first.MemberID}).ErrorCode)
		require.Zero(t, c.beat(c.beatRequest(s, "g", "m1", 0)).ErrorCode, "nobody is in it now")

		c.alone("unreadable")
		refused = c.beat(c.beatRequest(s, "unreadable", "m1", 0))
		require.Equal(t, "Cannot upgrade classic group unreadable to consumer group because the embedded consumer protocol is malformed.", *refused.ErrorMessage)
	})
}

func TestUnknownTopicIDsAreToldAfterTheOthers(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		id, ok := s.cluster.TopicID("t")
		require.True(t, ok)
		r := fetchOf(10, "g", "", 0)
		known := r.Groups[0].Topics[0]
		known.TopicID = id
		unknown := known
		unknown.TopicID = [16]byte{9}
		r.Groups[0].Topics = []kmsg.OffsetFetchRequestGroupTopic{unknown, known}
		got := c.ask(r).(*kmsg.OffsetFetchResponse).Groups[0].Topics
		require.Len(t, got, 2)
		require.Equal(t, []any{[16]byte(id), [16]byte{9}}, []any{got[0].TopicID, got[1].TopicID})
		require.Equal(t, []Code{0, UnknownTopicID}, []Code{Code(got[0].Partitions[0].ErrorCode), Code(got[1].Partitions[0].ErrorCode)})
	})
}

// TxnOffsetCommit has no STALE_MEMBER_EPOCH.
func TestOffsetsOfAStaleMemberInATransactionAreOfAnIllegalGeneration(t *testing.T) {
	_, addr := serve(t, Config{})
	createTopic(t, addr, "orders", 1)
	require.Zero(t, ask[*kmsg.FindCoordinatorResponse](t, addr, 3, &kmsg.FindCoordinatorRequest{CoordinatorKey: "g"}).ErrorCode)
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis, beat.SubscribedTopicNames = "g", "m1", 20_000, []string{"orders"}
	beat.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	member := ask[*kmsg.ConsumerGroupHeartbeatResponse](t, addr, 1, beat)
	require.Zero(t, member.ErrorCode)
	p := beginTxn(t, addr, "id")
	commit := func(memberID string, epoch int32) Code {
		req, rt, rp := kmsg.NewPtrTxnOffsetCommitRequest(), kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group, rt.Topic, rp.Offset = p.id, p.pid, p.epoch, "g", "orders", 5
		req.MemberID, req.Generation = memberID, epoch
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		return Code(ask[*kmsg.TxnOffsetCommitResponse](t, addr, 5, req).Topics[0].Partitions[0].ErrorCode)
	}
	require.Equal(t, IllegalGeneration, commit("m1", member.MemberEpoch+1))
	require.Equal(t, UnknownMemberID, commit("m2", member.MemberEpoch))
	require.Zero(t, commit("m1", member.MemberEpoch))
}
