package topic

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names, types, defaults and lower bounds of Apache Kafka 4.3.0, from its LogConfig class.
const kafkaKeys = `
cleanup.policy LIST delete
compression.gzip.level INT -1
compression.lz4.level INT 9
compression.type STRING producer
compression.zstd.level INT 3
delete.retention.ms LONG 86400000
file.delete.delay.ms LONG 60000
flush.messages LONG 9223372036854775807
flush.ms LONG 9223372036854775807
follower.replication.throttled.replicas LIST
index.interval.bytes INT 4096
internal.segment.bytes INT
leader.replication.throttled.replicas LIST
local.retention.bytes LONG -2
local.retention.ms LONG -2
max.compaction.lag.ms LONG 9223372036854775807
max.message.bytes INT 1048588
message.timestamp.after.max.ms LONG 3600000
message.timestamp.before.max.ms LONG 9223372036854775807
message.timestamp.type STRING CreateTime
min.cleanable.dirty.ratio DOUBLE 0.5
min.compaction.lag.ms LONG 0
min.insync.replicas INT 1
preallocate BOOLEAN false
remote.log.copy.disable BOOLEAN false
remote.log.delete.on.disable BOOLEAN false
remote.storage.enable BOOLEAN false
retention.bytes LONG -1
retention.ms LONG 604800000
segment.bytes INT 1073741824
segment.index.bytes INT 10485760
segment.jitter.ms LONG 0
segment.ms LONG 604800000
unclean.leader.election.enable BOOLEAN false`

func TestKeysAreKafkasWithOneDeviation(t *testing.T) {
	want := strings.Split(strings.TrimSpace(kafkaKeys), "\n")
	var got []string
	for _, k := range Keys() {
		def := k.Default
		if k.Name == "flush.messages" {
			require.Equal(t, "1", def, "an acknowledged record is on stable storage by default")
			def = maxLong
		}
		got = append(got, strings.TrimSpace(k.Name+" "+string(k.Type)+" "+def))
	}
	require.Equal(t, want, got)
	require.Len(t, Settings{}.Describe(), 33, "a CreateTopics response lists that many")
}

func TestEveryKeyIsDocumentedAndAcceptsItsDefault(t *testing.T) {
	require.True(t, slices.IsSortedFunc(Keys(), func(a, b Key) int { return strings.Compare(a.Name, b.Name) }))
	for _, k := range Keys() {
		require.NotEmpty(t, k.Doc, k.Name)
		require.NotEmpty(t, k.Valid, k.Name)
		if k.Internal {
			continue
		}
		_, err := Parse(map[string]string{k.Name: k.Default}, nil)
		require.NoError(t, err, k.Name)
	}
}

func TestBadValuesAreRefusedByKeyValueAndReason(t *testing.T) {
	for _, c := range []struct{ key, value, reason string }{
		{"retention.hours", "1", "no such"},
		{"message.format.version", "2.0", "no such"},
		{"", "1", "no such"},
		{"retention.ms", "a week", "64-bit"},
		{"retention.ms", "", "64-bit"},
		{"retention.ms", "1.5", "64-bit"},
		{"retention.ms", "-2", "at least -1"},
		{"retention.ms", "9223372036854775808", "64-bit"},
		{"segment.bytes", "1048575", "at least 1048576"},
		{"segment.bytes", "2147483648", "32-bit"},
		{"segment.ms", "0", "at least 1"},
		{"segment.index.bytes", "3", "at least 4"},
		{"max.message.bytes", "-1", "at least 0"},
		{"min.cleanable.dirty.ratio", "1.01", "no more than 1"},
		{"min.cleanable.dirty.ratio", "-0.01", "at least 0"},
		{"min.cleanable.dirty.ratio", "NaN", "number"},
		{"min.cleanable.dirty.ratio", "half", "number"},
		{"min.insync.replicas", "0", "at least 1"},
		{"flush.messages", "0", "at least 1"},
		{"flush.ms", "-1", "at least 0"},
		{"cleanup.policy", "delete,shred", "list of compact, delete"},
		{"cleanup.policy", "delete,delete", "twice"},
		{"cleanup.policy", ",", "list of compact, delete"},
		{"compression.type", "none", "one of"},
		{"compression.type", "GZIP", "one of"},
		{"message.timestamp.type", "createtime", "one of"},
		{"unclean.leader.election.enable", "yes", "true or false"},
		{"max.compaction.lag.ms", "0", "at least 1"},
		{"leader.replication.throttled.replicas", "x", "partition:broker"},
		{"follower.replication.throttled.replicas", "0:1,*", "partition:broker"},
		{"follower.replication.throttled.replicas", "*,*", "partition:broker"},
		{"follower.replication.throttled.replicas", "-1:2", "partition:broker"},
		{"follower.replication.throttled.replicas", "0:", "partition:broker"},
		{"follower.replication.throttled.replicas", "0:1:2", "partition:broker"},
		{"follower.replication.throttled.replicas", "none", "partition:broker"},
		// Settings that Strata cannot honour.
		{"remote.storage.enable", "true", "tiered"},
		{"remote.log.copy.disable", "true", "tiered"},
		{"remote.log.delete.on.disable", "true", "tiered"},
		{"local.retention.ms", "1000", "tiered"},
		{"local.retention.bytes", "-1", "tiered"},
		{"compression.zstd.level", "9", "level"},
		{"preallocate", "true", "preallocated"},
	} {
		for _, cluster := range []bool{false, true} {
			m := map[string]string{c.key: c.value}
			var err error
			if cluster {
				_, err = Parse(nil, m)
			} else {
				_, err = Parse(m, nil)
			}
			var bad *ConfigError
			require.ErrorAs(t, err, &bad, "%s=%s", c.key, c.value)
			require.Equal(t, c.key, bad.Key)
			require.Equal(t, c.value, bad.Value)
			require.Contains(t, bad.Reason, c.reason)
			require.Contains(t, err.Error(), c.key)
		}
	}
}

