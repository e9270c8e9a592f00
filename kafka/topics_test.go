package kafka

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/topic"
)

func text(s string) *string { return &s }

func askCreate(t *testing.T, addr string, validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) []kmsg.CreateTopicsResponseTopic {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.ValidateOnly, req.TimeoutMillis = topics, validateOnly, 10_000
	return ask[*kmsg.CreateTopicsResponse](t, addr, 7, req).Topics
}

func newTopic(name string, partitions int32, factor int16, kv ...string) kmsg.CreateTopicsRequestTopic {
	nt := kmsg.CreateTopicsRequestTopic{Topic: name, NumPartitions: partitions, ReplicationFactor: factor}
	for i := 0; i < len(kv); i += 2 {
		nt.Configs = append(nt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: kv[i], Value: &kv[i+1]})
	}
	return nt
}

// A topic that is only validated has the zero id. Kafka describes it with an id that no topic
// will have.
func TestCreateTopicsRefusesAsKafkaDoes(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "there", topic.Config{}))
	assigned := func(partitions int32, as ...[]int32) kmsg.CreateTopicsRequestTopic {
		nt := newTopic("t", partitions, -1)
		for i, replicas := range as {
			nt.ReplicaAssignment = append(nt.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i), Replicas: replicas})
		}
		return nt
	}
	gap := assigned(-1, []int32{1}, []int32{1})
	gap.ReplicaAssignment[1].Partition = 2
	null := newTopic("t", 1, 1)
	null.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}
	for what, c := range map[string]struct {
		topic kmsg.CreateTopicsRequestTopic
		want  Code
	}{
		"fine":                   {newTopic("t", 1, 1), 0},
		"defaults":               {newTopic("t", -1, -1), 0},
		"exists":                 {newTopic("there", 1, 1), TopicAlreadyExists},
		"no partitions":          {newTopic("t", 0, 1), InvalidPartitions},
		"negative partitions":    {newTopic("t", -1<<31, 1), InvalidPartitions},
		"2^31-1 partitions":      {newTopic("t", 1<<31-1, 1), PolicyViolation},
		"no replicas":            {newTopic("t", 1, 0), InvalidReplicationFactor},
		"32767 replicas":         {newTopic("t", 1, 32767), InvalidReplicationFactor},
		"negative replicas":      {newTopic("t", 1, -32768), InvalidReplicationFactor},
		"unknown key":            {newTopic("t", 1, 1, "no.such", "1"), InvalidConfig},
		"bad value":              {newTopic("t", 1, 1, "retention.ms", "x"), InvalidConfig},
		"bad value and replicas": {newTopic("t", 1, 9, "retention.ms", "x"), InvalidConfig},
		"null value":             {null, InvalidConfig},
		"key twice":              {newTopic("t", 1, 1, "retention.ms", "1", "retention.ms", "2"), 0},
		"metadata":               {newTopic("__cluster_metadata", 1, 1), InvalidRequest},
		"empty name":             {newTopic("", 1, 1), InvalidTopicException},
		"dots":                   {newTopic("..", 1, 1), InvalidTopicException},
		"path":                   {newTopic("../x", 1, 1), InvalidTopicException},
		"slash":                  {newTopic("a/b", 1, 1), InvalidTopicException},
		"NUL":                    {newTopic("a\x00b", 1, 1), InvalidTopicException},
		"newline":                {newTopic("a\nb", 1, 1), InvalidTopicException},
		"250 characters":         {newTopic(strings.Repeat("a", 250), 1, 1), InvalidTopicException},
		"assigned":               {assigned(-1, []int32{1}, []int32{1}), 0},
		"assigned and counted":   {assigned(1, []int32{1}), InvalidRequest},
		"gap":                    {gap, InvalidReplicaAssignment},
		"unknown broker":         {assigned(-1, []int32{7}), InvalidReplicaAssignment},
		"broker twice":           {assigned(-1, []int32{1, 1}), InvalidReplicaAssignment},
		"no broker":              {assigned(-1, []int32{}), InvalidReplicaAssignment},
	} {
		got := askCreate(t, addr, true, c.topic)
		require.Len(t, got, 1, what)
		require.Equal(t, c.want, Code(got[0].ErrorCode), what)
		require.Equal(t, c.want == 0, got[0].ErrorMessage == nil, what)
	}
	all, err := s.cluster.Topics(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1, "nothing was created")
}

