package replication

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestCreatedTopicIsThereAfterKillAndAfterPowerLoss(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 3, "retention.ms", "60000")
	before, err := c.Topic(t.Context(), "orders")
	require.NoError(t, err)
	for _, disk := range []vfs.FS{fsys.Kill(), fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})} {
		again := open(t, disk)
		info, err := again.Topic(t.Context(), "orders")
		require.NoError(t, err)
		require.Equal(t, before.ID, info.ID)
		require.Len(t, info.Partitions, 3)
		require.Equal(t, map[string]string{"retention.ms": "60000"}, info.Settings.Explicit())
		require.Equal(t, c.ClusterID(), again.ClusterID())
		require.Equal(t, int32(1), again.Leader("orders", 2))
	}
}

func TestTopicsAreDescribedWithSourcesAndSizes(t *testing.T) {
	c := openWith(t, Config{FS: vfs.Mem(), Defaults: topic.Config{Partitions: 2, Log: log.Config{SegmentAge: 3600e9}}})
	create(t, c, "b", 0, "retention.ms", "99")
	create(t, c, "a", 1)
	produce(t, c, at("b", 1), "x", "y")
	infos, err := c.Topics(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, names(t, c))
	b := infos[1]
	require.Len(t, b.Partitions, 2, "the default")
	for key, want := range map[string]topic.Source{"retention.ms": topic.SourceTopic, "segment.ms": topic.SourceCluster, "segment.bytes": topic.SourceDefault} {
		_, source := b.Settings.Value(key)
		require.Equal(t, want, source, key)
	}
	require.Equal(t, int64(2), b.Partitions[1].HighWatermark)
	require.Positive(t, b.Partitions[1].SizeBytes)
	require.Equal(t, b.Partitions[1].SizeBytes, b.SizeBytes())
	require.Equal(t, []int32{1}, b.Partitions[0].Replicas)
	_, err = c.Topic(t.Context(), "c")
	require.ErrorIs(t, err, ErrUnknownTopic)
}

func TestCreateTopicRefusesWhatKafkaRefuses(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "a.b", 1)
	for name, tc := range map[string]struct {
		topic string
		cfg   topic.Config
		want  error
	}{
		"exists":                {"a.b", topic.Config{}, ErrTopicExists},
		"collides":              {"a_b", topic.Config{}, ErrInvalidTopic},
		"bad name":              {"a/b", topic.Config{}, ErrInvalidTopic},
		"no name":               {"", topic.Config{}, ErrInvalidTopic},
		"metadata":              {"__cluster_metadata", topic.Config{}, ErrInvalidTopic},
		"negative partitions":   {"c", topic.Config{Partitions: -1}, ErrInvalidPartitions},
		"too many partitions":   {"c", topic.Config{Partitions: 10001}, ErrPolicyViolation},
		"more replicas":         {"c", topic.Config{ReplicationFactor: 2}, ErrInvalidReplicationFactor},
		"negative replicas":     {"c", topic.Config{ReplicationFactor: -1}, ErrInvalidReplicationFactor},
		"bad name before count": {"..", topic.Config{Partitions: -1}, ErrInvalidTopic},
	} {
		require.ErrorIs(t, c.CreateTopic(t.Context(), tc.topic, tc.cfg), tc.want, name)
	}
	var bad *topic.ConfigError
	require.ErrorAs(t, c.CreateTopic(t.Context(), "c", topic.Config{Properties: properties("retention.ms", "x")}), &bad)
	require.Equal(t, "retention.ms", bad.Key)
	require.Equal(t, []string{"a.b"}, names(t, c))
	require.ErrorIs(t, c.EnsureTopic(t.Context(), "a.b", topic.Config{Partitions: 7}), ErrTopicDiffers)
	require.NoError(t, c.EnsureTopic(t.Context(), "d", topic.Config{Partitions: 7}))
	require.Equal(t, []string{"a.b", "d"}, names(t, c))
}

// A service that requests six partitions gets an error if the topic has three.
func TestEnsureTopicListsWhatDiffers(t *testing.T) {
	c := open(t, vfs.Mem())
	ctx := t.Context()
	asked := topic.Config{Partitions: 3, ReplicationFactor: 1, Log: log.Config{RetentionAge: time.Hour}, Properties: properties("cleanup.policy", "compact")}
	for range 2 { // first creates the topic, then compares it
		require.NoError(t, c.EnsureTopic(ctx, "orders", asked))
	}
	for _, same := range []topic.Config{{}, {Partitions: 3}, {Assignment: [][]int32{{1}, {1}, {1}}}, {Properties: properties("min.insync.replicas", "1")}} {
		require.NoError(t, c.EnsureTopic(ctx, "orders", same), "%+v", same)
	}
	err := c.EnsureTopic(ctx, "orders", topic.Config{Partitions: 6, ReplicationFactor: 2, Log: log.Config{RetentionAge: 2 * time.Hour}, Properties: properties("cleanup.policy", "delete")})
	var differs *TopicDiffersError
	require.ErrorAs(t, err, &differs)
	require.Equal(t, []TopicDifference{{"partitions", "6", "3"}, {"replication factor", "2", "1"}, {"cleanup.policy", "delete", "compact"}, {"retention.ms", "7200000", "3600000"}}, differs.Differences)
	require.EqualError(t, err, `topic "orders" exists and differs from the requested one: partitions is 3, not 6, replication factor is 1, not 2, cleanup.policy is compact, not delete, retention.ms is 3600000, not 7200000`)
	require.ErrorIs(t, c.EnsureTopic(ctx, "orders", topic.Config{Assignment: [][]int32{{1}}}), ErrTopicDiffers)
	require.ErrorIs(t, c.EnsureTopic(ctx, "orders", topic.Config{Properties: properties("min.insync.replicas", "2")}), ErrTopicDiffers, "the default counts")
	var bad *topic.ConfigError
	require.ErrorAs(t, c.EnsureTopic(ctx, "orders", topic.Config{Properties: properties("retention.ms", "x")}), &bad)
	info, err := c.Topic(ctx, "orders")
	require.NoError(t, err)
	require.Len(t, info.Partitions, 3, "nothing is changed")
}

