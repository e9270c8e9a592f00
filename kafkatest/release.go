package kafkatest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/kafka"
)

// A Release is a broker release whose APIs and versions a Server offers, as far as it has them.
// Clients choose their requests by that. Behaviour within a version is that of Kafka 4.3. Versions
// that 4.3 has removed are not offered, so the oldest releases lack some APIs.
type Release uint8

// The releases.
const (
	Latest     Release = iota // all APIs and versions of the server: Kafka 4.3
	Kafka0_11                 // June 2017: the first with record batches of format 2
	Kafka1_1                  // March 2018: fetch sessions
	Kafka2_0                  // July 2018
	Kafka2_4                  // December 2019: static members, incremental rebalancing, flexible versions
	Kafka2_8                  // April 2021: topic ids
	Kafka3_0                  // September 2021: batched FindCoordinator and OffsetFetch
	Kafka3_6                  // October 2023
	Kafka3_9                  // November 2024: the last one with ZooKeeper
	Kafka4_0                  // March 2025: the first without the old message formats
	Redpanda24                // 2024: Produce as in Kafka 2.0, Fetch and Metadata as in 2.3, other APIs newer
)

// releaseKeys are the columns of releaseVersions.
var releaseKeys = []kafka.Key{kafka.Produce, kafka.Fetch, kafka.ListOffsets, kafka.Metadata, kafka.OffsetCommit, kafka.OffsetFetch,
	kafka.FindCoordinator, kafka.JoinGroup, kafka.Heartbeat, kafka.LeaveGroup, kafka.SyncGroup, kafka.DescribeGroups, kafka.ListGroups,
	kafka.ApiVersions, kafka.CreateTopics, kafka.DeleteTopics, kafka.DeleteRecords, kafka.InitProducerID, kafka.OffsetForLeaderEpoch,
	kafka.DescribeConfigs, kafka.AlterConfigs, kafka.DescribeLogDirs, kafka.CreatePartitions, kafka.DeleteGroups, kafka.ElectLeaders,
	kafka.IncrementalAlterConfigs, kafka.AlterPartitionReassignments, kafka.ListPartitionReassignments, kafka.OffsetDelete, kafka.DescribeQuorum, kafka.UpdateFeatures,
	kafka.DescribeCluster, kafka.DescribeProducers, kafka.GetTelemetrySubscriptions, kafka.PushTelemetry, kafka.ListConfigResources,
	kafka.DescribeTopicPartitions, kafka.AddPartitionsToTxn, kafka.AddOffsetsToTxn, kafka.EndTxn, kafka.WriteTxnMarkers, kafka.TxnOffsetCommit,
	kafka.DescribeTransactions, kafka.ListTransactions,
	kafka.SaslHandshake, kafka.SaslAuthenticate, kafka.DescribeUserScramCredentials, kafka.AlterUserScramCredentials,
	kafka.DescribeACLs, kafka.CreateACLs, kafka.DeleteACLs, kafka.DescribeClientQuotas, kafka.AlterClientQuotas, kafka.ConsumerGroupHeartbeat, kafka.ConsumerGroupDescribe,
	kafka.ShareGroupHeartbeat, kafka.ShareGroupDescribe, kafka.ShareFetch, kafka.ShareAcknowledge, kafka.InitializeShareGroupState, kafka.ReadShareGroupState,
	kafka.WriteShareGroupState, kafka.DeleteShareGroupState, kafka.ReadShareGroupStateSummary, kafka.DescribeShareGroupOffsets, kafka.AlterShareGroupOffsets, kafka.DeleteShareGroupOffsets,
	kafka.CreateDelegationToken, kafka.RenewDelegationToken, kafka.ExpireDelegationToken, kafka.DescribeDelegationToken,
	kafka.StreamsGroupHeartbeat, kafka.StreamsGroupDescribe}

