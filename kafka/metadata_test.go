package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

func askMetadata(t *testing.T, addr string, version int16, create bool, topics ...kmsg.MetadataRequestTopic) *kmsg.MetadataResponse {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics, req.AllowAutoTopicCreation = topics, create
	return ask[*kmsg.MetadataResponse](t, addr, version, req)
}

func topicNamed(name string) kmsg.MetadataRequestTopic {
	return kmsg.MetadataRequestTopic{Topic: &name}
}

func TestMetadataOfAllNoneAndSomeTopics(t *testing.T) {
	s, addr := serve(t, Config{})
	for _, name := range []string{"b", "a"} {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), name, topic.Config{Partitions: 2}))
	}
	for version := range int16(14) {
		require.Len(t, askMetadata(t, addr, version, false).Topics, 2, "version %d", version)
	}
	none := kmsg.NewPtrMetadataRequest()
	none.Topics = []kmsg.MetadataRequestTopic{}
	require.Empty(t, ask[*kmsg.MetadataResponse](t, addr, 1, none).Topics)
	require.Len(t, ask[*kmsg.MetadataResponse](t, addr, 0, none).Topics, 2)

	got := askMetadata(t, addr, 13, false, topicNamed("a"), topicNamed("a"), topicNamed("no"), topicNamed(".."), topicNamed(""))
	require.Len(t, got.Topics, 4, "repeated names are answered once")
	require.Len(t, got.Topics[0].Partitions, 2)
	for i, want := range []Code{0, UnknownTopicOrPartition, InvalidTopicException, InvalidTopicException} {
		require.Equal(t, want, Code(got.Topics[i].ErrorCode))
	}
}

func TestMetadataByTopicID(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a", topic.Config{}))
	id, _ := s.cluster.TopicID("a")
	got := askMetadata(t, addr, 12, false, kmsg.MetadataRequestTopic{TopicID: id}, kmsg.MetadataRequestTopic{TopicID: [16]byte{1}})
	require.Equal(t, "a", *got.Topics[0].Topic)
	require.Equal(t, UnknownTopicID, Code(got.Topics[1].ErrorCode))
	require.Nil(t, got.Topics[1].Topic)
	got = askMetadata(t, addr, 11, false, kmsg.MetadataRequestTopic{TopicID: id}, topicNamed("a"))
	require.Equal(t, InvalidRequest, Code(got.Topics[0].ErrorCode))
	require.Equal(t, InvalidRequest, Code(got.Topics[1].ErrorCode))
	require.Equal(t, UnknownServerError, Code(askMetadata(t, addr, 12, false, kmsg.MetadataRequestTopic{}).Topics[0].ErrorCode))
}

func TestMetadataCreatesTopicsUnlessToldNotTo(t *testing.T) {
	_, addr := serve(t, Config{})
	require.Zero(t, askMetadata(t, addr, 13, true, topicNamed("a")).Topics[0].ErrorCode)
	require.Zero(t, askMetadata(t, addr, 3, false, topicNamed("b")).Topics[0].ErrorCode, "version 3 cannot refuse")
	require.Equal(t, UnknownTopicOrPartition, Code(askMetadata(t, addr, 4, false, topicNamed("c")).Topics[0].ErrorCode))
	for _, name := range []string{"__cluster_metadata", "__transaction_state"} {
		require.Equal(t, UnknownTopicOrPartition, Code(askMetadata(t, addr, 13, true, topicNamed(name)).Topics[0].ErrorCode), name)
	}
	offsets := askMetadata(t, addr, 13, true, topicNamed("__consumer_offsets")).Topics[0]
	require.Zero(t, offsets.ErrorCode)
	require.True(t, offsets.IsInternal)
	require.Len(t, offsets.Partitions, 50)
	_, addr = serve(t, Config{NoAutoCreate: true})
	require.Equal(t, UnknownTopicOrPartition, Code(askMetadata(t, addr, 13, true, topicNamed("a")).Topics[0].ErrorCode))
}

func TestTopicPartitionsAreDescribedInPages(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a", topic.Config{Partitions: 3}))
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "b", topic.Config{Partitions: 2}))
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2
	var pages, partitions int
	for {
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](t, addr, 0, req)
		pages++
		for _, rt := range resp.Topics {
			require.LessOrEqual(t, len(rt.Partitions), 2)
			partitions += len(rt.Partitions)
		}
		if resp.NextCursor == nil {
			break
		}
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition}
	}
	require.Equal(t, 5, partitions)
	require.Equal(t, 3, pages)

	req = kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "no"}, {Topic: "a"}, {Topic: "a"}, {Topic: ".."}}
	req.ResponsePartitionLimit = 1 << 30
	resp := ask[*kmsg.DescribeTopicPartitionsResponse](t, addr, 0, req)
	for i, want := range []Code{InvalidTopicException, 0, UnknownTopicOrPartition} {
		require.Equal(t, want, Code(resp.Topics[i].ErrorCode))
	}
	for _, bad := range []kmsg.DescribeTopicPartitionsRequestCursor{{Topic: "a", Partition: -1}, {Topic: "elsewhere"}} {
		req.Cursor = &bad
		for _, rt := range ask[*kmsg.DescribeTopicPartitionsResponse](t, addr, 0, req).Topics {
			require.Equal(t, InvalidRequest, Code(rt.ErrorCode))
		}
	}
	req.Cursor, req.ResponsePartitionLimit = nil, -5
	resp = ask[*kmsg.DescribeTopicPartitionsResponse](t, addr, 0, req)
	require.Equal(t, int32(1), resp.NextCursor.Partition, "a limit below one counts as one")
}
