package kafka

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Every broker accepts changes of topics, and all brokers show them at once.
func TestTopicsAreChangedThroughAnyBroker(t *testing.T) {
	b := serveBrokers(t, 3, Config{})
	for id, addr := range b.addrs {
		name := fmt.Sprint("by-", id)
		create, rt := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor, create.TimeoutMillis = name, 3, 1, 10_000
		create.Topics = append(create.Topics, rt)
		require.Zero(t, ask[*kmsg.CreateTopicsResponse](t, addr, 7, create).Topics[0].ErrorCode)
		grow := kmsg.NewPtrCreatePartitionsRequest()
		grow.Topics, grow.TimeoutMillis = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 6}}, 10_000
		require.Zero(t, ask[*kmsg.CreatePartitionsResponse](t, addr, 3, grow).Topics[0].ErrorCode)
		require.Zero(t, askAlter(t, addr, resourceTopic, name, change("retention.ms", 0, "777")))
		for _, other := range b.addrs {
			led := map[int32]int{}
			for _, p := range askMetadata(t, other, 13, false, topicNamed(name)).Topics[0].Partitions {
				led[p.Leader]++
			}
			require.Equal(t, map[int32]int{1: 2, 2: 2, 3: 2}, led)
			require.Equal(t, "777", *askConfigs(t, other, resourceTopic, name, "retention.ms").Configs[0].Value)
		}
		remove := kmsg.NewPtrDeleteTopicsRequest()
		remove.TopicNames, remove.TimeoutMillis = []string{name}, 10_000
		require.Zero(t, ask[*kmsg.DeleteTopicsResponse](t, addr, 5, remove).Topics[0].ErrorCode)
		for _, other := range b.addrs {
			require.Equal(t, UnknownTopicOrPartition, Code(askMetadata(t, other, 13, false, topicNamed(name)).Topics[0].ErrorCode))
		}
	}
}

func TestConfigurationAndDirectoriesAreThoseOfTheBrokerAsked(t *testing.T) {
	b := serveBrokers(t, 2, Config{})
	require.Equal(t, InvalidRequest, askAlter(t, b.addrs[1], resourceBroker, "2", change("log.retention.ms", 0, "4321")))
	require.Zero(t, askAlter(t, b.addrs[2], resourceBroker, "2", change("log.retention.ms", 0, "4321")))
	require.Equal(t, InvalidRequest, Code(askConfigs(t, b.addrs[1], resourceBroker, "2").ErrorCode))
	require.Equal(t, "4321", *askConfigs(t, b.addrs[2], resourceBroker, "2", "log.retention.ms").Configs[0].Value)
	require.Nil(t, askConfigs(t, b.addrs[1], resourceBroker, "1", "log.retention.ms").Configs[0].Value)
	for id, want := range map[int32]string{1: "604800000", 2: "4321"} {
		got := askConfigs(t, b.addrs[id], resourceTopic, "orders", "retention.ms").Configs[0]
		require.Equal(t, want, *got.Value, "as broker %d goes by it", id)
		require.Len(t, got.ConfigSynonyms, map[int32]int{1: 0, 2: 2}[id])
	}
	for id, addr := range b.addrs {
		ask[*kmsg.ProduceResponse](t, addr, 13, b.produceTo(13, id-1))
		dirs := ask[*kmsg.DescribeLogDirsResponse](t, addr, 4, kmsg.NewPtrDescribeLogDirsRequest()).Dirs
		require.Len(t, dirs, 1)
		require.Equal(t, b.cluster.LogDir(id), dirs[0].Dir)
		require.Len(t, dirs[0].Topics, 1)
		require.Len(t, dirs[0].Topics[0].Partitions, 1)
		require.Equal(t, id-1, dirs[0].Topics[0].Partitions[0].Partition)
		require.NotZero(t, dirs[0].Topics[0].Partitions[0].Size)
	}
}

