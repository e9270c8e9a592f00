package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

func TestClusterAndItsOneControllerAreDescribed(t *testing.T) {
	s, addr := serve(t, Config{})
	req := kmsg.NewPtrDescribeClusterRequest()
	got := ask[*kmsg.DescribeClusterResponse](t, addr, 2, req)
	require.Equal(t, s.cluster.ClusterID(), got.ClusterID)
	require.Len(t, got.Brokers, 1)
	for kind, want := range map[int8]Code{2: MismatchedEndpointType, 0: UnsupportedEndpointType, -1: UnsupportedEndpointType} {
		req.EndpointType = kind
		require.Equal(t, want, Code(ask[*kmsg.DescribeClusterResponse](t, addr, 2, req).ErrorCode))
	}

	quorum := kmsg.NewPtrDescribeQuorumRequest()
	p := []kmsg.DescribeQuorumRequestTopicPartition{{}}
	quorum.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: topic.MetadataTopic, Partitions: p}, {Topic: "x", Partitions: p}}
	described := ask[*kmsg.DescribeQuorumResponse](t, addr, 2, quorum)
	leader := described.Topics[0].Partitions[0]
	require.Equal(t, s.cluster.Controller(), leader.LeaderID)
	require.Len(t, leader.CurrentVoters, 1)
	require.Equal(t, leader.HighWatermark, leader.CurrentVoters[0].LogEndOffset)
	require.Equal(t, UnknownTopicOrPartition, Code(described.Topics[1].Partitions[0].ErrorCode))

	features := kmsg.NewPtrUpdateFeaturesRequest()
	features.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "metadata.version", MaxVersionLevel: 99}}
	for v := range int16(3) {
		require.Equal(t, InvalidUpdateVersion, Code(ask[*kmsg.UpdateFeaturesResponse](t, addr, v, features).ErrorCode))
	}
}

func TestNothingIsElectedOrReassignedWithOneBroker(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a", topic.Config{}))
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "a", Partitions: []int32{0, 9, -1}}}
	for kind := range int8(2) {
		elect.ElectionType = kind
		got := ask[*kmsg.ElectLeadersResponse](t, addr, 2, elect).Topics[0].Partitions
		for i, want := range []Code{UnknownTopicOrPartition, ElectionNotNeeded, UnknownTopicOrPartition} {
			require.Equal(t, want, Code(got[i].ErrorCode))
		}
	}
	elect.ElectionType = 7
	require.Equal(t, InvalidRequest, Code(ask[*kmsg.ElectLeadersResponse](t, addr, 2, elect).ErrorCode))
	elect = kmsg.NewPtrElectLeadersRequest()
	all := ask[*kmsg.ElectLeadersResponse](t, addr, 2, elect).Topics
	require.Len(t, all, 1)
	require.Equal(t, "a", all[0].Topic)
	require.Empty(t, all[0].Partitions, "of all partitions those are named that were not led as asked")
	elect.Topics = []kmsg.ElectLeadersRequestTopic{}
	require.Empty(t, ask[*kmsg.ElectLeadersResponse](t, addr, 2, elect).Topics)

	for _, c := range []struct {
		name      string
		partition int32
		replicas  []int32
		want      Code
	}{
		{"a", 0, []int32{1}, 0}, {"a", 0, nil, NoReassignmentInProgress}, {"a", 0, []int32{2}, InvalidReplicaAssignment}, {"a", 0, []int32{}, InvalidReplicaAssignment},
		{"a", 0, []int32{1, 1}, InvalidReplicaAssignment}, {"a", 9, []int32{1}, UnknownTopicOrPartition}, {"no", 0, nil, UnknownTopicOrPartition},
	} {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: c.name, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: c.partition, Replicas: c.replicas}}}}
		require.Equal(t, c.want, Code(ask[*kmsg.AlterPartitionAssignmentsResponse](t, addr, 1, req).Topics[0].Partitions[0].ErrorCode), "%v", c)
	}
	require.Empty(t, ask[*kmsg.ListPartitionReassignmentsResponse](t, addr, 0, kmsg.NewPtrListPartitionReassignmentsRequest()).Topics)
}

