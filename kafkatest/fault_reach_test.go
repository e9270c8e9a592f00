package kafkatest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
)

func TestFaultsThatCanHitNothingAreRefused(t *testing.T) {
	apis := func(keys ...kafka.Key) []kafka.Key { return keys }
	for name, c := range map[string]struct {
		fault Fault
		says  string
	}{
		"a topic of a heartbeat":                 {Fault{APIs: apis(kafka.Heartbeat), Topic: "a"}, "Heartbeat requests name no Topic,"},
		"partitions of a heartbeat":              {Fault{APIs: apis(kafka.Heartbeat), Partitions: []int32{0}}, "Heartbeat requests name no Partitions,"},
		"one API of several":                     {Fault{APIs: apis(kafka.OffsetCommit, kafka.Heartbeat), Topic: "a", Group: "g"}, "Heartbeat requests name no Topic with Group,"},
		"a group of produce":                     {Fault{APIs: apis(kafka.Produce), Group: "g"}, "Produce requests name no Group,"},
		"a producer of fetch":                    {Fault{APIs: apis(kafka.Fetch), TransactionalID: "t"}, "Fetch requests name no TransactionalID,"},
		"a group or a producer, but not both":    {Fault{APIs: apis(kafka.FindCoordinator), Group: "g", TransactionalID: "t"}, "FindCoordinator requests name no Group with TransactionalID,"},
		"partitions of topics to be created":     {Fault{APIs: apis(kafka.CreateTopics), Partitions: []int32{0}}, "CreateTopics requests name no Partitions,"},
		"topics that a member of KIP-848 owns":   {Fault{APIs: apis(kafka.ConsumerGroupHeartbeat), Topic: "a"}, "ConsumerGroupHeartbeat requests name no Topic,"},
		"a configuration of topic and of group":  {Fault{APIs: apis(kafka.DescribeConfigs), Topic: "a", Group: "g"}, "DescribeConfigs requests name no Topic with Group,"},
		"an API that nobody has":                 {Fault{APIs: apis(1000)}, "APIs has 1000: a Server has no such API"},
		"an API that is not for clients":         {Fault{APIs: apis(4)}, "APIs has LeaderAndISR (4): a Server has no such API"},
		"an API that is never offered":           {Fault{APIs: apis(kafka.PushTelemetry)}, "APIs has PushTelemetry (72): a Server has no such API"},
		"an API below all":                       {Fault{APIs: apis(-1)}, "APIs has -1: a Server has no such API"},
		"a negative partition":                   {Fault{Topic: "a", Partitions: []int32{0, -1}}, "Partitions has -1: partitions count from 0"},
		"a code that Kafka does not have":        {Fault{Code: 999}, "Code is 999: Kafka has no such error code"},
		"a code below all":                       {Fault{Code: -2}, "Code is -2: Kafka has no such error code"},
		"a throttle that no answer can say":      {Fault{Throttle: 1 << 31 * time.Millisecond}, "Throttle is above 1<<31-1 milliseconds"},
		"a throttle that rounds to nothing":      {Fault{Throttle: time.Millisecond - 1}, "no effect"},
		"a fault that decides and cannot be due": {Fault{APIs: apis(kafka.Heartbeat), Topic: "a", Decide: func(*kafka.Exchange) *Effect { return nil }}, "Heartbeat requests name no Topic,"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.fault.Decide == nil && c.fault.Code == 0 && c.fault.Throttle == 0 {
				c.fault.Close = true
			}
			var f fakeT
			said := f.run(func() { New(&f, Config{Pipe: true}).Fault(c.fault) })
			require.Contains(t, said, "kafkatest: fault: ")
			require.Contains(t, said, c.says)
		})
	}
}