func TestPartitionsAreAddedToALiveTopic(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "a")
	require.ErrorIs(t, tryProduce(c, at("orders", 1), "b").Err, ErrUnknownTopic)
	for _, total := range []int{-1, 0, 1} {
		require.ErrorIs(t, c.AddPartitions(t.Context(), "orders", total), ErrInvalidPartitions)
	}
	require.ErrorIs(t, c.AddPartitions(t.Context(), "orders", 20000), ErrPolicyViolation)
	require.ErrorIs(t, c.AddPartitions(t.Context(), "none", 2), ErrUnknownTopic)
	require.NoError(t, c.AddPartitions(t.Context(), "orders", 3))
	produce(t, c, at("orders", 2), "b")
	again := open(t, fsys.Kill())
	require.Equal(t, []string{"a"}, values(t, again, at("orders", 0)), "what was written does not move")
	require.Equal(t, []string{"b"}, values(t, again, at("orders", 2)))
}

func TestDeletedTopicIsGoneAndItsSuccessorIsEmpty(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 2)
	old, _ := c.Topic(t.Context(), "orders")
	produce(t, c, at("orders", 0), "old")
	require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
	require.ErrorIs(t, c.DeleteTopic(t.Context(), "orders"), ErrUnknownTopic)
	require.ErrorIs(t, tryProduce(c, at("orders", 0), "x").Err, ErrUnknownTopic)
	_, err := tryValues(t.Context(), c, at("orders", 0))
	require.ErrorIs(t, err, ErrUnknownTopic)
	require.Empty(t, servedDirs(t, fsys))

	create(t, c, "orders", 2)
	fresh, _ := c.Topic(t.Context(), "orders")
	require.NotEqual(t, old.ID, fresh.ID)
	require.Empty(t, values(t, c, at("orders", 0)))
	produce(t, c, at("orders", 0), "new")
	require.Equal(t, []string{"new"}, values(t, open(t, fsys.Kill()), at("orders", 0)))
}

func TestInternalTopicsCannotBeDeleted(t *testing.T) {
	c := open(t, vfs.Mem())
	require.NoError(t, c.EnsureTopic(t.Context(), "__consumer_offsets", topic.Config{Partitions: 50}))
	require.ErrorIs(t, c.DeleteTopic(t.Context(), "__consumer_offsets"), ErrPolicyViolation)
}

func TestPartitionsHaveNoFilesUntilTheyAreWritten(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "__consumer_offsets", 50)
	require.Empty(t, partitionDirs(t, fsys))
	require.Empty(t, values(t, c, at("__consumer_offsets", 7)), "reading creates nothing")
	require.Empty(t, partitionDirs(t, fsys))
	written, err := c.Written(at("__consumer_offsets", 7))
	require.NoError(t, err)
	require.False(t, written)
	p, err := c.Partition(at("__consumer_offsets", 7))
	require.NoError(t, err)
	require.Equal(t, at("__consumer_offsets", 7), p.TopicPartition())
	require.Equal(t, []string{"__consumer_offsets-7"}, partitionDirs(t, fsys))
	written, err = c.Written(at("__consumer_offsets", 7))
	require.NoError(t, err)
	require.True(t, written)
	_, err = c.Partition(at("__consumer_offsets", 50))
	require.ErrorIs(t, err, ErrUnknownTopic)
}

