package modern

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/record"
)

// commitOf commits an offset of partition 0 of topic a, and returns the error of the request or of
// the partition.
func (m *model) commitOf(t *testing.T, member string, epoch int32) error {
	tp := record.TopicPartition{Topic: "a"}
	r := &protocol.CommitRequest{Group: "g", MemberID: member, Generation: epoch, Offsets: map[record.TopicPartition]record.Committed{tp: {Offset: 5}}}
	reply := m.step(t, classic.EventCommit{CommitRequest: r, TopicIDs: map[string][16]byte{"a": m.topics["a"].ID}, To: 3})
	if reply.Err != nil {
		return reply.Err
	}
	return reply.Value.(map[record.TopicPartition]error)[tp]
}

// Checklist row N24. The member was fenced, or gave its partitions up for lack of an answer. It
// reads from the group's offset again, and a late commit would set that back.
func TestLateCommitOfAMemberThatJoinedAgainIsRefused(t *testing.T) {
	m := newModel(0)
	first := m.join(t, "m1", "a")
	m.now = m.now.Add(time.Second)
	m.setTopic("a", 5)
	second, err := m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", MemberEpoch: first.MemberEpoch, RebalanceTimeout: -1, Owned: first.Assignment})
	require.NoError(t, err)
	require.Greater(t, second.MemberEpoch, first.MemberEpoch)
	require.NoError(t, m.commitOf(t, "m1", first.MemberEpoch), "it has had the partition all the time")

	again := m.join(t, "m1", "a")
	require.Equal(t, second.Assignment, again.Assignment)
	require.ErrorIs(t, m.commitOf(t, "m1", first.MemberEpoch), protocol.ErrStaleMemberEpoch)
	require.NoError(t, m.commitOf(t, "m1", again.MemberEpoch))
}

// Checklist row N24. A classic member whose Join skipped a generation drops its partitions, which
// the group cannot notice.
func TestClassicMemberCommitsInItsGenerationOnly(t *testing.T) {
	m := newModel(0)
	m.join(t, "m1", "b") // a member of the newer protocol, so that the group uses it
	join := func() protocol.JoinResponse {
		m.now = m.now.Add(time.Second)
		r := &protocol.JoinRequest{Group: "g", MemberID: "m2", ProtocolType: protocol.ProtocolTypeConsumer, SessionTimeout: time.Minute, RebalanceTimeout: time.Minute,
			Protocols: []assignor.Protocol{{Name: "range", Metadata: assignor.SubscriptionFor(assignor.Range(), []string{"a"}, nil, -1, "")}}}
		if m.g.members["m2"] == nil {
			r.MemberID = ""
		}
		reply := m.step(t, EventJoin{JoinRequest: r, NewID: "m2", Topics: NewTopics(m.version, m.topics), To: 1})
		require.NoError(t, reply.Err)
		return reply.Value.(protocol.JoinResponse)
	}
	first := join()
	require.NoError(t, m.commitOf(t, "m2", first.Generation))
	m.setTopic("a", 5)
	second := join()
	require.Greater(t, second.Generation, first.Generation)
	require.ErrorIs(t, m.commitOf(t, "m2", first.Generation), protocol.ErrIllegalGeneration)
	require.NoError(t, m.commitOf(t, "m2", second.Generation))
}
