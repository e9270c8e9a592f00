package interop

import (
	"context"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

var _ = func() bool {
	for name, codec := range map[string]kafka.Compression{"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd} {
		add("kafka-go/write-and-read-"+name, func(t *testing.T, k target) {
			topic := newTopic(t, k, 1)
			// the default transport caches topics of other checks for seconds
			own := &kafka.Transport{}
			defer own.CloseIdleConnections()
			w := &kafka.Writer{Transport: own, Addr: kafka.TCP(k.addr), Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond, Compression: codec}
			var msgs []kafka.Message
			for i := range 200 {
				msgs = append(msgs, kafka.Message{Key: []byte("k"), Value: value(i), Headers: []kafka.Header{{Key: "h", Value: []byte("x")}}})
			}
			require.NoError(t, w.WriteMessages(within(t), msgs...))
			require.NoError(t, w.Close())
			r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{k.addr}, Topic: topic, Partition: 0, MaxWait: time.Second})
			defer r.Close()
			for i := range 200 {
				m, err := r.ReadMessage(within(t))
				require.NoError(t, err)
				require.Equal(t, []any{int64(i), "k", string(value(i)), "x"}, []any{m.Offset, string(m.Key), string(m.Value), string(m.Headers[0].Value)})
			}
			lag, err := r.ReadLag(within(t))
			require.NoError(t, err)
			require.Zero(t, lag)
		})
	}
	return true
}()

var _ = add("kafka-go/group", func(t *testing.T, k target) {
	topic, group := newTopic(t, k, 2), fresh("group")
	seed(t, k, topic, 20)
	reader := func() *kafka.Reader {
		return kafka.NewReader(kafka.ReaderConfig{Brokers: []string{k.addr}, GroupTopics: []string{topic}, GroupID: group, StartOffset: kafka.FirstOffset,
			MaxWait: 200 * time.Millisecond, HeartbeatInterval: 200 * time.Millisecond, JoinGroupBackoff: 100 * time.Millisecond})
	}
	for _, from := range []int{0, 10} {
		r := reader()
		for i := from; i < from+10; i++ {
			m, err := r.FetchMessage(within(t))
			require.NoError(t, err)
			require.Equal(t, string(value(i)), string(m.Value))
			require.NoError(t, r.CommitMessages(within(t), m))
		}
		require.NoError(t, r.Close())
	}
})

var _ = add("kafka-go/client", func(t *testing.T, k target) {
	topic, group := fresh("topic"), fresh("group")
	c := &kafka.Client{Addr: kafka.TCP(k.addr), Timeout: 20 * time.Second}
	made, err := c.CreateTopics(within(t), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 2, ReplicationFactor: 1}}})
	require.NoError(t, err)
	require.NoError(t, made.Errors[topic])
	eventually(t, "the topic is known", func() bool {
		md, err := c.Metadata(within(t), &kafka.MetadataRequest{Topics: []string{topic}})
		return err == nil && len(md.Topics[0].Partitions) == 2
	})
	// the controller may name Kafka's broker as the leader before the broker leads
	eventually(t, "a record is taken", func() bool {
		r := kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte("v"))})
		produced, err := c.Produce(within(t), &kafka.ProduceRequest{Topic: topic, RequiredAcks: kafka.RequireAll, Records: r})
		return err == nil && produced.Error == nil
	})
	offsets, err := c.ListOffsets(within(t), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}}})
	require.NoError(t, err)
	require.EqualValues(t, 1, offsets.Topics[topic][0].LastOffset)
	_, err = c.FindCoordinator(within(t), &kafka.FindCoordinatorRequest{Key: group, KeyType: kafka.CoordinatorKeyTypeConsumer})
	require.NoError(t, err)
	eventually(t, "an offset is committed", func() bool {
		r, err := c.OffsetCommit(within(t), &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: 1}}}})
		return err == nil && r.Topics[topic][0].Error == nil
	})
	fetched, err := c.OffsetFetch(within(t), &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0}}})
	require.NoError(t, err)
	require.EqualValues(t, 1, fetched.Topics[topic][0].CommittedOffset)
	listed, err := c.ListGroups(within(t), &kafka.ListGroupsRequest{})
	require.NoError(t, err)
	require.NotEmpty(t, listed.Groups)
	described, err := c.DescribeGroups(within(t), &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	require.NoError(t, err)
	require.Equal(t, "Empty", described.Groups[0].GroupState)
	configs, err := c.DescribeConfigs(within(t), &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}}})
	require.NoError(t, err)
	require.NotEmpty(t, configs.Resources[0].ConfigEntries)
	grown, err := c.CreatePartitions(within(t), &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 3}}})
	require.NoError(t, err)
	require.NoError(t, grown.Errors[topic])
	gone, err := c.DeleteGroups(within(t), &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	require.NoError(t, err)
	require.NoError(t, gone.Errors[group])
	deleted, err := c.DeleteTopics(within(t), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	require.NoError(t, err)
	require.NoError(t, deleted.Errors[topic])
})

var _ = add("kafka-go/conn", func(t *testing.T, k target) {
	topic := newTopic(t, k, 1)
	conn, err := kafka.DialLeader(within(t), "tcp", k.addr, topic, 0)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.WriteMessages(kafka.Message{Value: []byte("a")}, kafka.Message{Value: []byte("b")})
	require.NoError(t, err)
	first, last, err := conn.ReadOffsets()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 2}, []int64{first, last})
	_, err = conn.Seek(1, kafka.SeekAbsolute)
	require.NoError(t, err)
	m, err := conn.ReadMessage(1000)
	require.NoError(t, err)
	require.Equal(t, "b", string(m.Value))
	versions, err := conn.ApiVersions()
	require.NoError(t, err)
	require.Greater(t, len(versions), 25)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{k.addr}, Topic: fresh("nope"), MaxAttempts: 1})
	defer r.Close()
	_, err = r.ReadMessage(ctx)
	require.Error(t, err)
})