func TestConfigurationOfALiveTopicIsChanged(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 2, "max.message.bytes", "1000", "cleanup.policy", "delete")
	big := strings.Repeat("x", 2000)
	produce(t, c, at("orders", 0), "small")
	require.ErrorIs(t, tryProduce(c, at("orders", 0), big).Err, partition.ErrRecordTooLarge)
	require.NoError(t, c.AlterTopic(t.Context(), "orders", properties("max.message.bytes", "5000", "retention.ms", "77")))
	produce(t, c, at("orders", 0), big)
	produce(t, c, at("orders", 1), big) // was not open at the time of the change

	require.NoError(t, c.AlterTopicConfig(t.Context(), "orders",
		ConfigChange{Key: "max.message.bytes", Op: UnsetConfig},
		ConfigChange{Key: "cleanup.policy", Op: AppendConfig, Value: "compact,delete"},
		ConfigChange{Key: "min.insync.replicas", Op: UnsetConfig},
	))
	for _, c := range []*Cluster{c, open(t, fsys.Kill())} {
		info, err := c.Topic(t.Context(), "orders")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"retention.ms": "77", "cleanup.policy": "delete,compact"}, info.Settings.Explicit())
	}
	require.NoError(t, c.AlterTopicConfig(t.Context(), "orders", ConfigChange{Key: "cleanup.policy", Op: SubtractConfig, Value: "delete,none"}))
	info, _ := c.Topic(t.Context(), "orders")
	require.True(t, info.Settings.Compacted())
	require.False(t, info.Settings.Deleted())
}

func TestBadChangeOfConfigurationChangesNothing(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 1)
	version := c.Stats().MetadataVersion
	for name, ch := range map[string]ConfigChange{
		"unknown":           {Key: "nonsense", Value: "1"},
		"unset unknown":     {Key: "nonsense", Op: UnsetConfig},
		"bad value":         {Key: "retention.ms", Value: "x"},
		"not a list":        {Key: "retention.ms", Op: AppendConfig, Value: "1"},
		"bad item":          {Key: "cleanup.policy", Op: AppendConfig, Value: "shred"},
		"unknown op":        {Key: "cleanup.policy", Op: 9, Value: "delete"},
		"cannot be kept":    {Key: "remote.storage.enable", Value: "true"},
		"lags out of order": {Key: "min.compaction.lag.ms", Value: "9223372036854775807"},
	} {
		var changes []ConfigChange
		if name == "lags out of order" {
			changes = append(changes, ConfigChange{Key: "max.compaction.lag.ms", Value: "5"})
		}
		var bad *topic.ConfigError
		require.ErrorAs(t, c.AlterTopicConfig(t.Context(), "orders", append(changes, ConfigChange{Key: "segment.ms", Value: "5000"}, ch)...), &bad, name)
	}
	require.ErrorIs(t, c.AlterTopic(t.Context(), "none", nil), ErrUnknownTopic)
	require.Equal(t, version, c.Stats().MetadataVersion)
	require.NoError(t, c.AlterTopic(t.Context(), "orders", nil), "nothing to do")
	require.Equal(t, version, c.Stats().MetadataVersion)
}

func TestUnwiseTopicIsWarnedOfAtCreationAndChange(t *testing.T) {
	var out bytes.Buffer
	c := openWith(t, Config{FS: vfs.Mem(), Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	create(t, c, "orders", 1, "retention.ms", "3600000")
	require.Contains(t, out.String(), "topic=orders key=segment.ms")
	require.NotContains(t, out.String(), "min.insync.replicas", "nothing to recommend for a single replica")
	out.Reset()
	require.NoError(t, c.AlterTopic(t.Context(), "orders", properties("segment.ms", "60000", "retention.ms", "604800000")))
	require.Contains(t, out.String(), "fewer files")
}

func TestCancelledCallsReturnAtOnce(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.CreateTopic(ctx, "x", topic.Config{}), context.Canceled)
	require.ErrorIs(t, c.DeleteTopic(ctx, "orders"), context.Canceled)
	require.ErrorIs(t, c.AddPartitions(ctx, "orders", 5), context.Canceled)
	require.ErrorIs(t, c.AlterTopic(ctx, "orders", nil), context.Canceled)
	_, err := c.Topics(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.Topic(ctx, "orders")
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.DeleteRecords(ctx, map[tp]int64{at("orders", 0): 0})
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.ListOffsets(ctx, map[tp]partition.OffsetSpec{at("orders", 0): 0}, 0)
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.Clean(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, c.Roll(ctx, "orders"), context.Canceled)
	require.Equal(t, []string{"orders"}, names(t, c))
}

func TestTopicsAreManagedConcurrently(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for range 30 {
				name := string(rune('a' + rng.IntN(4)))
				switch rng.IntN(5) {
				case 0, 1:
					_ = c.CreateTopic(t.Context(), name, topic.Config{Partitions: 1 + rng.IntN(3)})
				case 2:
					_ = c.DeleteTopic(t.Context(), name)
				case 3:
					_ = c.AlterTopic(t.Context(), name, properties("retention.ms", "1234567"))
				case 4:
					tryProduce(c, at(name, 0), "v")
				}
			}
		})
	}
	wg.Wait()
	again := open(t, fsys.Kill())
	require.Equal(t, names(t, c), names(t, again))
	for _, name := range names(t, c) {
		a, _ := c.Topic(t.Context(), name)
		b, _ := again.Topic(t.Context(), name)
		require.Equal(t, a.ID, b.ID)
		require.Equal(t, a.Settings.Explicit(), b.Settings.Explicit())
		require.Equal(t, a.Partitions[0].HighWatermark, b.Partitions[0].HighWatermark)
	}
}