// Checklist row C8.
func TestWhatWasMadeForAClusterStartsOnOneBroker(t *testing.T) {
	wide := newTopic("wide", 2, 3, "min.insync.replicas", "2")
	_, addr := serve(t, Config{})
	require.Equal(t, InvalidReplicationFactor, Code(askCreate(t, addr, false, wide)[0].ErrorCode), "unless it is wanted")
	s, addr := serve(t, Config{LenientReplication: true})
	assigned := newTopic("assigned", -1, -1)
	assigned.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{1, 2}}}
	for what, c := range map[string]struct {
		topic kmsg.CreateTopicsRequestTopic
		want  Code
	}{
		"more replicas":      {wide, 0},
		"as many as brokers": {newTopic("one", 1, 1, "min.insync.replicas", "2"), 0},
		"none":               {newTopic("none", 1, 0), InvalidReplicationFactor},
		"others by name":     {assigned, InvalidReplicaAssignment},
		"a bad value":        {newTopic("bad", 1, 3, "min.insync.replicas", "x"), InvalidConfig},
	} {
		require.Equal(t, c.want, Code(askCreate(t, addr, false, c.topic)[0].ErrorCode), what)
	}
	for _, name := range []string{"wide", "one"} {
		info, err := s.cluster.Topic(t.Context(), name)
		require.NoError(t, err)
		require.Len(t, info.Partitions[0].Replicas, 1, name)
	}
}

// If several things are wrong, Kafka reports the first of: name, configuration, partitions and
// replicas.
func TestCreateTopicsLooksAtNamesThenConfigurationsThenCounts(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "is.there", topic.Config{}))
	assigned := newTopic("", -1, -1)
	assigned.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{77}}}
	null := newTopic("", 0, 1)
	null.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}
	for what, nt := range map[string]kmsg.CreateTopicsRequestTopic{
		"no partitions": newTopic("", 0, 1), "no replicas": newTopic("", 1, 0), "too many replicas": newTopic("", 1, 9),
		"bad value": newTopic("", 0, 1, "retention.ms", "x"), "null": null, "unknown broker": assigned,
	} {
		for name, want := range map[string]Code{"is.there": TopicAlreadyExists, "is_there": InvalidTopicException, "a/b": InvalidTopicException, "__cluster_metadata": InvalidRequest} {
			nt.Topic = name
			for _, validateOnly := range []bool{true, false} {
				got := askCreate(t, addr, validateOnly, nt)
				require.Equal(t, want, Code(got[0].ErrorCode), "%s, %s", name, what)
			}
		}
	}
	null.Topic, assigned.Topic = "new", "new"
	assigned.Configs = newTopic("", 0, 0, "retention.ms", "x").Configs
	for _, nt := range []kmsg.CreateTopicsRequestTopic{newTopic("new", 0, 1, "no.such", "1"), newTopic("new", 1, 9, "retention.ms", "x"), null, assigned} {
		require.Equal(t, InvalidConfig, Code(askCreate(t, addr, true, nt)[0].ErrorCode))
	}
	got := askCreate(t, addr, true, newTopic("__cluster_metadata", 20_000, 1), newTopic("new", 1, 1))
	require.Equal(t, InvalidRequest, Code(got[0].ErrorCode))
	require.Zero(t, got[1].ErrorCode, "what is refused anyway does not count")
}

func TestCreatedTopicIsAnsweredWithItsShapeAndConfiguration(t *testing.T) {
	s, addr := serve(t, Config{})
	got := askCreate(t, addr, false, newTopic("a", 3, -1, "retention.ms", "5"), newTopic("twice", 1, 1), newTopic("twice", 1, 1))
	require.Len(t, got, 2)
	require.Equal(t, InvalidRequest, Code(got[1].ErrorCode))
	require.Zero(t, got[0].ErrorCode)
	require.EqualValues(t, 3, got[0].NumPartitions)
	require.EqualValues(t, 1, got[0].ReplicationFactor)
	require.Len(t, got[0].Configs, 33, "as many as Kafka 4.3 has")
	id, ok := s.cluster.TopicID("a")
	require.True(t, ok)
	require.EqualValues(t, id, got[0].TopicID)
	_, ok = s.cluster.TopicID("twice")
	require.False(t, ok)
	for _, c := range got[0].Configs {
		if c.Name == "retention.ms" {
			require.Equal(t, "5", *c.Value)
			require.EqualValues(t, sourceTopic, c.Source)
		}
	}
}

func TestTopicsOfOneRequestAreAnsweredWithTheirOwnConfiguration(t *testing.T) {
	_, addr := serve(t, Config{})
	wants := []string{"", "", "5", "5", "6", "", "6"}
	var topics []kmsg.CreateTopicsRequestTopic
	for i, retention := range wants {
		nt := newTopic(fmt.Sprint("t", i), 1, 1)
		if retention != "" {
			nt = newTopic(nt.Topic, 1, 1, "retention.ms", retention)
		}
		topics = append(topics, nt)
	}
	for i, got := range askCreate(t, addr, false, topics...) {
		require.Zero(t, got.ErrorCode)
		require.Len(t, got.Configs, 33)
		for _, c := range got.Configs {
			if c.Name == "retention.ms" {
				require.Equal(t, cmp.Or(wants[i], "604800000"), *c.Value, i)
			}
		}
	}
}

