package kafka

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// askReassign requests other replicas for a partition of topic orders.
func askReassign(t *testing.T, addr string, version int16, partition int32, keepFactor bool, replicas ...int32) Code {
	t.Helper()
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis, req.AllowReplicationFactorChange = 10_000, !keepFactor
	req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
		Topic: "orders", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: partition, Replicas: replicas}},
	}}
	return Code(ask[*kmsg.AlterPartitionAssignmentsResponse](t, addr, version, req).Topics[0].Partitions[0].ErrorCode)
}

// A reassignment is started, listed and cancelled through any broker. Metadata shows the replicas
// meanwhile.
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

// Replica counts that do not agree are refused with the error messages of Kafka 4.3.
func TestNumbersOfReplicasAreRefusedInKafkasWords(t *testing.T) {
	b := serveBrokers(t, 3, Config{})
	create := kmsg.NewPtrCreateTopicsRequest()
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = "new", -1, -1
	ct.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{1, 2}}, {Partition: 1, Replicas: []int32{3}}}
	create.Topics = []kmsg.CreateTopicsRequestTopic{ct}
	created := ask[*kmsg.CreateTopicsResponse](t, b.addrs[1], 7, create).Topics[0]
	require.EqualValues(t, InvalidReplicaAssignment, created.ErrorCode)
	const inconsistent = "The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s)."
	require.Equal(t, fmt.Sprintf(inconsistent, 1, 2), *created.ErrorMessage)

	grow := kmsg.NewPtrCreatePartitionsRequest()
	n := int32(len(askMetadata(t, b.addrs[1], 13, false, topicNamed("orders")).Topics[0].Partitions))
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "orders", Count: n + 1, Assignment: []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: []int32{1, 2}}}}}
	grown := ask[*kmsg.CreatePartitionsResponse](t, b.addrs[1], 3, grow).Topics[0]
	require.EqualValues(t, InvalidReplicaAssignment, grown.ErrorCode)
	require.Equal(t, fmt.Sprintf(inconsistent, 2, 1), *grown.ErrorMessage)

	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	move.AllowReplicationFactorChange = false
	move.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
		Topic: "orders", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{1, 2}}},
	}}
	moved := ask[*kmsg.AlterPartitionAssignmentsResponse](t, b.addrs[1], 1, move).Topics[0].Partitions[0]
	require.EqualValues(t, InvalidReplicationFactor, moved.ErrorCode)
	require.Equal(t, "The replication factor is changed from 1 to 2", *moved.ErrorMessage)
}