// Observed in Kafka 4.3.
func TestThrottledReplicasAreAListOrAll(t *testing.T) {
	for list, want := range map[string][]bool{ // of 0:1, 0:2, 12:1
		"":                             {false, false, false},
		",":                            {false, false, false},
		"*":                            {true, true, true},
		" *, ":                         {true, true, true},
		"0:1":                          {true, false, false},
		" 0:1 , 12:1,":                 {true, false, true},
		"0:2,0:2,1:2,2:1":              {false, true, false},
		"00:01":                        {true, false, false},
		"0:99999999999,99999999999:1":  {false, false, false},
		"4294967296:1,0:4294967298,0:": nil,
	} {
		_, err := Parse(map[string]string{"leader.replication.throttled.replicas": list, "follower.replication.throttled.replicas": list}, nil)
		if want == nil {
			require.Error(t, err, list)
			continue
		}
		require.NoError(t, err, list)
		require.Equal(t, want, []bool{ListsReplica(list, 0, 1), ListsReplica(list, 0, 2), ListsReplica(list, 12, 1)}, "%q", list)
	}
}

func TestEveryBadKeyIsReportedAtOnce(t *testing.T) {
	_, err := Parse(map[string]string{"retention.ms": "x", "nonsense": "y", "segment.ms": "1"}, nil)
	require.ErrorContains(t, err, "retention.ms")
	require.ErrorContains(t, err, "nonsense")
	require.NotContains(t, err.Error(), "segment.ms")
}

func TestCompactionLagsMustBeInOrder(t *testing.T) {
	var bad *ConfigError
	_, err := Parse(map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}, nil)
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "min.compaction.lag.ms", bad.Key)
	_, err = Parse(map[string]string{"min.compaction.lag.ms": "10"}, map[string]string{"max.compaction.lag.ms": "9"})
	require.ErrorAs(t, err, &bad, "also across layers")
}

func TestValuesAreReadAsKafkaReadsThem(t *testing.T) {
	s, err := Parse(map[string]string{"retention.ms": " 60000 ", "cleanup.policy": " compact , delete", "unclean.leader.election.enable": "TRUE"}, nil)
	require.NoError(t, err)
	require.Equal(t, int64(60000), s.num("retention.ms"))
	require.True(t, s.Compacted() && s.Deleted())
	require.True(t, s.UncleanLeaderElection())
	none, err := Parse(map[string]string{"cleanup.policy": ""}, nil)
	require.NoError(t, err)
	require.False(t, none.Compacted() || none.Deleted())
}

func TestTopicBeatsClusterBeatsDefault(t *testing.T) {
	topic := map[string]string{"retention.ms": "1"}
	s, err := Parse(topic, map[string]string{"retention.ms": "2", "segment.ms": "3"})
	require.NoError(t, err)
	topic["retention.ms"] = "99" // the map was copied
	for key, want := range map[string]struct {
		value  string
		source Source
	}{
		"retention.ms": {"1", SourceTopic}, "segment.ms": {"3", SourceCluster}, "max.message.bytes": {"1048588", SourceDefault},
	} {
		v, source := s.Value(key)
		require.Equal(t, want.value, v)
		require.Equal(t, want.source, source)
	}
	require.Equal(t, map[string]string{"retention.ms": "1"}, s.Explicit())
	for _, d := range s.Describe() {
		if d.Key.Name == "retention.ms" {
			require.Equal(t, []Layer{{SourceTopic, "1"}, {SourceCluster, "2"}, {SourceDefault, "604800000"}}, d.Layers)
		}
	}
	require.Equal(t, "DYNAMIC_TOPIC_CONFIG STATIC_BROKER_CONFIG DEFAULT_CONFIG", SourceTopic.String()+" "+SourceCluster.String()+" "+SourceDefault.String())
}

func TestInternalKeysAreListedOnlyIfSet(t *testing.T) {
	s, err := Parse(map[string]string{"internal.segment.bytes": "100"}, nil)
	require.NoError(t, err)
	require.Len(t, s.Describe(), 34)
	require.Equal(t, int64(100), s.segmentBytes())
}

func TestMinInSyncReplicasIsCappedByTheReplicas(t *testing.T) {
	s, err := Parse(map[string]string{"min.insync.replicas": "2"}, nil)
	require.NoError(t, err)
	require.Equal(t, 1, s.MinInSyncReplicas(1))
	require.Equal(t, 2, s.MinInSyncReplicas(3))
	require.Equal(t, 1, Settings{}.MinInSyncReplicas(3))
}

func FuzzParse(f *testing.F) {
	for _, k := range Keys() {
		f.Add(k.Name, k.Default)
		f.Add(k.Name, "-1")
	}
	f.Add("cleanup.policy", " ,compact,")
	f.Fuzz(func(t *testing.T, key, text string) {
		s, err := Parse(map[string]string{key: text}, nil)
		if err != nil {
			var bad *ConfigError
			require.ErrorAs(t, err, &bad)
			return
		}
		again, err := Parse(s.Explicit(), nil)
		require.NoError(t, err)
		require.Equal(t, s.Describe()[0].Value, again.Describe()[0].Value)
	})
}