func TestLogDirsShowPartitionsAndTheirSizes(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a", topic.Config{Partitions: 2}))
	req := kmsg.NewPtrDescribeLogDirsRequest()
	got := ask[*kmsg.DescribeLogDirsResponse](t, addr, 5, req)
	require.Len(t, got.Dirs, 1)
	require.Equal(t, s.cluster.LogDir(1), got.Dirs[0].Dir)
	require.EqualValues(t, -1, got.Dirs[0].TotalBytes, "not known of memory")
	require.Len(t, got.Dirs[0].Topics[0].Partitions, 2)
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "a", Partitions: []int32{1, 1, 7, -1}}, {Topic: "no", Partitions: []int32{0}}, {Topic: "../", Partitions: []int32{0}}}
	got = ask[*kmsg.DescribeLogDirsResponse](t, addr, 5, req)
	require.Len(t, got.Dirs[0].Topics, 1)
	require.Len(t, got.Dirs[0].Topics[0].Partitions, 1)
}

func TestProducerIDsAreGivenToIdempotentProducersOnly(t *testing.T) {
	_, addr := serve(t, Config{})
	init := func(version int16, txn *string, id int64, epoch int16) *kmsg.InitProducerIDResponse {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = txn, id, epoch
		return ask[*kmsg.InitProducerIDResponse](t, addr, version, req)
	}
	first, second := init(0, nil, -1, -1), init(5, nil, 7, 3)
	require.Zero(t, first.ErrorCode)
	require.NotEqual(t, first.ProducerID, second.ProducerID)
	require.Zero(t, second.ProducerEpoch)
	for _, c := range []struct {
		txn   *string
		id    int64
		epoch int16
		want  Code
	}{{nil, 7, -1, InvalidRequest}, {nil, -1, 7, InvalidRequest}, {text(""), -1, -1, InvalidRequest}, {text("x"), -1, -1, NotCoordinator}} {
		got := init(5, c.txn, c.id, c.epoch)
		require.Equal(t, c.want, Code(got.ErrorCode))
		require.EqualValues(t, -1, got.ProducerID)
	}
}

func TestRecordsAreDeletedAndEpochsEndAsInKafka(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a", topic.Config{}))
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "compacted", topic.Config{Properties: map[string]string{"cleanup.policy": "compact"}}))
	_, err := s.cluster.OffsetsPartition(t.Context(), "", true)
	require.NoError(t, err)
	for _, c := range []struct {
		name      string
		partition int32
		offset    int64
		want      Code
	}{
		{"a", 0, -1, 0}, {"a", 0, 0, 0}, {"a", 0, 1, OffsetOutOfRange}, {"a", 0, -2, OffsetOutOfRange}, {"a", 0, -1 << 63, OffsetOutOfRange}, {"a", 3, 0, UnknownTopicOrPartition},
		{"a", -3, 0, UnknownTopicOrPartition}, {"../", 0, 0, UnknownTopicOrPartition}, {"compacted", 0, 0, PolicyViolation}, {"__consumer_offsets", 0, 0, InvalidTopicException},
	} {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: c.name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: c.partition, Offset: c.offset}}}}
		got := ask[*kmsg.DeleteRecordsResponse](t, addr, 2, req).Topics[0].Partitions[0]
		require.Equal(t, c.want, Code(got.ErrorCode), "%v", c)
		require.Equal(t, c.want != 0, got.LowWatermark == -1, "%v", c)
	}
	for _, c := range []struct {
		partition, current, epoch int32
		want                      Code
		end                       int64
	}{{0, -1, 0, 0, 0}, {0, -1, -1, 0, -1}, {0, -1, 9, 0, -1}, {0, 9, 0, UnknownLeaderEpoch, -1}, {0, -7, 0, FencedLeaderEpoch, -1}, {7, -1, 0, UnknownTopicOrPartition, -1}} {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
			{Partition: c.partition, CurrentLeaderEpoch: c.current, LeaderEpoch: c.epoch},
		}}}
		got := ask[*kmsg.OffsetForLeaderEpochResponse](t, addr, 4, req).Topics[0].Partitions[0]
		require.Equal(t, c.want, Code(got.ErrorCode), "%v", c)
		require.Equal(t, c.end, got.EndOffset, "%v", c)
	}
}

func TestProducersOfAPartitionAreDescribed(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a", topic.Config{}))
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "a", Partitions: []int32{0, 7, -1}}, {Topic: "../", Partitions: []int32{0}}}
	got := ask[*kmsg.DescribeProducersResponse](t, addr, 0, req)
	for i, want := range []Code{0, UnknownTopicOrPartition, UnknownTopicOrPartition} {
		require.Equal(t, want, Code(got.Topics[0].Partitions[i].ErrorCode))
	}
	require.Equal(t, InvalidTopicException, Code(got.Topics[1].Partitions[0].ErrorCode))
}
