package topic

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// full sets every field that has a key.
var full = Config{
	MinInSyncReplicas: 2,
	Log: log.Config{
		IndexIntervalBytes: 1000, IndexBytes: 2000,
		SegmentBytes: 2 << 20, SegmentAge: time.Hour, SegmentJitter: time.Second, RetentionBytes: 5 << 20, RetentionAge: 2 * time.Hour,
		Cleanup: log.CleanupCompact | log.CleanupDelete, MinDirtyRatio: 0.25, MinCompactionLag: time.Second, MaxCompactionLag: time.Minute,
		DeleteRetention: time.Millisecond, DeleteDelay: 5 * time.Second, Sync: log.SyncInterval(50 * time.Millisecond), MaxBatchBytes: 99,
	},
}

var fullKeys = map[string]string{
	"min.insync.replicas": "2", "index.interval.bytes": "1000", "segment.index.bytes": "2000", "segment.bytes": "2097152", "segment.ms": "3600000",
	"segment.jitter.ms": "1000", "retention.bytes": "5242880", "retention.ms": "7200000", "cleanup.policy": "compact,delete",
	"min.cleanable.dirty.ratio": "0.25", "min.compaction.lag.ms": "1000", "max.compaction.lag.ms": "60000", "delete.retention.ms": "1",
	"flush.ms": "50", "max.message.bytes": "99", "file.delete.delay.ms": "5000",
}

func effective(t *testing.T, props map[string]string) partition.Config {
	t.Helper()
	s, err := Parse(props, nil)
	require.NoError(t, err)
	return s.Partition(partition.Config{})
}

func TestFieldsAreAFrontForKeys(t *testing.T) {
	keys, err := full.Explicit()
	require.NoError(t, err)
	require.Equal(t, fullKeys, keys)
	none, err := Config{Partitions: 3, ReplicationFactor: 2}.Explicit()
	require.NoError(t, err)
	require.Empty(t, none, "numbers are no configuration")
	require.NotNil(t, none)
}

func TestFieldsComeBackThroughTheKeys(t *testing.T) {
	require.Equal(t, full.Log, effective(t, fullKeys).Log)
}

func TestFieldAndKeyMustAgree(t *testing.T) {
	c := full
	c.Properties = map[string]string{"retention.ms": " 7200000", "cleanup.policy": "compact, delete", "compression.type": "zstd"}
	keys, err := c.Explicit()
	require.NoError(t, err, "spelled otherwise, but equal")
	require.Equal(t, "zstd", keys["compression.type"])
	c.Properties = map[string]string{"retention.ms": "7200001"}
	_, err = c.Explicit()
	var bad *ConfigError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "retention.ms", bad.Key)
	require.Contains(t, bad.Reason, "7200000")
	require.Equal(t, map[string]string{"retention.ms": "7200001"}, c.Properties, "the caller's map is left alone")
}

func TestSpecialFieldsHaveKafkasSpelling(t *testing.T) {
	for _, c := range []struct {
		log        log.Config
		key, value string
	}{
		{log.Config{RetentionAge: log.Unlimited}, "retention.ms", "-1"},
		{log.Config{RetentionBytes: log.Unlimited}, "retention.bytes", "-1"},
		{log.Config{MaxCompactionLag: math.MaxInt64}, "max.compaction.lag.ms", "9223372036854"},
		{log.Config{Cleanup: log.CleanupNone}, "cleanup.policy", ""},
		{log.Config{Cleanup: log.CleanupCompact}, "cleanup.policy", "compact"},
		{log.Config{Sync: log.SyncNever}, "flush.messages", "9223372036854775807"},
		{log.Config{SegmentBytes: 4096}, "internal.segment.bytes", "4096"},
	} {
		keys, err := Config{Log: c.log}.Explicit()
		require.NoError(t, err)
		require.Equal(t, map[string]string{c.key: c.value}, keys)
	}
}

func TestFieldsOutOfBoundsAreReportedByKey(t *testing.T) {
	for key, c := range map[string]Config{
		"segment.ms":                {Log: log.Config{SegmentAge: -5 * time.Second}},
		"retention.ms":              {Log: log.Config{RetentionAge: 1500 * time.Microsecond}},
		"min.cleanable.dirty.ratio": {Log: log.Config{MinDirtyRatio: 2}},
		"min.insync.replicas":       {MinInSyncReplicas: -1},
		"cleanup.policy":            {Log: log.Config{Cleanup: 64}},
		"segment.bytes":             {Log: log.Config{SegmentBytes: 1 << 40}},
		"max.message.bytes":         {Log: log.Config{MaxBatchBytes: -1}},
		"min.compaction.lag.ms":     {Log: log.Config{MinCompactionLag: time.Hour, MaxCompactionLag: time.Minute}},
		"retention.hours":           {Properties: map[string]string{"retention.hours": "1"}},
	} {
		_, err := c.Explicit()
		var bad *ConfigError
		require.ErrorAs(t, err, &bad, key)
		require.Equal(t, key, bad.Key)
	}
}

func TestFieldsOfABrokerAreRefused(t *testing.T) {
	for name, l := range map[string]log.Config{
		"Log.FS":     {FS: vfs.Mem()},
		"Log.Logger": {Logger: slog.New(slog.DiscardHandler)},
		"Log.Dir":    {Dir: new(log.Directory)},
	} {
		_, err := Config{Log: l}.Explicit()
		var bad *ConfigError
		require.ErrorAs(t, err, &bad, name)
		require.Equal(t, name, bad.Key)
	}
}

