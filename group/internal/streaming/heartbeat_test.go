package streaming

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// ask sends a heartbeat of a member, after edit has changed it.
func (m *model) ask(t require.TestingT, id string, epoch int32, edit func(*protocol.StreamsHeartbeatRequest)) (protocol.StreamsHeartbeatResponse, error) {
	r := &protocol.StreamsHeartbeatRequest{Group: "g", MemberID: id, MemberEpoch: epoch, ClientID: "c", ClientHost: "/h", RebalanceTimeout: -1}
	if epoch == joinEpoch {
		process := "p-" + id
		r.Topology, r.RebalanceTimeout, r.ProcessID, r.Owned = m.topology, 10*time.Second, &process, &offsets.StreamsTaskRoles{}
	}
	if edit != nil {
		edit(r)
	}
	reply := m.step(t, EventHeartbeat{StreamsHeartbeatRequest: r, Topics: modern.NewTopics(m.version, m.topics), To: 1})
	resp, _ := reply.Value.(protocol.StreamsHeartbeatResponse)
	m.missing = resp.Missing
	return resp, reply.Err
}

// joined returns a group whose only member, m, has all tasks, and the member's epoch.
func joined(t *testing.T) (*model, int32) {
	m := newModel(0, 0)
	m.settings.Delay = 0
	_, err := m.ask(t, "m", joinEpoch, nil)
	require.NoError(t, err)
	m.create()
	m.now = m.now.Add(time.Second)
	resp, err := m.ask(t, "m", m.g.members["m"].epoch, nil)
	require.NoError(t, err)
	require.Equal(t, []int{3, 3, 2}, perSubtopology(resp.Assignment))
	return m, resp.MemberEpoch
}

func perSubtopology(a *offsets.StreamsTaskRoles) (n []int) {
	for _, tasks := range a.Active {
		n = append(n, len(tasks.Partitions))
	}
	return n
}

func codes(statuses []protocol.StreamsStatus) (out []protocol.StreamsStatusCode) {
	for _, s := range statuses {
		out = append(out, s.Code)
	}
	return out
}

// Checklist row S27.
func TestTasksWaitForMoreMembersAndForTopics(t *testing.T) {
	m := newModel(0, 0)
	resp, err := m.ask(t, "m1", joinEpoch, nil)
	require.NoError(t, err)
	require.Equal(t, []protocol.StreamsStatusCode{protocol.AssignmentDelayed, protocol.MissingInternalTopics}, codes(resp.Statuses))
	require.Equal(t, int32(initialEpoch), resp.MemberEpoch)
	require.Empty(t, resp.Assignment.Active)
	require.Equal(t, []string{"counts", "r", "table"}, []string{m.missing[0].Name, m.missing[1].Name, m.missing[2].Name})
	require.Equal(t, protocol.NotReady, m.g.State())
	m.create()
	m.now = m.now.Add(2 * time.Second)
	m.step(t, classic.EventTick{})
	resp, err = m.ask(t, "m2", joinEpoch, nil)
	require.NoError(t, err)
	require.Equal(t, []protocol.StreamsStatusCode{protocol.AssignmentDelayed}, codes(resp.Statuses))
	require.Equal(t, protocol.Assigning, m.g.State())
	m.now = m.now.Add(time.Second)
	m.step(t, classic.EventTick{}) // the delay has passed: both have a target at once
	require.Len(t, m.g.target["m1"][active], 4)
	require.Len(t, m.g.target["m2"][active], 4)
	require.Equal(t, protocol.Reconciling, m.g.State())
	for _, id := range []string{"m1", "m2"} {
		resp, err = m.ask(t, id, initialEpoch, nil)
		require.NoError(t, err)
		require.Empty(t, resp.Statuses)
		require.Equal(t, m.g.epoch, resp.MemberEpoch)
	}
	require.Equal(t, protocol.Stable, m.g.State())
	resp, err = m.ask(t, "m3", joinEpoch, nil)
	require.NoError(t, err)
	require.Equal(t, []protocol.StreamsStatusCode{protocol.AssignmentDelayed}, codes(resp.Statuses), "a target is computed once a second")
	require.Contains(t, resp.Statuses[0].Detail, "assignment interval")
}

// Checklist row S25.
func TestTasksAreFreeWhenWhoHadThemSaysSo(t *testing.T) {
	m, epoch := joined(t)
	m.now = m.now.Add(time.Second)
	resp, err := m.ask(t, "n", joinEpoch, nil)
	require.NoError(t, err)
	require.Empty(t, resp.Assignment.Active, "m has not heard of it")
	joined := resp.MemberEpoch
	less, err := m.ask(t, "m", epoch, nil)
	require.NoError(t, err)
	require.Len(t, m.g.members["m"].assigned[active], 4)
	again := func(n int) {
		_, err := m.ask(t, "n", joined, nil)
		require.NoError(t, err)
		require.Len(t, m.g.members["n"].assigned[active], n)
	}
	again(0) // m still owns them
	_, err = m.ask(t, "m", less.MemberEpoch, func(r *protocol.StreamsHeartbeatRequest) { r.Owned = less.Assignment })
	require.NoError(t, err)
	again(4)
}

