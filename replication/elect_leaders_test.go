package replication

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

func TestLeadersAreElectedForWhoAsks(t *testing.T) {
	var said strings.Builder
	cfg := newDisks(3).config()
	cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
	c := openWith(t, cfg)
	createReplicated(t, c, []int32{2, 1}, "orders")
	create(t, c, "one", 1)
	elect := func(kind ElectionType) error {
		t.Helper()
		errs := c.ElectLeaders(t.Context(), kind, at("orders", 0), at("orders", 1), at("gone", 0))
		require.Len(t, errs, 3)
		require.ErrorIs(t, errs[1], ErrUnknownTopic)
		require.ErrorIs(t, errs[2], ErrUnknownTopic)
		return errs[0]
	}
	led := func() PartitionMetadata {
		t.Helper()
		md, err := c.Metadata(t.Context(), "orders")
		require.NoError(t, err)
		return md.Topics["orders"].Partitions[0]
	}
	require.ErrorIs(t, elect(PreferredElection), ErrElectionNotNeeded)
	c.Network().Cut(NetworkPath{From: 2, To: 1}) // it does not join by itself
	require.NoError(t, c.StopBroker(t.Context(), 2))
	require.Equal(t, PartitionMetadata{Leader: 1, LeaderEpoch: 1, Replicas: []int32{2, 1}, ISR: []int32{1}}, led())
	require.ErrorIs(t, elect(PreferredElection), ErrPreferredLeaderNotAvailable)
	require.NoError(t, c.StartBroker(t.Context(), 2))
	require.ErrorIs(t, elect(PreferredElection), ErrPreferredLeaderNotAvailable, "it is not in sync")
	c.Network().Mend(NetworkPath{From: 2, To: 1})
	inSync(t, c, at("orders", 0), 2)
	require.NoError(t, elect(PreferredElection))
	require.Equal(t, PartitionMetadata{Leader: 2, LeaderEpoch: 2, Replicas: []int32{2, 1}, ISR: []int32{1, 2}}, led())

	require.NoError(t, c.StopBroker(t.Context(), 1))
	require.NoError(t, c.StopBroker(t.Context(), 2))
	away := PartitionMetadata{Leader: -1, LeaderEpoch: 3, Replicas: []int32{2, 1}, Eligible: []int32{2}, LastKnown: []int32{2}}
	require.Equal(t, away, led())
	require.ErrorIs(t, elect(UncleanElection), ErrEligibleLeadersNotAvailable)
	require.NoError(t, c.StartBroker(t.Context(), 1))
	require.Equal(t, away, led(), "who was not in sync does not lead")
	require.Zero(t, c.Stats().UncleanElections)
	require.NotContains(t, said.String(), "unclean")
	require.NoError(t, elect(UncleanElection))
	require.Equal(t, PartitionMetadata{Leader: 1, LeaderEpoch: 4, Replicas: []int32{2, 1}, ISR: []int32{1}}, led())
	require.EqualValues(t, 1, c.Stats().UncleanElections)
	require.Contains(t, said.String(), "unclean election: records that were acknowledged may be lost\" topic=orders partition=0 leader=1")
	require.ErrorIs(t, elect(UncleanElection), ErrElectionNotNeeded)
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.ElectLeaders(t.Context(), PreferredElection, record.TopicPartition{})[0], ErrClosed)
}
