package image

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/election"
)

// ask requests a move of a topic's only partition, and commits it.
func ask(t *testing.T, m *Image, name string, replicas ...int32) error {
	t.Helper()
	recs, errs := m.Reassign([]Reassignment{{Partition: record.TopicPartition{Topic: name}, Replicas: replicas}}, configured)
	commit(t, m, recs...)
	return errs[0]
}

// propose requests an in-sync set as the leader of topic t.
func propose(t *testing.T, m *Image, inSync ...int32) {
	t.Helper()
	p := state(m)
	r := election.Request{Leader: p.Leader, Incarnation: m.Members[p.Leader].Epoch, LeaderEpoch: p.LeaderEpoch, Epoch: p.Epoch, InSync: inSync}
	for _, id := range inSync {
		r.Incarnations = append(r.Incarnations, m.Members[id].Epoch)
	}
	recs, errs := m.AlterPartitions([]Proposal{{Topic: m.Topics["t"].ID, Request: r}}, configured)
	require.NoError(t, errs[0])
	commit(t, m, recs...)
}

// six is three with brokers 4 to 6, which have no replicas.
func six(t *testing.T, config map[string]string) *Image {
	t.Helper()
	m := three(t, config)
	for id := range int32(3) {
		come(t, m, arrival(id+4))
	}
	return m
}

// A reassignment has the steps of Kafka's. The lists are merged, the added replicas join the set,
// and the change with all of them ends it.
func TestReassignmentsGoStepByStep(t *testing.T) {
	m := six(t, nil)
	require.NoError(t, ask(t, m, "t", 4, 5, 1))
	p := &m.Topics["t"].Partitions[0]
	require.Equal(t, layout{ids(4, 5, 1, 2, 3), ids(4, 5), ids(2, 3)}, p.layout())
	require.Equal(t, election.Partition{Replicas: ids(4, 5, 1, 2, 3), InSync: ids(1, 2, 3), Leader: 1, Epoch: 1}, state(m), "no epoch is spent on it")
	propose(t, m, 1, 2, 4)
	require.True(t, m.Topics["t"].Partitions[0].Moves(), "one is missing")
	require.NoError(t, ask(t, m, "t", 4, 6, 1))
	require.Equal(t, layout{ids(4, 6, 1, 5, 2, 3), ids(4, 6), ids(5, 2, 3)}, m.Topics["t"].Partitions[0].layout(), "another one in its place")
	propose(t, m, 1, 2, 4, 6)
	after := state(m)
	require.Equal(t, election.Partition{Replicas: ids(4, 6, 1), InSync: ids(1, 4, 6), Leader: 1, LeaderEpoch: 1, Epoch: 4}, after)
	require.Len(t, m.Topics["t"].Partitions[0].Directories, 3)
	require.Empty(t, m.Reassignments())

	require.NoError(t, ask(t, m, "t", 1, 6, 4), "another order is another preferred leader")
	require.Equal(t, election.Partition{Replicas: ids(1, 6, 4), InSync: ids(1, 4, 6), Leader: 1, LeaderEpoch: 1, Epoch: 5}, state(m))
	require.NoError(t, ask(t, m, "t", 6, 4), "the leader goes, and nobody has to copy")
	require.Equal(t, election.Partition{Replicas: ids(6, 4), InSync: ids(4, 6), Leader: 6, LeaderEpoch: 2, Epoch: 6}, state(m))
	version := m.Version
	require.NoError(t, ask(t, m, "t", 6, 4), "as it is")
	require.Equal(t, version, m.Version)
}

// With fewer replicas than before, all remaining replicas have to be in sync.
func TestShrinkingWaitsForAllThatStay(t *testing.T) {
	m := six(t, nil)
	leave(t, m, 2)
	relead(t, m)
	require.Equal(t, ids(1, 3), state(m).InSync)
	require.NoError(t, ask(t, m, "t", 1, 2))
	require.True(t, m.Topics["t"].Partitions[0].Moves())
	come(t, m, arrival(2))
	propose(t, m, 1, 2)
	require.Equal(t, ids(1, 2), state(m).Replicas)
	require.False(t, m.Topics["t"].Partitions[0].Moves())
}

// A reassignment that must keep the number of replicas keeps the target number of a reassignment
// under way.
func TestNumberOfReplicasThatIsKeptIsTheOneThatIsToBe(t *testing.T) {
	m := six(t, nil)
	keep := func(replicas ...int32) error {
		_, errs := m.Reassign([]Reassignment{{Partition: record.TopicPartition{Topic: "t"}, Replicas: replicas, SameFactor: true}}, configured)
		return errs[0]
	}
	require.NoError(t, keep(4, 5, 1))
	require.ErrorIs(t, keep(4, 5), ErrInvalidReplicationFactor)
	require.NoError(t, ask(t, m, "t", 4, 5))
	require.True(t, m.Topics["t"].Partitions[0].Moves())
	require.NoError(t, keep(4, 6))
	require.ErrorIs(t, keep(4, 5, 1), ErrInvalidReplicationFactor)
}

// A cancelled reassignment leaves a present replica that can lead, also with unclean elections.
func TestCancelledReassignmentLeavesSomebodyWhoCanLead(t *testing.T) {
	for _, unclean := range []string{"false", "true"} {
		m := six(t, map[string]string{"unclean": unclean})
		require.NoError(t, ask(t, m, "t", 4))
		propose(t, m, 1, 2, 3, 4)
		require.Equal(t, ids(4), state(m).Replicas)
		leave(t, m, 5)
		require.NoError(t, ask(t, m, "t", 5), "it may come later")
		leave(t, m, 4)
		require.ErrorIs(t, ask(t, m, "t"), ErrInvalidAssignment)
		require.True(t, m.Topics["t"].Partitions[0].Moves())
		come(t, m, arrival(4))
		require.NoError(t, ask(t, m, "t"))
		require.EqualValues(t, 4, state(m).Leader)
	}
}