// Checklist row S27.
func TestMemberOfAStreamsGroupInAnotherEpochIsFenced(t *testing.T) {
	m, epoch := joined(t)
	previous := m.g.members["m"].previous
	require.NotEqual(t, epoch, previous)
	_, err := m.ask(t, "m", epoch+1, nil)
	require.ErrorIs(t, err, protocol.ErrFencedMemberEpoch)
	require.ErrorContains(t, err, "greater member epoch")
	_, err = m.ask(t, "m", previous, nil)
	require.ErrorIs(t, err, protocol.ErrFencedMemberEpoch, "who knows what it has")
	own := func(partition int32) func(*protocol.StreamsHeartbeatRequest) {
		return func(r *protocol.StreamsHeartbeatRequest) {
			r.Owned = &offsets.StreamsTaskRoles{Active: []offsets.StreamsTasks{{Subtopology: "0", Partitions: []int32{partition}}}}
		}
	}
	resp, err := m.ask(t, "m", previous, own(0))
	require.NoError(t, err, "it has not heard of the last answer")
	require.Equal(t, epoch, resp.MemberEpoch)
	require.Equal(t, []int{3, 3, 2}, perSubtopology(resp.Assignment), "it is told again what it has")
	for partition, text := range map[int32]string{3: "Task 3 for subtopology 0 is invalid. Number of tasks for this subtopology: 3", -1: "Task -1 for subtopology 0 is invalid. Number of tasks for this subtopology: 3"} {
		_, err = m.ask(t, "m", epoch, own(partition))
		require.ErrorIs(t, err, protocol.ErrInvalidRequest)
		require.ErrorContains(t, err, text)
	}
	_, err = m.ask(t, "m", epoch, func(r *protocol.StreamsHeartbeatRequest) {
		r.Owned = &offsets.StreamsTaskRoles{Active: []offsets.StreamsTasks{{Subtopology: "9", Partitions: []int32{0}}}}
	})
	require.ErrorContains(t, err, "Subtopology 9 does not exist in the topology.")
	_, err = m.ask(t, "other", 1, nil)
	require.ErrorIs(t, err, protocol.ErrUnknownMember)
}

// Checklist row S27.
func TestMemberThatIsNotHeardOfOrGivesNothingUpIsPutOut(t *testing.T) {
	m, epoch := joined(t)
	m.now = m.now.Add(time.Second)
	_, err := m.ask(t, "m2", joinEpoch, nil)
	require.NoError(t, err)
	resp, err := m.ask(t, "m", epoch, nil)
	require.NoError(t, err)
	require.Equal(t, epoch, resp.MemberEpoch, "it has to give up something first")
	require.Equal(t, unrevoked, m.g.members["m"].state)
	resp, err = m.ask(t, "m", epoch, nil)
	require.NoError(t, err)
	require.Equal(t, epoch, resp.MemberEpoch, "it has not said so yet")
	require.Nil(t, resp.Assignment)
	m.now = m.now.Add(9 * time.Second)
	m.step(t, classic.EventTick{})
	require.Contains(t, m.g.members, "m")
	m.now = m.now.Add(time.Second)
	m.step(t, classic.EventTick{})
	require.NotContains(t, m.g.members, "m", "its rebalance timeout is over")
	require.Contains(t, m.g.members, "m2")
	m.now = m.now.Add(45 * time.Second)
	m.step(t, classic.EventTick{})
	require.Empty(t, m.g.members)
	require.Equal(t, protocol.Empty, m.g.State())
}

// Checklist row S27.
func TestTopologyOfAGroupIsTheFirstOne(t *testing.T) {
	m, epoch := joined(t)
	other := counting()
	other.Subtopologies[0].SourceTopics = []string{"b"}
	_, err := m.ask(t, "m2", joinEpoch, func(r *protocol.StreamsHeartbeatRequest) { r.Topology = other })
	require.ErrorIs(t, err, protocol.ErrInvalidRequest)
	require.ErrorContains(t, err, "Topology updates are not supported yet.")
	turned := counting()
	turned.Subtopologies[0], turned.Subtopologies[2] = turned.Subtopologies[2], turned.Subtopologies[0]
	_, err = m.ask(t, "m2", joinEpoch, func(r *protocol.StreamsHeartbeatRequest) { r.Topology = turned })
	require.NoError(t, err, "the order of subtopologies does not matter")
	other.Epoch = 0
	resp, err := m.ask(t, "m3", joinEpoch, func(r *protocol.StreamsHeartbeatRequest) { r.Topology = other })
	require.NoError(t, err)
	require.Equal(t, protocol.StreamsStatus{Code: protocol.StaleTopology, Detail: "The member's topology epoch 0 is behind the group's topology epoch 1."}, resp.Statuses[0])
	other.Subtopologies[1].ID = "0"
	_, err = m.ask(t, "m4", joinEpoch, func(r *protocol.StreamsHeartbeatRequest) { r.Topology = other })
	require.ErrorIs(t, err, protocol.ErrInvalidTopology)
	_, err = m.ask(t, "m", epoch, nil)
	require.NoError(t, err)
}