// A partition whose only replica is on an absent broker has no leader. The APIs report this by
// different errors.
func TestPartitionsOfAnAbsentBrokerHaveNoLeaderOnTheWire(t *testing.T) {
	fsys := vfs.Mem()
	cluster, err := strata.Open(strata.Config{Brokers: 3, FS: fsys, Dir: "data"})
	require.NoError(t, err)
	require.NoError(t, cluster.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 3, ReplicationFactor: 1, Assignment: [][]int32{{1}, {2}, {3}}}))
	_, err = cluster.Backend().OffsetsPartition(t.Context(), "g", true)
	require.NoError(t, err)
	require.NoError(t, cluster.Close())
	cluster, err = strata.Open(strata.Config{Brokers: 2, FS: fsys, Dir: "data"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	b := serveAll(t, cluster, Config{})
	for version := range int16(14) {
		got := askMetadata(t, b.addrs[1], version, false, topicNamed("orders"))
		require.Len(t, got.Brokers, 2)
		p := got.Topics[0].Partitions[2]
		require.Equal(t, LeaderNotAvailable, Code(p.ErrorCode))
		require.EqualValues(t, -1, p.Leader)
		if version >= 5 {
			require.Equal(t, []int32{3}, p.OfflineReplicas)
		}
		if version >= 7 {
			require.EqualValues(t, 1, p.LeaderEpoch)
		}
		if replicas := []int32{3}; version > 0 {
			require.Equal(t, replicas, p.Replicas)
		} else {
			require.Empty(t, p.Replicas, "the version has no other way to say that it is offline")
		}
	}
	produced := ask[*kmsg.ProduceResponse](t, b.addrs[1], 12, b.produceTo(12, 2))
	p := produced.Topics[0].Partitions[0]
	require.Equal(t, NotLeaderOrFollower, Code(p.ErrorCode))
	require.EqualValues(t, -1, p.CurrentLeader.LeaderID)
	require.EqualValues(t, 1, p.CurrentLeader.LeaderEpoch)
	require.Empty(t, produced.Brokers)
	page := ask[*kmsg.DescribeTopicPartitionsResponse](t, b.addrs[2], 0, &kmsg.DescribeTopicPartitionsRequest{
		Topics: []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "orders"}}, ResponsePartitionLimit: 10}).Topics[0].Partitions
	require.Equal(t, []int32{3}, page[2].OfflineReplicas)
	require.Empty(t, page[1].OfflineReplicas)
	elect := func(kind int8) (codes []Code) {
		req := kmsg.NewPtrElectLeadersRequest()
		req.ElectionType, req.Topics = kind, []kmsg.ElectLeadersRequestTopic{{Topic: "orders", Partitions: []int32{1, 2}}}
		for _, p := range ask[*kmsg.ElectLeadersResponse](t, b.addrs[1], 2, req).Topics[0].Partitions {
			codes = append(codes, Code(p.ErrorCode))
		}
		return codes
	}
	require.Equal(t, []Code{ElectionNotNeeded, PreferredLeaderNotAvailable}, elect(int8(replication.PreferredElection)))
	require.Equal(t, []Code{ElectionNotNeeded, EligibleLeadersNotAvailable}, elect(int8(replication.UncleanElection)))
}

// DescribeTopicPartitions returns the eligible leader replicas and the offline replicas, as
// Kafka's DescribeTopicPartitionsRequestHandler does.
func TestEligibleReplicasAreToldOnTheWire(t *testing.T) {
	described := replication.TopicMetadata{Name: "orders", Partitions: []replication.PartitionMetadata{
		{Leader: 1, LeaderEpoch: 4, Replicas: []int32{1, 2, 3}, ISR: []int32{1}, Eligible: []int32{3}},
		{Leader: -1, LeaderEpoch: 5, Replicas: []int32{2, 3}, Eligible: []int32{2, 3}, LastKnown: []int32{2}},
		{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}},
	}}
	who := brokersSeen{version: latestMetadata, reachable: map[int32]bool{1: true, 2: false}} // 2 serves, and has no listener
	page, next := describedTopic(described, who, pageOf{0, 10})
	require.Zero(t, next)
	part := func(n int32, edit func(*kmsg.DescribeTopicPartitionsResponseTopicPartition)) kmsg.DescribeTopicPartitionsResponseTopicPartition {
		p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		p.Partition, p.EligibleLeaderReplicas, p.LastKnownELR = n, []int32{}, []int32{}
		edit(&p)
		return p
	}
	require.Equal(t, []kmsg.DescribeTopicPartitionsResponseTopicPartition{
		part(0, func(p *kmsg.DescribeTopicPartitionsResponseTopicPartition) {
			p.LeaderID, p.LeaderEpoch, p.Replicas, p.ISR = 1, 4, []int32{1, 2, 3}, []int32{1}
			p.EligibleLeaderReplicas, p.OfflineReplicas = []int32{3}, []int32{3}
		}),
		part(1, func(p *kmsg.DescribeTopicPartitionsResponseTopicPartition) {
			p.ErrorCode, p.LeaderID, p.LeaderEpoch, p.Replicas = int16(LeaderNotAvailable), -1, 5, []int32{2, 3}
			p.EligibleLeaderReplicas, p.LastKnownELR, p.OfflineReplicas = []int32{2, 3}, []int32{2}, []int32{3}
		}),
		part(2, func(p *kmsg.DescribeTopicPartitionsResponseTopicPartition) {
			p.LeaderID, p.LeaderEpoch, p.Replicas, p.ISR = 1, 0, []int32{1}, []int32{1}
		}),
	}, page.Partitions)
}