func TestClusterRefusesTopicsBeyondItsPartitions(t *testing.T) {
	cluster, err := strata.Open(strata.Config{MaxPartitions: 5})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	_, addr := serveCluster(t, cluster, Config{})
	got := askCreate(t, addr, false, newTopic("a", 3, 1), newTopic("b", 3, 1))
	require.Zero(t, got[0].ErrorCode)
	require.Equal(t, PolicyViolation, Code(got[1].ErrorCode))
}

func TestOneRequestCreatesABoundedNumberOfPartitions(t *testing.T) {
	s, addr := serve(t, Config{})
	for _, got := range askCreate(t, addr, false, newTopic("a", 9_999, 1), newTopic("b", 2, 1)) {
		require.Equal(t, PolicyViolation, Code(got.ErrorCode))
	}
	require.Zero(t, s.cluster.Cluster.Stats().Topics)
	var names []kmsg.MetadataRequestTopic
	for i := range maxAutoCreated + 5 {
		names = append(names, topicNamed(fmt.Sprint("auto", i)))
	}
	got := askMetadata(t, addr, 13, true, names...)
	require.Len(t, got.Topics, maxAutoCreated+5)
	require.Equal(t, maxAutoCreated, s.cluster.Cluster.Stats().Topics)
	require.Equal(t, UnknownTopicOrPartition, Code(got.Topics[maxAutoCreated].ErrorCode))
}

func TestTopicsAreDeletedByNameAndByID(t *testing.T) {
	s, addr := serve(t, Config{})
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), name, topic.Config{}))
	}
	b, _ := s.cluster.TopicID("b")
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics = []kmsg.DeleteTopicsRequestTopic{
		{Topic: text("a")}, {TopicID: b}, {Topic: text("c")}, {Topic: text("c")}, {Topic: text("no")}, {TopicID: [16]byte{1}}, {}, {Topic: text("a"), TopicID: b},
		{Topic: text("../x")},
	}
	// without the entry that has both a name and an id, which is tested below
	req.Topics = append(req.Topics[:7], req.Topics[8])
	want := []Code{0, 0, InvalidRequest, UnknownTopicOrPartition, UnknownTopicID, InvalidRequest, UnknownTopicOrPartition}
	resp := ask[*kmsg.DeleteTopicsResponse](t, addr, 6, req)
	require.Len(t, resp.Topics, len(want))
	for i, w := range want {
		require.Equal(t, w, Code(resp.Topics[i].ErrorCode), "%d", i)
	}
	require.Equal(t, "b", *resp.Topics[1].Topic)
	req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: text("c"), TopicID: [16]byte{1}}}
	require.Equal(t, InvalidRequest, Code(ask[*kmsg.DeleteTopicsResponse](t, addr, 6, req).Topics[0].ErrorCode))
	req.TopicNames = []string{"c", "no"}
	resp = ask[*kmsg.DeleteTopicsResponse](t, addr, 5, req)
	require.Zero(t, resp.Topics[0].ErrorCode)
	require.Equal(t, UnknownTopicOrPartition, Code(resp.Topics[1].ErrorCode))
	all, err := s.cluster.Topics(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
}

// Too many partitions are POLICY_VIOLATION, as in CreateTopics. Kafka answers
// UNKNOWN_SERVER_ERROR to CreatePartitions.
func TestCreatePartitionsRefusesAsKafkaDoes(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "t", topic.Config{Partitions: 3}))
	grow := func(name string, count int32, validateOnly bool, as ...[]int32) Code {
		req := kmsg.NewPtrCreatePartitionsRequest()
		rt := kmsg.CreatePartitionsRequestTopic{Topic: name, Count: count}
		for _, replicas := range as {
			rt.Assignment = append(rt.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: replicas})
		}
		req.Topics, req.ValidateOnly = append(req.Topics, rt), validateOnly
		return Code(ask[*kmsg.CreatePartitionsResponse](t, addr, 3, req).Topics[0].ErrorCode)
	}
	for _, n := range []int32{3, 2, 0, -1, -1 << 31} {
		require.Equal(t, InvalidPartitions, grow("t", n, false), "%d", n)
	}
	require.Equal(t, PolicyViolation, grow("t", 1<<31-1, false))
	require.Equal(t, UnknownTopicOrPartition, grow("no", 9, false))
	require.Equal(t, UnknownTopicOrPartition, grow("../", 9, false))
	require.Equal(t, InvalidReplicaAssignment, grow("t", 5, false, []int32{1}))
	require.Equal(t, InvalidReplicaAssignment, grow("t", 4, false, []int32{9}))
	require.Equal(t, InvalidReplicaAssignment, grow("t", 4, false, []int32{}))
	require.Zero(t, grow("t", 4, true))
	require.Equal(t, 3, s.cluster.Cluster.Stats().Partitions)
	require.Zero(t, grow("t", 5, false, []int32{1}, []int32{1}))
	require.Equal(t, 5, s.cluster.Cluster.Stats().Partitions)
}