// Checklist row S27.
func TestMembersOfAStreamsGroupHearOfEachOther(t *testing.T) {
	m, epoch := joined(t)
	endpoint := func(port uint16) func(*protocol.StreamsHeartbeatRequest) {
		return func(r *protocol.StreamsHeartbeatRequest) {
			r.Endpoint = &offsets.StreamsEndpoint{Host: "h", Port: port}
		}
	}
	resp, err := m.ask(t, "m", epoch, endpoint(1))
	require.NoError(t, err)
	require.Nil(t, resp.Queryable, "its tasks are as before")
	m.now = m.now.Add(time.Second)
	resp, err = m.ask(t, "m2", joinEpoch, endpoint(2))
	require.NoError(t, err)
	require.Equal(t, int32(1), resp.EndpointEpoch)
	require.Equal(t, []protocol.StreamsQueryable{
		{Endpoint: offsets.StreamsEndpoint{Host: "h", Port: 1}, Active: []protocol.StreamsPartitions{{Topic: "a", Partitions: []int32{0, 1, 2}}, {Topic: "r", Partitions: []int32{0, 1, 2}}, {Topic: "b", Partitions: []int32{0, 1}}}},
		{Endpoint: offsets.StreamsEndpoint{Host: "h", Port: 2}},
	}, resp.Queryable)
	resp, err = m.ask(t, "m2", resp.MemberEpoch, func(r *protocol.StreamsHeartbeatRequest) { r.EndpointEpoch = 1 })
	require.NoError(t, err)
	require.Nil(t, resp.Queryable)

	resp, err = m.ask(t, "m2", resp.MemberEpoch, func(r *protocol.StreamsHeartbeatRequest) { r.EndpointEpoch, r.ShutdownApplication = 1, true })
	require.NoError(t, err)
	stop := []protocol.StreamsStatus{{Code: protocol.ShutdownApplication, Detail: "Streams group member m2 encountered a fatal error and requested a shutdown for the entire application."}}
	require.Equal(t, stop, resp.Statuses)
	resp, err = m.ask(t, "m", m.g.members["m"].epoch, nil)
	require.NoError(t, err)
	require.Equal(t, stop, resp.Statuses)
	for _, id := range []string{"m2", "m"} {
		_, err = m.ask(t, id, leaveEpoch, nil)
		require.NoError(t, err)
	}
	resp, err = m.ask(t, "m", joinEpoch, nil)
	require.NoError(t, err)
	require.NotContains(t, codes(resp.Statuses), protocol.ShutdownApplication, "all have gone: the application may begin anew")
}

