package replication

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestDryRunDecidesAsTheClusterAndChangesNothing(t *testing.T) {
	c := open(t, vfs.Mem())
	ctx := t.Context()
	require.NoError(t, c.CreateTopic(ctx, "there", topic.Config{Partitions: 2}))
	before := c.Stats().MetadataVersion
	dry := c.DryRun()

	settings, cfg, err := dry.CreateTopic(ctx, "new", topic.Config{Partitions: 3, Properties: map[string]string{"retention.ms": "5"}})
	require.NoError(t, err)
	require.Equal(t, topic.Config{Partitions: 3, ReplicationFactor: 1}, cfg)
	v, source := settings.Value("retention.ms")
	require.Equal(t, "5", v)
	require.Equal(t, topic.SourceTopic, source)
	_, _, err = dry.CreateTopic(ctx, "there", topic.Config{})
	require.ErrorIs(t, err, ErrTopicExists)
	_, _, err = dry.CreateTopic(ctx, "..", topic.Config{})
	require.ErrorIs(t, err, ErrInvalidTopic)
	_, _, err = dry.CreateTopic(ctx, "new", topic.Config{ReplicationFactor: 2})
	require.ErrorIs(t, err, ErrInvalidReplicationFactor)

	require.NoError(t, dry.AddPartitions(ctx, "there", 3))
	require.ErrorIs(t, dry.AddPartitions(ctx, "there", 2), ErrInvalidPartitions)
	require.ErrorIs(t, dry.AddPartitions(ctx, "nowhere", 2), ErrUnknownTopic)

	require.NoError(t, dry.AlterTopicConfig(ctx, "there", ConfigChange{Key: "retention.ms", Value: "7"}))
	require.NoError(t, dry.ReplaceTopicConfig(ctx, "there", map[string]string{"retention.ms": "7"}))
	bad := new(topic.ConfigError)
	require.ErrorAs(t, dry.AlterTopicConfig(ctx, "there", ConfigChange{Key: "retention.ms", Value: "x"}), &bad)
	require.ErrorAs(t, dry.ReplaceTopicConfig(ctx, "there", map[string]string{"no.such": "7"}), &bad)

	require.Equal(t, before, c.Stats().MetadataVersion)
	require.NoError(t, c.Close())
	require.ErrorIs(t, dry.AddPartitions(ctx, "there", 3), ErrClosed)
}

func TestReplaceTopicConfigUnsetsWhatIsNotNamed(t *testing.T) {
	c := open(t, vfs.Mem())
	ctx := t.Context()
	require.NoError(t, c.CreateTopic(ctx, "a", topic.Config{Properties: map[string]string{"retention.ms": "5", "segment.ms": "6"}}))
	require.NoError(t, c.ReplaceTopicConfig(ctx, "a", map[string]string{"segment.ms": "7", "retention.bytes": "8"}))
	info, err := c.Topic(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"segment.ms": "7", "retention.bytes": "8"}, info.Settings.Explicit())
	require.ErrorIs(t, c.ReplaceTopicConfig(ctx, "b", nil), ErrUnknownTopic)
}

func TestClusterRefusesMorePartitionsThanItMayHave(t *testing.T) {
	c := openWith(t, Config{MaxPartitions: 5})
	ctx := t.Context()
	require.NoError(t, c.CreateTopic(ctx, "a", topic.Config{Partitions: 3}))
	require.ErrorIs(t, c.CreateTopic(ctx, "b", topic.Config{Partitions: 3}), ErrPolicyViolation)
	require.NoError(t, c.CreateTopic(ctx, "b", topic.Config{Partitions: 1}))
	require.ErrorIs(t, c.AddPartitions(ctx, "b", 3), ErrPolicyViolation)
	require.NoError(t, c.AddPartitions(ctx, "b", 2))
	require.NoError(t, c.DeleteTopic(ctx, "a"))
	require.NoError(t, c.AddPartitions(ctx, "b", 5))
	_, err := Open(Config{MaxPartitions: -1})
	require.Error(t, err)
}