// releaseVersions holds the highest version of each API by release; -1: the release does not have
// the API. Sources: the message schemas of each Kafka release, and the version ranges in Redpanda's
// handlers of 24.x.
var releaseVersions = map[Release][]int16{
	Kafka0_11:  {3, 5, 2, 4, 3, 3, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, -1, -1, 0, -1, -1, -1, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
	Kafka1_1:   {5, 7, 2, 5, 3, 3, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, -1, -1, 1, 0, -1, -1, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, -1, -1},
	Kafka2_0:   {6, 8, 3, 6, 4, 4, 2, 3, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 2, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 1, 1, 0, 1, -1, -1, 1, 0, -1, -1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1},
	Kafka2_4:   {8, 11, 5, 9, 8, 6, 3, 6, 4, 4, 4, 5, 3, 3, 5, 4, 1, 2, 3, 2, 1, 1, 1, 2, 2, 1, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, 1, 1, 1, 0, 2, -1, -1, 1, 1, -1, -1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 1, 1, 1, -1, -1},
	Kafka2_8:   {9, 12, 6, 11, 8, 7, 3, 7, 4, 4, 5, 5, 4, 3, 7, 6, 2, 4, 4, 4, 2, 2, 3, 2, 2, 1, 0, 0, 0, -1, 0, 0, 0, -1, -1, -1, -1, 3, 3, 3, 1, 3, -1, -1, 1, 2, 0, 0, 2, 2, 2, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 2, 2, 2, -1, -1},
	Kafka3_0:   {9, 12, 7, 11, 8, 8, 4, 7, 4, 4, 5, 5, 4, 3, 7, 6, 2, 4, 4, 4, 2, 2, 3, 2, 2, 1, 0, 0, 0, -1, 0, 0, 0, -1, -1, -1, -1, 3, 3, 3, 1, 3, 0, 0, 1, 2, 0, 0, 2, 2, 2, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 2, 2, 2, -1, -1},
	Kafka3_6:   {9, 15, 8, 12, 8, 8, 4, 9, 4, 5, 5, 5, 4, 3, 7, 6, 2, 4, 4, 4, 2, 4, 3, 2, 2, 1, 0, 0, 0, -1, 1, 0, 0, -1, -1, -1, -1, 4, 3, 3, 1, 3, 0, 0, 1, 2, 0, 0, 3, 3, 3, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 3, 2, 2, 3, -1, -1},
	Kafka3_9:   {11, 17, 9, 12, 9, 9, 6, 9, 4, 5, 5, 5, 5, 4, 7, 6, 2, 5, 4, 4, 2, 4, 3, 2, 2, 1, 0, 0, 0, -1, 1, 1, 0, -1, -1, -1, -1, 5, 4, 4, 1, 4, 0, 1, 1, 2, 0, 0, 3, 3, 3, 1, 1, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 3, 2, 2, 3, -1, -1},
	Kafka4_0:   {12, 17, 10, 13, 9, 9, 6, 9, 4, 5, 5, 6, 5, 4, 7, 6, 2, 5, 4, 4, 2, 4, 3, 2, 2, 1, 0, 0, 0, 2, 2, 2, 0, 0, 0, 0, 0, 5, 4, 5, 1, 5, 0, 1, 1, 2, 0, 0, 3, 3, 3, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 3, 2, 2, 3, -1, -1},
	Redpanda24: {7, 11, 4, 7, 8, 7, 3, 6, 4, 4, 4, 5, 3, 3, 6, 5, 2, 3, 4, 4, 2, 2, 3, 2, -1, 1, 0, 0, 0, -1, -1, -1, 0, -1, -1, -1, -1, 3, 3, 3, -1, 3, 0, 0, 1, 1, -1, -1, 1, 1, 1, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
}

// versionCaps returns the highest versions to offer. The caps in own override the release's.
// It returns nil if there is no bound.
func versionCaps(r Release, own map[kafka.Key]int16) map[int16]int16 {
	caps := map[int16]int16{}
	for i, v := range releaseVersions[r] {
		caps[int16(releaseKeys[i])] = v
	}
	for k, v := range own {
		caps[int16(k)] = v
	}
	return caps
}

// checkVersionCaps returns an error for caps that cannot be intended.
func checkVersionCaps(caps map[kafka.Key]int16) error {
	for _, key := range slices.Sorted(maps.Keys(caps)) {
		lowest, highest, served := kafka.ServedVersions(key)
		switch limit := caps[key]; {
		case !served:
			return fmt.Errorf("VersionCaps has %s: a Server has no such API", apiName(key))
		case limit != kafka.NotServed && limit < lowest:
			return fmt.Errorf("VersionCaps has version %d of %s: versions %d to %d are served, and kafka.NotServed is for none", limit, key, lowest, highest)
		}
	}
	return nil
}