// Checklist row S30.
func TestCommitsOfStreamsCountSinceTheirTaskIsTheMembers(t *testing.T) {
	m, first := joined(t)
	commit := func(member string, epoch int32, edit func(*protocol.CommitRequest)) (map[record.TopicPartition]error, error) {
		r := &protocol.CommitRequest{Group: "g", MemberID: member, Generation: epoch, Offsets: map[record.TopicPartition]record.Committed{
			{Topic: "a", Partition: 0}: {Offset: 1}, {Topic: "r", Partition: 2}: {Offset: 1}, {Topic: "x", Partition: 0}: {Offset: 1}}}
		if edit != nil {
			edit(r)
		}
		reply := m.step(t, classic.EventCommit{CommitRequest: r, To: 5})
		errs, _ := reply.Value.(map[record.TopicPartition]error)
		return errs, reply.Err
	}
	errs, err := commit("m", first, nil)
	require.NoError(t, err)
	require.Equal(t, map[record.TopicPartition]error{{Topic: "a"}: nil, {Topic: "r", Partition: 2}: nil, {Topic: "x"}: nil}, errs, "in its epoch it may say what it wants")
	m.now = m.now.Add(time.Second)
	_, err = m.ask(t, "m2", joinEpoch, nil)
	require.NoError(t, err)
	_, err = m.ask(t, "m", first, nil) // its r-2 is revoked
	require.NoError(t, err)
	_, err = m.ask(t, "m", first, func(r *protocol.StreamsHeartbeatRequest) { r.Owned = &offsets.StreamsTaskRoles{} })
	require.NoError(t, err)
	require.Greater(t, m.g.members["m"].epoch, first)
	errs, err = commit("m", first, nil)
	require.NoError(t, err)
	require.NoError(t, errs[record.TopicPartition{Topic: "a"}], "it has the task since that epoch")
	require.ErrorIs(t, errs[record.TopicPartition{Topic: "r", Partition: 2}], protocol.ErrStaleMemberEpoch, "another's by now")
	require.ErrorIs(t, errs[record.TopicPartition{Topic: "x"}], protocol.ErrStaleMemberEpoch, "nobody's")
	errs, err = commit("m", first-1, nil)
	require.NoError(t, err)
	require.ErrorIs(t, errs[record.TopicPartition{Topic: "a"}], protocol.ErrStaleMemberEpoch, "before it had the task")
	_, err = commit("m", m.g.members["m"].epoch+1, nil)
	require.ErrorIs(t, err, protocol.ErrStaleMemberEpoch)
	_, err = commit("other", first, nil)
	require.ErrorIs(t, err, protocol.ErrUnknownMember)
	_, err = commit("", -1, nil)
	require.ErrorIs(t, err, protocol.ErrUnknownMember, "the group has members")
	_, err = commit("m", first, func(r *protocol.CommitRequest) { r.NoEpochs = true })
	require.ErrorIs(t, err, protocol.ErrUnsupportedVersion)

	reply := m.step(t, classic.EventDeleteOffsets{Partitions: []record.TopicPartition{{Topic: "a"}, {Topic: "x"}}, To: 6})
	require.Equal(t, map[record.TopicPartition]error{{Topic: "a"}: protocol.ErrGroupSubscribedToTopic, {Topic: "x"}: nil}, reply.Value)
	require.ErrorIs(t, m.step(t, classic.EventDelete{To: 7}).Err, protocol.ErrNonEmptyGroup)
	for _, id := range []string{"m", "m2"} {
		_, err = m.ask(t, id, leaveEpoch, nil)
		require.NoError(t, err)
	}
	_, err = commit("", -1, nil)
	require.NoError(t, err, "nobody is there")
	require.NoError(t, m.step(t, classic.EventDelete{To: 7}).Err)
	require.True(t, m.g.Forgotten())
	m.reload(t)
	require.True(t, m.g.Forgotten())
}

// A member of a full streams group whose answer to its join was lost joins again. Kafka 4.3
// counts it as a new member and rejects it until its session ends.
func TestAFullStreamsGroupTakesItsMembersBack(t *testing.T) {
	m, _ := joined(t)
	m.cfg.MaxSize = 1
	_, err := m.ask(t, "m2", joinEpoch, nil)
	require.ErrorIs(t, err, protocol.ErrGroupMaxSize)
	require.ErrorContains(t, err, "The streams group has reached its maximum capacity of 1 members.")
	_, err = m.ask(t, "m", joinEpoch, nil)
	require.NoError(t, err)
}

func TestAMemberOfAnUnknownStateBeginsAnew(t *testing.T) {
	m, epoch := joined(t)
	m.g.members["m"].state = 7
	_, err := m.ask(t, "m", epoch, nil)
	require.ErrorIs(t, err, protocol.ErrFencedMemberEpoch)
	require.ErrorContains(t, err, "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.")
}

// Checklist row N24. The member was fenced, or gave its tasks up for lack of an answer.
func TestLateCommitOfAStreamsMemberThatJoinedAgainIsRefused(t *testing.T) {
	m, first := joined(t)
	m.now = m.now.Add(time.Second)
	_, err := m.ask(t, "m2", joinEpoch, nil)
	require.NoError(t, err)
	resp, err := m.ask(t, "m", first, func(r *protocol.StreamsHeartbeatRequest) { r.Owned = &offsets.StreamsTaskRoles{} })
	require.NoError(t, err)
	require.Greater(t, resp.MemberEpoch, first)
	_, err = m.ask(t, "m", joinEpoch, nil)
	require.NoError(t, err)
	r := &protocol.CommitRequest{Group: "g", MemberID: "m", Generation: first, Offsets: map[record.TopicPartition]record.Committed{{Topic: "a"}: {Offset: 1}}}
	reply := m.step(t, classic.EventCommit{CommitRequest: r, To: 5})
	require.NoError(t, reply.Err)
	require.ErrorIs(t, reply.Value.(map[record.TopicPartition]error)[record.TopicPartition{Topic: "a"}], protocol.ErrStaleMemberEpoch)
	require.Empty(t, m.g.Offsets())
}
