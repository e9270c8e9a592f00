package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var _ = add("kadm/topics", func(t *testing.T, k target) {
	adm, topic := admin(t, k), fresh("topic")
	made, err := adm.CreateTopic(within(t), 3, 1, map[string]*string{"retention.ms": kadm.StringPtr("1234567")}, topic)
	require.NoError(t, err)
	require.EqualValues(t, 3, made.NumPartitions)
	_, err = adm.CreateTopic(within(t), 3, 1, nil, topic)
	require.ErrorIs(t, err, kerr.TopicAlreadyExists)
	_, err = adm.CreateTopic(within(t), 1, 1, nil, "a/b")
	require.ErrorIs(t, err, kerr.InvalidTopicException)
	_, err = adm.CreateTopic(within(t), 0, 1, nil, fresh("topic"))
	require.ErrorIs(t, err, kerr.InvalidPartitions)
	_, err = adm.CreateTopic(within(t), 1, 9, nil, fresh("topic"))
	require.ErrorIs(t, err, kerr.InvalidReplicationFactor)
	_, err = adm.CreateTopic(within(t), 1, 1, map[string]*string{"nonsense": kadm.StringPtr("1")}, fresh("topic"))
	require.ErrorIs(t, err, kerr.InvalidConfig)

	listed, err := adm.ListTopics(within(t), topic)
	require.NoError(t, err)
	require.Len(t, listed[topic].Partitions, 3)
	require.Equal(t, made.ID, listed[topic].ID)
	grown, err := adm.UpdatePartitions(within(t), 5, topic)
	require.NoError(t, err)
	require.NoError(t, grown.Error())
	// Kafka's brokers list them a moment later
	eventually(t, "the new partitions are listed", func() bool {
		listed, err := adm.ListTopics(within(t), topic)
		return err == nil && len(listed[topic].Partitions) == 5
	})
	gone, err := adm.DeleteTopics(within(t), topic)
	require.NoError(t, err)
	require.NoError(t, gone.Error())
	eventually(t, "the topic is gone", func() bool {
		listed, err := adm.ListTopics(within(t))
		return err == nil && !listed.Has(topic)
	})
})

var _ = add("kadm/configs", func(t *testing.T, k target) {
	adm, topic := admin(t, k), newTopic(t, k, 1, "retention.ms=1234567")
	get := func(key string) (string, string) {
		rcs, err := adm.DescribeTopicConfigs(within(t), topic)
		require.NoError(t, err)
		rc, err := rcs.On(topic, nil)
		require.NoError(t, err)
		require.NoError(t, rc.Err)
		for _, c := range rc.Configs {
			if c.Key == key {
				return *c.Value, c.Source.String()
			}
		}
		return "", ""
	}
	v, source := get("retention.ms")
	require.Equal(t, []string{"1234567", "DYNAMIC_TOPIC_CONFIG"}, []string{v, source})
	v, source = get("cleanup.policy")
	require.Equal(t, []string{"delete", "DEFAULT_CONFIG"}, []string{v, source})
	alter := func(op kadm.IncrementalOp, key, value string) error {
		r, err := adm.AlterTopicConfigs(within(t), []kadm.AlterConfig{{Op: op, Name: key, Value: &value}}, topic)
		require.NoError(t, err)
		return r[0].Err
	}
	require.NoError(t, alter(kadm.SetConfig, "segment.bytes", "2097152"))
	require.NoError(t, alter(kadm.AppendConfig, "cleanup.policy", "compact"))
	require.NoError(t, alter(kadm.DeleteConfig, "retention.ms", ""))
	require.Error(t, alter(kadm.SetConfig, "segment.bytes", "many"))
	require.Error(t, alter(kadm.SetConfig, "nonsense", "1"))
	// Kafka's broker applies them one after the other.
	eventually(t, "the changes are seen", func() bool {
		policy, _ := get("cleanup.policy")
		segment, _ := get("segment.bytes")
		retention, source := get("retention.ms")
		return policy == "delete,compact" && segment == "2097152" && retention == "604800000" && source == "DEFAULT_CONFIG"
	})

	meta, err := adm.BrokerMetadata(within(t))
	require.NoError(t, err)
	rcs, err := adm.DescribeBrokerConfigs(within(t), meta.Brokers[0].NodeID)
	require.NoError(t, err)
	require.NoError(t, rcs[0].Err)
	require.Greater(t, len(rcs[0].Configs), 50)
})

