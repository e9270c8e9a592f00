package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// askReassign asks for other replicas of a partition of topic orders.
func askReassign(t *testing.T, addr string, version int16, partition int32, keepFactor bool, replicas ...int32) Code {
	t.Helper()
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis, req.AllowReplicationFactorChange = 10_000, !keepFactor
	req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
		Topic: "orders", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: partition, Replicas: replicas}},
	}}
	return Code(ask[*kmsg.AlterPartitionAssignmentsResponse](t, addr, version, req).Topics[0].Partitions[0].ErrorCode)
}

// A reassignment is asked for, listed and cancelled through any broker, and Metadata shows the
// replicas meanwhile.
func TestPartitionsAreReassignedOnTheWire(t *testing.T) {
	b := serveBrokers(t, 3, Config{})
	led := record.TopicPartition{Topic: "orders", Partition: 0}
	leader := b.cluster.Leader("orders", 0)
	other, third := leader%3+1, (leader+1)%3+1
	list := func(topics ...kmsg.ListPartitionReassignmentsRequestTopic) []kmsg.ListPartitionReassignmentsResponseTopic {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.Topics = topics
		return ask[*kmsg.ListPartitionReassignmentsResponse](t, b.addrs[third], 0, req).Topics
	}
	b.cluster.Network().Cut(replication.NetworkPath{From: other, To: leader})
	ask[*kmsg.ProduceResponse](t, b.addrs[leader], 13, b.produceTo(13, 0))
	require.Zero(t, askReassign(t, b.addrs[third], 0, 0, false, other))
	under := list()
	require.Len(t, under, 1)
	want := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	want.Replicas, want.AddingReplicas, want.RemovingReplicas = []int32{other, leader}, []int32{other}, []int32{leader}
	require.Equal(t, []kmsg.ListPartitionReassignmentsResponseTopicPartition{want}, under[0].Partitions)
	require.Equal(t, under, list(kmsg.ListPartitionReassignmentsRequestTopic{Topic: "orders", Partitions: []int32{0, 9}}))
	require.Empty(t, list(kmsg.ListPartitionReassignmentsRequestTopic{Topic: "orders", Partitions: []int32{1}}))
	require.Equal(t, []int32{other, leader}, askMetadata(t, b.addrs[other], 13, false, topicNamed("orders")).Topics[0].Partitions[0].Replicas)
	require.Zero(t, askReassign(t, b.addrs[other], 1, 0, true), "cancelled")
	require.Empty(t, list())
	require.Equal(t, NoReassignmentInProgress, askReassign(t, b.addrs[other], 1, 0, true))
	require.Equal(t, InvalidReplicationFactor, askReassign(t, b.addrs[other], 1, 0, true, 1, 2), "KIP-860")
	b.cluster.Network().Mend(replication.NetworkPath{From: other, To: leader})
	require.Zero(t, askReassign(t, b.addrs[leader], 1, 0, false, other, third))
	require.NoError(t, b.cluster.WaitReassigned(t.Context(), led))
	got := askMetadata(t, b.addrs[leader], 13, false, topicNamed("orders")).Topics[0].Partitions[0]
	require.Equal(t, []int32{other, third}, got.Replicas)
	require.ElementsMatch(t, []int32{other, third}, got.ISR)
	require.Contains(t, got.Replicas, got.Leader)
}

// kafka-reassign-partitions --verify unsets throttles that nobody has set.
func TestThrottlesThatWereNeverSetCanBeUnset(t *testing.T) {
	b := serveBrokers(t, 2, Config{})
	for _, key := range []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"} {
		require.Zero(t, askAlter(t, b.addrs[2], resourceBroker, "2", change(key, 1, "")), key)
		require.NotZero(t, askAlter(t, b.addrs[2], resourceBroker, "2", change(key, 0, "1000")), "copying is not throttled: it is not to look so")
	}
}

// Each broker tells of the replicas that it has, whether it leads them or not.
func TestLogDirsShowFollowersToo(t *testing.T) {
	b := serveBrokers(t, 3, Config{})
	leader := b.cluster.Leader("orders", 0)
	follower, other := leader%3+1, (leader+1)%3+1
	ask[*kmsg.ProduceResponse](t, b.addrs[leader], 13, b.produceTo(13, 0))
	require.Zero(t, askReassign(t, b.addrs[other], 1, 0, false, leader, follower))
	require.NoError(t, b.cluster.WaitReassigned(t.Context()))
	sizes := map[int32]int64{}
	for id, addr := range b.addrs {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "orders", Partitions: []int32{0}}}
		for _, topic := range ask[*kmsg.DescribeLogDirsResponse](t, addr, 4, req).Dirs[0].Topics {
			for _, p := range topic.Partitions {
				sizes[id] = p.Size
			}
		}
	}
	require.Len(t, sizes, 2)
	require.Positive(t, sizes[leader])
	require.Equal(t, sizes[leader], sizes[follower])
}
