package replication

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
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
	c.Network().Cut(NetworkPath{From: 2, To: 1}) // broker 2 does not rejoin by itself
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

func TestLeaderIsTransferredToWhoIsInSync(t *testing.T) {
	c := openWith(t, newDisks(3).config())
	createReplicated(t, c, []int32{1, 2, 3}, "orders")
	create(t, c, "one", 1)
	tp := at("orders", 0)
	before := produce(t, c, tp, "a")
	require.NoError(t, c.TransferLeader(t.Context(), tp, 3))
	require.Equal(t, int32(3), c.Leader("orders", 0))
	version := c.MetadataVersion()
	require.NoError(t, c.TransferLeader(t.Context(), tp, 3), "it leads already")
	require.Equal(t, version, c.MetadataVersion())
	require.Equal(t, before.LeaderEpoch+1, produce(t, c, tp, "b").LeaderEpoch)
	require.Equal(t, []string{"a", "b"}, values(t, c, tp))

	c.Network().Cut(NetworkPath{From: 2, To: 3}) // broker 2 does not rejoin by itself
	require.NoError(t, c.StopBroker(t.Context(), 2))
	require.ErrorIs(t, c.TransferLeader(t.Context(), tp, 2), ErrNotInSync)
	require.NoError(t, c.StartBroker(t.Context(), 2))
	require.ErrorIs(t, c.TransferLeader(t.Context(), tp, 2), ErrNotInSync, "it serves, but is not in sync")
	require.ErrorIs(t, c.TransferLeader(t.Context(), tp, -1), ErrNotInSync)
	require.ErrorIs(t, c.TransferLeader(t.Context(), tp, 9), ErrNotInSync)
	require.ErrorIs(t, c.TransferLeader(t.Context(), at("one", 0), c.Leader("one", 0)%3+1), ErrNotInSync, "it has no replica")
	require.ErrorIs(t, c.TransferLeader(t.Context(), at("orders", 1), 1), ErrUnknownTopic)
	require.ErrorIs(t, c.TransferLeader(t.Context(), at("gone", 0), 1), ErrUnknownTopic)
	require.Equal(t, int32(3), c.Leader("orders", 0), "what is refused changes nothing")
	c.Network().Mend(NetworkPath{From: 2, To: 3})
	inSync(t, c, tp, 3)
	require.NoError(t, c.TransferLeader(t.Context(), tp, 2))
	require.NoError(t, all(c, tp, "c").Err) // the new leader receives its followers' end offsets
	require.Equal(t, []string{"a", "b", "c"}, values(t, c, tp))
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.TransferLeader(t.Context(), tp, 1), ErrClosed)
}

func TestUnknownElectionTypeIsRefused(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 1)
	for _, kind := range []ElectionType{-1, 2, 77} {
		version := c.MetadataVersion()
		errs := c.ElectLeaders(t.Context(), kind, at("orders", 0))
		require.ErrorIs(t, errs[0], ErrInvalidElectionType)
		require.Equal(t, version, c.MetadataVersion())
	}
}