// The requests are those of kafka-reassign-partitions with --throttle, with --additional for
// another rate, and with --verify. The last one removes throttles whether they are set or not.
func TestThrottlesAreSetAndUnsetOnTheWire(t *testing.T) {
	b := serveBrokers(t, 3, Config{})
	leader := b.cluster.Leader("orders", 0)
	other := leader%3 + 1
	rates := []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate"}
	of := []string{"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
	noRates := func(broker int32) {
		for _, key := range append(rates, "replica.alter.log.dirs.io.max.bytes.per.second") {
			require.Zero(t, askAlter(t, b.addrs[broker], resourceBroker, fmt.Sprint(broker), change(key, 1, "")), key)
		}
	}
	noRates(other)
	require.NotZero(t, askAlter(t, b.addrs[other], resourceBroker, fmt.Sprint(other), change("replica.alter.log.dirs.io.max.bytes.per.second", 0, "1000")), "nothing is moved between directories: it is not to look so")

	for _, rate := range []string{"1", "2"} {
		for id, addr := range b.addrs {
			require.Zero(t, askAlter(t, addr, resourceBroker, fmt.Sprint(id), change(rates[0], 0, rate), change(rates[1], 0, rate)))
		}
		require.Zero(t, askAlter(t, b.addrs[other], resourceTopic, "orders", change(of[0], 0, fmt.Sprintf("0:%d", leader)), change(of[1], 0, fmt.Sprintf("0:%d", other))))
	}
	for range 3 {
		ask[*kmsg.ProduceResponse](t, b.addrs[leader], 13, b.produceTo(13, 0))
	}
	require.Zero(t, askReassign(t, b.addrs[other], 1, 0, false, leader, other))

	require.Zero(t, askAlter(t, b.addrs[leader], resourceBroker, "", change(rates[0], 0, "7")))
	got := askConfigs(t, b.addrs[leader], resourceBroker, fmt.Sprint(leader), rates...)
	require.Len(t, got.Configs, 2)
	r := got.Configs[1]
	require.Equal(t, rates[0], r.Name)
	require.Equal(t, "2", *r.Value)
	require.EqualValues(t, sourceBroker, r.Source)
	require.EqualValues(t, 5, r.ConfigType)
	require.False(t, r.ReadOnly)
	require.NotEmpty(t, *r.Documentation)
	require.Len(t, r.ConfigSynonyms, 2, "no default: it is listed where it is set")
	require.EqualValues(t, sourceBrokerDefault, r.ConfigSynonyms[1].Source)
	all := askConfigs(t, b.addrs[leader], resourceBroker, "").Configs
	require.Len(t, all, 1)
	require.Equal(t, "7", *all[0].Value)
	require.EqualValues(t, 5, all[0].ConfigType)
	got = askConfigs(t, b.addrs[leader], resourceTopic, "orders", of...)
	require.Equal(t, fmt.Sprintf("0:%d", other), *got.Configs[0].Value)
	require.EqualValues(t, sourceTopic, got.Configs[1].Source)
	require.EqualValues(t, 7, got.Configs[1].ConfigType)

	require.Zero(t, askAlter(t, b.addrs[other], resourceTopic, "orders", change(of[0], 1, ""), change(of[1], 1, "")))
	for id := range b.addrs {
		noRates(id)
	}
	require.Zero(t, askAlter(t, b.addrs[leader], resourceBroker, "", change(rates[0], 1, "")))
	require.NoError(t, b.cluster.WaitReassigned(t.Context()))
	require.Empty(t, askConfigs(t, b.addrs[leader], resourceBroker, fmt.Sprint(leader), rates...).Configs)
	require.Empty(t, *askConfigs(t, b.addrs[leader], resourceTopic, "orders", of...).Configs[0].Value)
}

// Kafka 4.3 gives these errors.
func TestThrottlesThatMakeNoSenseAreRefusedAsInKafka(t *testing.T) {
	b := serveBrokers(t, 2, Config{})
	for _, key := range []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate"} {
		for _, bad := range []string{"-1", "x", "", "1.5", "99999999999999999999"} {
			require.Equal(t, InvalidRequest, askAlter(t, b.addrs[1], resourceBroker, "1", change(key, 0, bad)), bad)
			require.Equal(t, InvalidRequest, askAlter(t, b.addrs[1], resourceBroker, "", change(key, 0, bad)), bad)
		}
		require.Zero(t, askAlter(t, b.addrs[1], resourceBroker, "1", change(key, 0, "0")))
	}
	for _, key := range []string{"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"} {
		for _, bad := range []string{"x", "0:1,*", "-1:2", "none", "*,0:1"} {
			require.Equal(t, InvalidConfig, askAlter(t, b.addrs[1], resourceTopic, "orders", change(key, 0, bad)), bad)
		}
		for _, good := range []string{"*", "0:1", "0:1,0:1", " 0:1", "0:1 , 1:2", "0:1,", "0:99"} {
			require.Zero(t, askAlter(t, b.addrs[1], resourceTopic, "orders", change(key, 0, good)), good)
		}
		require.Zero(t, askAlter(t, b.addrs[1], resourceTopic, "orders", change(key, 2, "1:1")), "appended")
		require.Equal(t, "0:99,1:1", *askConfigs(t, b.addrs[1], resourceTopic, "orders", key).Configs[0].Value)
	}
}

// Each broker lists the replicas that it has, also those it does not lead.
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
