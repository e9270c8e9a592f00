package replication

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/election"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// proposalOf returns a proposal of the leader of a topic's first partition for a new in-sync set.
func proposalOf(c *Cluster, name string, set ...int32) image.Proposal {
	t := c.image.Topics[name]
	s := t.Partitions[0].State()
	r := election.Request{Leader: s.Leader, Incarnation: c.image.Members[s.Leader].Epoch, LeaderEpoch: s.LeaderEpoch, Epoch: s.Epoch, InSync: set}
	for _, id := range set {
		r.Incarnations = append(r.Incarnations, c.image.Members[id].Epoch)
	}
	return image.Proposal{Topic: t.ID, Request: r}
}

// createReplicated creates topics of one partition with these replicas, by a change of the
// metadata for each topic.
func createReplicated(t *testing.T, c *Cluster, replicas []int32, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, c.change(t.Context(), func(img *image.Image) ([]metarecord.Record, error) {
			cr := image.Creation{Name: name, Drawn: topic.NewID(), Partitions: 1, Factor: len(replicas), Assignment: [][]int32{replicas}}
			return img.CreateTopic(cr, c.limits())
		}))
	}
}

func TestLeadersProposeSetsInOneChange(t *testing.T) {
	ds := newDisks(3)
	c := openWith(t, ds.config())
	for _, follower := range []int32{2, 3} { // so that they do not rejoin the in-sync set
		c.Network().Cut(NetworkPath{From: follower, To: 1})
	}
	createReplicated(t, c, []int32{1, 2, 3}, "a", "b", "gone")
	stale := proposalOf(c, "a", 1)
	gone := proposalOf(c, "gone", 1, 2)
	require.NoError(t, c.DeleteTopic(t.Context(), "gone"))
	end := c.meta.Own().EndOffset()
	answers, err := c.alterPartitions(t.Context(), []image.Proposal{proposalOf(c, "a", 1, 2), proposalOf(c, "b", 1, 3), gone})
	require.NoError(t, err)
	require.Equal(t, end+2, c.meta.Own().EndOffset(), "a record for each that is accepted")
	want := election.Partition{Replicas: []int32{1, 2, 3}, InSync: []int32{1, 2}, Leader: 1, Epoch: 1, Durable: true}
	require.Equal(t, alterAnswer{State: want}, answers[0])
	want.InSync = []int32{1, 3}
	require.Equal(t, alterAnswer{State: want}, answers[1])
	require.ErrorIs(t, answers[2].Err, ErrUnknownTopic)
	require.Empty(t, answers[2].State)

	answers, err = c.alterPartitions(t.Context(), []image.Proposal{stale, proposalOf(c, "b", 1, 3)})
	require.NoError(t, err)
	require.ErrorIs(t, answers[0].Err, election.ErrUpdateVersion)
	require.Equal(t, []int32{1, 2}, answers[0].State.InSync, "what is in force is told with the refusal")
	require.Equal(t, alterAnswer{State: want}, answers[1])
	require.Equal(t, end+2, c.meta.Own().EndOffset(), "nothing has changed")

	require.NoError(t, c.KillBroker(2))
	answers, err = c.alterPartitions(t.Context(), []image.Proposal{proposalOf(c, "a", 1, 2)})
	require.NoError(t, err)
	require.ErrorIs(t, answers[0].Err, election.ErrIneligibleReplica)
	require.Equal(t, []int32{1}, answers[0].State.InSync)
	require.NoError(t, c.Close())
	_, err = c.alterPartitions(t.Context(), nil)
	require.ErrorIs(t, err, ErrClosed)

	again := openWith(t, ds.config())
	again.mu.RLock()
	defer again.mu.RUnlock()
	s := again.image.Topics["b"].Partitions[0].State()
	require.Equal(t, int32(1), s.LeaderEpoch, "the leader was started again")
	require.Subset(t, s.InSync, []int32{1, 3}, "and broker 2 may have joined since")
	require.True(t, s.Durable)
}

// A weaker setting on broker 2 alone applies to all elections, because broker 2 may become the
// leader.
func TestElectionsGoByTheWeakestPromise(t *testing.T) {
	c := openWith(t, newDisks(2).config())
	refused := func(broker int32, ch ConfigChange) {
		t.Helper()
		require.ErrorAs(t, c.AlterBrokerConfig(t.Context(), broker, ch), new(*topic.ConfigError))
	}
	set := func(broker int32, key, value string) {
		t.Helper()
		require.NoError(t, c.AlterBrokerConfig(t.Context(), broker, ConfigChange{Key: key, Value: value}))
	}
	rules := func(config map[string]string) image.Rules { return c.rules(c.image, config) }
	require.Equal(t, image.Rules{MinInSync: 1, SyncOnAck: true}, rules(nil))
	set(AllBrokers, "min.insync.replicas", "3")
	set(AllBrokers, "unclean.leader.election.enable", "true")
	require.Equal(t, image.Rules{MinInSync: 3, SyncOnAck: true, Unclean: true}, rules(nil))
	refused(2, ConfigChange{Key: "min.insync.replicas", Value: "2"})
	refused(2, ConfigChange{Key: "min.insync.replicas", Op: UnsetConfig})
	refused(AllBrokers, ConfigChange{Key: "min.insync.replicas", Op: UnsetConfig})
	// As in clusters of earlier versions.
	require.NoError(t, c.change(t.Context(), func(*image.Image) ([]metarecord.Record, error) {
		return []metarecord.Record{&metarecord.FeatureLevel{Name: "eligible.leader.replicas.version"}}, nil
	}))
	set(2, "min.insync.replicas", "2")
	set(2, "log.flush.interval.ms", "1000")
	require.Equal(t, image.Rules{MinInSync: 2, Unclean: true}, rules(nil))
	set(1, "min.insync.replicas", "4")
	require.Equal(t, image.Rules{MinInSync: 2, Unclean: true}, rules(nil))
	require.Equal(t, image.Rules{MinInSync: 5, SyncOnAck: true}, rules(map[string]string{
		"min.insync.replicas": "5", "flush.messages": "1", "unclean.leader.election.enable": "false",
	}), "what a topic says counts on all")
}
