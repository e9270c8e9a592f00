package kfake

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// namesNodes returns a request of each kind that names nodes. Each names three, from n on.
func namesNodes(n int32) []kmsg.Request {
	nodes := func() []int32 { return []int32{n, n + 1, n + 2} }
	create := kmsg.NewPtrCreateTopicsRequest()
	partitions := kmsg.NewPtrCreatePartitionsRequest()
	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	describe, alter, incremental := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewPtrAlterConfigsRequest(), kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, name := range []string{"a", "b", "c"} {
		topic, grown, moved := kmsg.NewCreateTopicsRequestTopic(), kmsg.NewCreatePartitionsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopic()
		topic.Topic, grown.Topic, moved.Topic = name, name, name
		for p := range int32(3) {
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: p, Replicas: nodes()})
			grown.Assignment = append(grown.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: nodes()})
			moved.Partitions = append(moved.Partitions, kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: p, Replicas: nodes()})
		}
		create.Topics, partitions.Topics, move.Topics = append(create.Topics, topic), append(partitions.Topics, grown), append(move.Topics, moved)
		resource := map[string]struct {
			kind kmsg.ConfigResourceType
			name string
		}{
			"a": {resourceBroker, strconv.Itoa(int(n))},
			"b": {resourceBrokerLogger, strconv.Itoa(int(n) + 1)},
			"c": {kmsg.ConfigResourceTypeTopic, "7"},
		}[name]
		describe.Resources = append(describe.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: resource.kind, ResourceName: resource.name})
		alter.Resources = append(alter.Resources, kmsg.AlterConfigsRequestResource{ResourceType: resource.kind, ResourceName: resource.name})
		incremental.Resources = append(incremental.Resources, kmsg.IncrementalAlterConfigsRequestResource{ResourceType: resource.kind, ResourceName: resource.name})
	}
	return []kmsg.Request{create, partitions, move, describe, alter, incremental}
}

func TestRequestsThatNameNodesStayAsTheClientSentThem(t *testing.T) {
	want, brokers := namesNodes(0), namesNodes(1)
	for i, req := range namesNodes(0) {
		require.Equal(t, brokers[i], toBrokers(req), "what the brokers get")
		require.Equal(t, want[i], req, "what control functions and interceptors keep")
	}
	require.Nil(t, toBrokers(kmsg.NewPtrMetadataRequest()))
}
