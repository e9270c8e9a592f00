package replication

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func effective(t *testing.T, c *Cluster, name, key string) string {
	t.Helper()
	info, err := c.Topic(t.Context(), name)
	require.NoError(t, err)
	v, _ := info.Settings.Value(key)
	return v
}

func TestBrokerConfigIsTheDefaultOfTopicsAndSurvivesReopening(t *testing.T) {
	fsys := vfs.Mem()
	cfg := Config{FS: fsys, Dir: "data", Defaults: topic.Config{Properties: map[string]string{"retention.ms": "1000"}}}
	c := openWith(t, cfg)
	ctx := t.Context()
	create(t, c, "plain", 1)
	create(t, c, "own", 1, "retention.ms", "5")
	produce(t, c, at("plain", 0), "x")
	require.Equal(t, "1000", effective(t, c, "plain", "retention.ms"))

	require.NoError(t, c.AlterBrokerConfig(ctx, AllBrokers, ConfigChange{Key: "log.retention.ms", Value: "2000"}, ConfigChange{Key: "message.max.bytes", Value: "100"}))
	require.Equal(t, "2000", effective(t, c, "plain", "retention.ms"))
	require.Equal(t, "5", effective(t, c, "own", "retention.ms"))
	require.Error(t, tryProduce(c, at("plain", 0), string(make([]byte, 200))).Err, "open partitions go by the new default")

	require.NoError(t, c.AlterBrokerConfig(ctx, 1, ConfigChange{Key: "log.retention.ms", Value: "3000"}))
	require.Equal(t, "3000", effective(t, c, "plain", "retention.ms"))
	require.NoError(t, c.Close())

	c = openWith(t, cfg)
	require.Equal(t, "3000", effective(t, c, "plain", "retention.ms"))
	require.Equal(t, map[string]string{"log.retention.ms": "2000", "message.max.bytes": "100"}, c.BrokerConfig(AllBrokers))
	require.NoError(t, c.AlterBrokerConfig(ctx, 1, ConfigChange{Key: "log.retention.ms", Op: UnsetConfig}))
	require.NoError(t, c.AlterBrokerConfig(ctx, AllBrokers, ConfigChange{Key: "log.retention.ms", Op: UnsetConfig}, ConfigChange{Key: "message.max.bytes", Op: UnsetConfig}))
	require.Equal(t, "1000", effective(t, c, "plain", "retention.ms"))
	require.Empty(t, c.BrokerConfig(AllBrokers))
	produce(t, c, at("plain", 0), string(make([]byte, 200)))
}

func TestBrokerConfigRefusesWhatCannotChangeLive(t *testing.T) {
	c := open(t, vfs.Mem())
	before := c.Stats().MetadataVersion
	bad := new(topic.ConfigError)
	for _, ch := range []ConfigChange{
		{Key: "num.partitions", Value: "3"}, {Key: "no.such", Value: "3"}, {Key: "retention.ms", Value: "3"}, {Key: "log.retention.ms", Value: "x"},
		{Key: "log.retention.hours", Value: "1"}, {Key: "log.cleaner.min.compaction.lag.ms", Value: "9223372036854775807"}, {Key: "log.retention.ms", Op: AppendConfig, Value: "1"},
	} {
		changes := []ConfigChange{ch}
		if ch.Key == "log.cleaner.min.compaction.lag.ms" {
			changes = append(changes, ConfigChange{Key: "log.cleaner.max.compaction.lag.ms", Value: "1"})
		}
		require.ErrorAs(t, c.AlterBrokerConfig(t.Context(), AllBrokers, changes...), &bad, ch.Key)
		require.ErrorAs(t, c.DryRun().AlterBrokerConfig(t.Context(), AllBrokers, changes...), &bad, ch.Key)
	}
	require.NoError(t, c.DryRun().AlterBrokerConfig(t.Context(), 1, ConfigChange{Key: "log.retention.ms", Value: "3"}))
	require.Equal(t, before, c.Stats().MetadataVersion)
}