var _ = add("kadm/records-and-offsets", func(t *testing.T, k target) {
	adm, topic := admin(t, k), newTopic(t, k, 1)
	seed(t, k, topic, 20)
	deleted, err := adm.DeleteRecords(within(t), kadm.Offsets{topic: {0: {Topic: topic, At: 7}}})
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
	starts, err := adm.ListStartOffsets(within(t), topic)
	require.NoError(t, err)
	start, _ := starts.Lookup(topic, 0)
	require.EqualValues(t, 7, start.Offset)
	ends, err := adm.ListEndOffsets(within(t), topic)
	require.NoError(t, err)
	end, _ := ends.Lookup(topic, 0)
	require.EqualValues(t, 20, end.Offset)
	newest, err := adm.ListMaxTimestampOffsets(within(t), topic)
	require.NoError(t, err)
	m, _ := newest.Lookup(topic, 0)
	require.NoError(t, m.Err)
	require.Positive(t, m.Timestamp)
	later, err := adm.ListOffsetsAfterMilli(within(t), time.Now().Add(time.Hour).UnixMilli(), topic)
	require.NoError(t, err)
	l, _ := later.Lookup(topic, 0)
	require.EqualValues(t, 20, l.Offset)

	cl := franz(t, k, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	f := cl.PollFetches(within(t))
	require.NoError(t, f.Err())
	require.EqualValues(t, 7, f.Records()[0].Offset)
})

var _ = add("kadm/group-offsets", func(t *testing.T, k target) {
	adm, topic, group := admin(t, k), newTopic(t, k, 2), fresh("group")
	seed(t, k, topic, 5)
	at := kadm.Offsets{topic: {0: {Topic: topic, At: 3, LeaderEpoch: -1, Metadata: "note"}}}
	committed, err := adm.CommitOffsets(within(t), group, at)
	require.NoError(t, err)
	require.NoError(t, committed.Error())
	many := adm.FetchManyOffsets(within(t), group, fresh("nobody"))
	require.NoError(t, many[group].Err)
	o, ok := many[group].Fetched.Lookup(topic, 0)
	require.True(t, ok)
	require.Equal(t, []any{int64(3), "note"}, []any{o.At, o.Metadata})
	lag, err := adm.Lag(within(t), group)
	require.NoError(t, err)
	require.EqualValues(t, 2, lag[group].Lag.Total())
	groups, err := adm.ListGroups(within(t), "Empty")
	require.NoError(t, err)
	require.Contains(t, groups, group)
	deleted, err := adm.DeleteOffsets(within(t), group, one(topic))
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
	gone, err := adm.DeleteGroups(within(t), group, fresh("nobody"))
	require.NoError(t, err)
	require.Len(t, gone, 2)
	_, err = gone.On(group, nil)
	require.True(t, err == nil || gone[group].Err == kerr.GroupIDNotFound, "a group with no offsets left may be gone already")
})

var _ = add("kadm/cluster", func(t *testing.T, k target) {
	adm, topic := admin(t, k), newTopic(t, k, 2)
	seed(t, k, topic, 3)
	meta, err := adm.Metadata(within(t), topic)
	require.NoError(t, err)
	require.NotEmpty(t, meta.Cluster)
	first := meta.Topics[topic].Partitions[0]
	require.Contains(t, meta.Brokers.NodeIDs(), first.Leader)
	require.Equal(t, []int32{first.Leader}, first.ISR)
	versions, err := adm.ApiVersions(within(t))
	require.NoError(t, err)
	v, ok := versions[meta.Brokers[0].NodeID]
	require.True(t, ok)
	require.NoError(t, v.Err)
	for key, want := range map[int16]int16{0: 13, 1: 18, 3: 13, 9: 10, 11: 9, 19: 7} {
		highest, _ := v.KeyMaxVersion(key)
		require.Equal(t, want, highest, "API %d", key)
	}
	dirs, err := adm.DescribeAllLogDirs(within(t), nil)
	require.NoError(t, err)
	size := int64(-1)
	for _, d := range dirs.Sorted() {
		require.NoError(t, d.Err)
		if p, ok := d.Topics.Lookup(topic, 0); ok {
			size = p.Size
		}
	}
	require.Positive(t, size)
	epochs, err := adm.OffsetForLeaderEpoch(within(t), kadm.OffsetForLeaderEpochRequest{topic: {0: 0}})
	require.NoError(t, err)
	require.NoError(t, epochs[topic][0].Err)
	require.EqualValues(t, 3, epochs[topic][0].EndOffset)
	producers, err := adm.DescribeProducers(within(t), one(topic))
	require.NoError(t, err)
	require.NoError(t, producers[topic].Partitions[0].Err)
	require.Len(t, producers[topic].Partitions[0].ActiveProducers, 1)
	elected, err := adm.ElectLeaders(within(t), kadm.ElectPreferredReplica, one(topic))
	require.NoError(t, err)
	require.ErrorIs(t, elected[topic][0].Err, kerr.ElectionNotNeeded)
})

// one returns partition 0 of a topic.
func one(topic string) kadm.TopicsSet { return kadm.TopicsSet{topic: {0: {}}} }