func TestDefaultsAreKafkasButForTheSync(t *testing.T) {
	c := effective(t, nil)
	require.Equal(t, partition.Config{
		TimestampBeforeMax: log.Unlimited, TimestampAfterMax: time.Hour, MinInSync: 1,
		Log: log.Config{
			IndexIntervalBytes: 4096, IndexBytes: 10485760,
			SegmentBytes: 1 << 30, SegmentAge: 168 * time.Hour, RetentionBytes: log.Unlimited, RetentionAge: 168 * time.Hour, Cleanup: log.CleanupDelete,
			MinDirtyRatio: 0.5, MaxCompactionLag: math.MaxInt64, DeleteRetention: 24 * time.Hour, MaxBatchBytes: 1048588, Sync: log.SyncOnAck,
			DeleteDelay: time.Minute,
		},
	}, c)
}

func TestFlushKeysChooseTheSyncPolicy(t *testing.T) {
	for _, c := range []struct {
		messages, ms string
		want         log.SyncPolicy
	}{
		{"", "", log.SyncOnAck},
		{"1", "", log.SyncOnAck},
		{"1000", "", log.SyncOnAck}, // stricter than configured
		{maxLong, "", log.SyncNever},
		{"", maxLong, log.SyncNever},
		{maxLong, maxLong, log.SyncNever},
		{"", "1000", log.SyncInterval(time.Second)},
		{maxLong, "1000", log.SyncInterval(time.Second)},
		{"1", "1000", log.SyncOnAck},
		{"", "0", log.SyncOnAck},
	} {
		props := map[string]string{}
		if c.messages != "" {
			props["flush.messages"] = c.messages
		}
		if c.ms != "" {
			props["flush.ms"] = c.ms
		}
		require.Equal(t, c.want, effective(t, props).Log.Sync, "%v", props)
	}
	s, err := Parse(map[string]string{"flush.ms": "1000"}, nil)
	require.NoError(t, err)
	v, source := s.Value("flush.messages")
	require.Equal(t, maxLong, v, "described as what is in effect")
	require.Equal(t, SourceDefault, source)
	s, err = Parse(map[string]string{"flush.ms": "1000"}, map[string]string{"flush.messages": "1"})
	require.NoError(t, err)
	require.Equal(t, log.SyncOnAck, s.SyncPolicy(), "the cluster's default counts beside the topic's key, as in Kafka")
}

func TestZeroInAKeyIsNotTheDefault(t *testing.T) {
	c := effective(t, map[string]string{
		"retention.ms": "0", "retention.bytes": "0", "delete.retention.ms": "0", "min.cleanable.dirty.ratio": "0", "max.message.bytes": "0",
		"index.interval.bytes": "0", "message.timestamp.after.max.ms": "0", "message.timestamp.before.max.ms": "0",
		"file.delete.delay.ms": "0",
	})
	require.Zero(t, c.Log.DeleteDelay)
	require.Equal(t, time.Nanosecond, c.Log.RetentionAge)
	require.Equal(t, int64(1), c.Log.RetentionBytes)
	require.Equal(t, time.Nanosecond, c.Log.DeleteRetention)
	require.Positive(t, c.Log.MinDirtyRatio)
	require.Less(t, c.Log.MinDirtyRatio, 1e-9)
	require.Equal(t, 1, c.Log.MaxBatchBytes)
	require.Equal(t, 1, c.Log.IndexIntervalBytes)
	require.Equal(t, time.Nanosecond, c.TimestampAfterMax)
	require.Equal(t, time.Nanosecond, c.TimestampBeforeMax)
}

func TestPartitionSettingsFollowTheKeys(t *testing.T) {
	c := effective(t, map[string]string{
		"message.timestamp.type": "LogAppendTime", "compression.type": "zstd", "message.timestamp.before.max.ms": "5",
		"message.timestamp.after.max.ms": "7", "retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "", "internal.segment.bytes": "100",
	})
	require.Equal(t, record.LogAppendTime, c.TimestampType)
	require.Equal(t, partition.CompressWith(record.Zstd), c.Compression)
	require.Equal(t, 5*time.Millisecond, c.TimestampBeforeMax)
	require.Equal(t, 7*time.Millisecond, c.TimestampAfterMax)
	require.Equal(t, time.Duration(log.Unlimited), c.Log.RetentionAge)
	require.Equal(t, int64(log.Unlimited), c.Log.RetentionBytes)
	require.Equal(t, log.CleanupNone, c.Log.Cleanup)
	require.Equal(t, int64(100), c.Log.SegmentBytes)
	for text, want := range compressions {
		require.Equal(t, want, effective(t, map[string]string{"compression.type": text}).Compression)
	}
}

func TestWhatBelongsToTheBrokerIsKept(t *testing.T) {
	fsys := vfs.Mem()
	c := Settings{}.Partition(partition.Config{Log: log.Config{FS: fsys}, ProducerIDExpiration: time.Hour})
	require.Equal(t, fsys, c.Log.FS)
	require.Equal(t, time.Hour, c.ProducerIDExpiration)
}