// The messages themselves show which fields can select a request. The test lists the APIs of each
// field.
func TestFaultsThatCanHitAreNot(t *testing.T) {
	for field, c := range map[string]struct {
		fault Fault
		apis  []kafka.Key
	}{
		"topic": {Fault{Topic: "a"}, []kafka.Key{kafka.Produce, kafka.Fetch, kafka.ListOffsets, kafka.Metadata, kafka.OffsetCommit, kafka.OffsetFetch,
			kafka.CreateTopics, kafka.DeleteTopics, kafka.DeleteRecords, kafka.OffsetForLeaderEpoch, kafka.AddPartitionsToTxn, kafka.WriteTxnMarkers,
			kafka.TxnOffsetCommit, kafka.DescribeConfigs, kafka.AlterConfigs, kafka.IncrementalAlterConfigs, kafka.DescribeLogDirs, kafka.CreatePartitions,
			kafka.ElectLeaders, kafka.AlterPartitionReassignments, kafka.ListPartitionReassignments, kafka.OffsetDelete, kafka.DescribeQuorum,
			kafka.DescribeProducers, kafka.DescribeTopicPartitions, kafka.ShareFetch, kafka.ShareAcknowledge, kafka.InitializeShareGroupState,
			kafka.ReadShareGroupState, kafka.WriteShareGroupState, kafka.DeleteShareGroupState, kafka.ReadShareGroupStateSummary,
			kafka.DescribeShareGroupOffsets, kafka.AlterShareGroupOffsets, kafka.DeleteShareGroupOffsets}},
		"group": {Fault{Group: "g"}, []kafka.Key{kafka.OffsetCommit, kafka.OffsetFetch, kafka.FindCoordinator, kafka.JoinGroup, kafka.Heartbeat,
			kafka.LeaveGroup, kafka.SyncGroup, kafka.DescribeGroups, kafka.DeleteGroups, kafka.OffsetDelete, kafka.AddOffsetsToTxn, kafka.TxnOffsetCommit,
			kafka.DescribeConfigs, kafka.AlterConfigs, kafka.IncrementalAlterConfigs, kafka.ConsumerGroupHeartbeat, kafka.ConsumerGroupDescribe,
			kafka.StreamsGroupHeartbeat, kafka.StreamsGroupDescribe, kafka.ShareGroupHeartbeat, kafka.ShareGroupDescribe, kafka.ShareFetch, kafka.ShareAcknowledge, kafka.InitializeShareGroupState,
			kafka.ReadShareGroupState, kafka.WriteShareGroupState, kafka.DeleteShareGroupState, kafka.ReadShareGroupStateSummary,
			kafka.DescribeShareGroupOffsets, kafka.AlterShareGroupOffsets, kafka.DeleteShareGroupOffsets}},
		"producer": {Fault{TransactionalID: "t"}, []kafka.Key{kafka.Produce, kafka.FindCoordinator, kafka.InitProducerID, kafka.AddPartitionsToTxn,
			kafka.AddOffsetsToTxn, kafka.EndTxn, kafka.TxnOffsetCommit, kafka.DescribeTransactions}},
	} {
		for _, key := range served {
			can := false
			for _, of := range c.apis {
				can = can || of == key
			}
			require.Equal(t, can, c.fault.fits(key), "%s of %s", field, key)
		}
	}
	require.True(t, (&Fault{Topic: "a", Partitions: []int32{0}, Group: "g", TransactionalID: "t"}).fits(kafka.TxnOffsetCommit))
}

func TestVersionCapsThatSayNothingAreRefused(t *testing.T) {
	for says, caps := range map[string]map[kafka.Key]int16{
		"VersionCaps has version -5 of Fetch: versions 4 to 18 are served": {kafka.Fetch: -5},
		"VersionCaps has version 2 of Produce: versions 3 to 13":           {kafka.Produce: 2},
		"VersionCaps has 1000: a Server has no such API":                   {1000: 1},
		"VersionCaps has StopReplica (5): a Server has no such API":        {5: kafka.NotServed},
	} {
		var f fakeT
		require.Contains(t, f.run(func() { New(&f, Config{Pipe: true, VersionCaps: caps}) }), says)
	}
}

// A client that names its topics gets the fault of a partition in its metadata, if the fault names
// Metadata.
func TestFaultOfAPartitionIsInTheMetadataOfItsTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 3, "b": 2}})
		j := s.Fault(Fault{APIs: []kafka.Key{kafka.Metadata}, Topic: "a", Partitions: []int32{1}, Code: kafka.LeaderNotAvailable})
		produced := s.Fault(Fault{Topic: "a", Partitions: []int32{1}, Close: true})
		ask := func(topics ...string) (refused []int32) {
			req := kmsg.NewPtrMetadataRequest()
			req.SetVersion(9)
			for _, name := range topics {
				req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
			}
			for _, topic := range dial(t, s).ask(req).(*kmsg.MetadataResponse).Topics {
				for _, p := range topic.Partitions {
					if p.ErrorCode != 0 {
						require.Equal(t, "a", *topic.Topic)
						refused = append(refused, p.Partition)
					}
				}
			}
			return refused
		}
		require.Empty(t, ask("b"))
		require.Equal(t, []int32{1}, ask("b", "a"))
		require.Equal(t, 1, j.Hits())
		require.Empty(t, ask("a"))
		require.Zero(t, produced.Hits(), "without APIs what is done with a partition is meant")
	})
}
