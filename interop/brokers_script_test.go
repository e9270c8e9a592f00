package interop

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
)

// The topic "t" has partitions 0, 1 and 2 led by brokers 1, 2 and 3, with one record each. Most
// steps send broker 1 requests about partition 1, which broker 2 leads.

// seedBrokers creates the topic and the offsets topic.
func seedBrokers(t *testing.T, k target) {
	r, rt := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor, r.TimeoutMillis = "t", -1, -1, 10_000
	for p := range int32(3) {
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: p, Replicas: []int32{p + 1}})
	}
	r.Topics = append(r.Topics, rt)
	_, err := r.RequestWith(within(t), franz(t, k))
	require.NoError(t, err)
	eventually(t, "the topic is known", func() bool {
		got, err := admin(t, k).ListTopics(within(t), "t")
		return err == nil && len(got["t"].Partitions) == 3
	})
	p := franz(t, k, kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range int32(3) {
		require.NoError(t, p.ProduceSync(within(t), &kgo.Record{Topic: "t", Partition: i, Value: value(int(i))}).FirstErr())
	}
	awaitCoordinators(t, k)
}

func groupOf(t *testing.T, k target, broker int32) string {
	for i := range 200 {
		id := fmt.Sprint("group-", i)
		got := admin(t, k).FindGroupCoordinators(within(t), id)[id]
		require.NoError(t, got.Err)
		if got.NodeID == broker {
			return id
		}
	}
	t.Fatalf("broker %d coordinates none of 200 groups", broker)
	return ""
}

// askOtherBrokersPartitions sends x's broker, broker 1, requests for partitions that other brokers
// lead.
func askOtherBrokersPartitions(x *transcript, id [16]byte) {
	for _, v := range []int16{3, 8, 9, 10, 12, 13} {
		x.ask("elsewhere: produce", v, produceTo(x.t, id, 1, 1))
		x.ask("elsewhere: produce to two", v, produceTo(x.t, id, 1, 0, 1, 2))
		x.ask("elsewhere: produce without an answer", v, produceTo(x.t, id, 0, 1))
		x.ask("elsewhere: produce to no partition", v, produceTo(x.t, id, 1, 9))
	}
	for _, v := range []int16{4, 6, 11, 12, 13, 15, 16, 17} {
		for _, epoch := range []int32{-1, 0, 7} {
			x.ask("elsewhere: fetch in epoch "+itoa(int(epoch)), v, fetchFrom(id, -1, epoch, 1))
		}
		x.ask("elsewhere: fetch from two", v, fetchFrom(id, -1, -1, 0, 1, 2))
		x.ask("elsewhere: fetch from no partition", v, fetchFrom(id, -1, -1, 9))
		f := fetchFrom(id, -1, -1, 1)
		f.Topics[0].Partitions[0].LastFetchedEpoch = 0
		x.ask("elsewhere: fetch that says what was read last", v, f)
	}
	for _, v := range []int16{1, 4, 7, 9, 10} {
		for _, at := range []int64{-1, -2, -9, 5} { // latest, earliest, nonsense, a time
			for _, epoch := range []int32{-1, 0, 7} {
				r, t, p := kmsg.NewPtrListOffsetsRequest(), kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
				t.Topic, p.Partition, p.Timestamp, p.CurrentLeaderEpoch = "t", 1, at, epoch
				t.Partitions, r.ReplicaID = append(t.Partitions, p), -1
				r.Topics = append(r.Topics, t)
				x.ask("elsewhere: list offsets at "+itoa(int(at))+" in epoch "+itoa(int(epoch)), v, r)
			}
		}
	}
	for _, v := range []int16{2, 3, 4} {
		for _, epoch := range []int32{-1, 0, 7} {
			r, t, p := kmsg.NewPtrOffsetForLeaderEpochRequest(), kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			t.Topic, p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = "t", 1, epoch, 0
			t.Partitions = append(t.Partitions, p)
			r.Topics = append(r.Topics, t)
			x.ask("elsewhere: end of an epoch in epoch "+itoa(int(epoch)), v, r)
		}
	}
	for _, name := range []string{"t", "__consumer_offsets", "nope"} {
		for _, p := range []int32{1, 500} {
			t, tp := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
			t.Topic, tp.Partition, tp.Offset = name, p, 0
			t.Partitions = append(t.Partitions, tp)
			x.ask("elsewhere: delete records of "+name+" "+itoa(int(p)), 2, &kmsg.DeleteRecordsRequest{TimeoutMillis: 10_000, Topics: []kmsg.DeleteRecordsRequestTopic{t}})
		}
	}
	for _, p := range []int32{1, 9} {
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = "t", []int32{p}
		x.ask("elsewhere: producers of "+itoa(int(p)), 0, &kmsg.DescribeProducersRequest{Topics: []kmsg.DescribeProducersRequestTopic{t}})
	}
}

// askOtherBrokersGroups sends requests for a group that another broker coordinates.
func askOtherBrokersGroups(x *transcript, group string) {
	protocols := []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 0}}}
	for _, v := range []int16{0, 5, 9} {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType, r.Protocols = group, 30_000, 30_000, "consumer", protocols
		x.ask("elsewhere: join", v, r)
	}
	for _, v := range []int16{0, 4} {
		x.ask("elsewhere: heartbeat", v, &kmsg.HeartbeatRequest{Group: group, MemberID: "m", Generation: 1})
	}
	for _, v := range []int16{0, 5} {
		x.ask("elsewhere: sync", v, &kmsg.SyncGroupRequest{Group: group, MemberID: "m", Generation: 1, ProtocolType: ptr("consumer"), Protocol: ptr("range")})
		x.ask("elsewhere: leave", v, &kmsg.LeaveGroupRequest{Group: group, MemberID: "m", Members: []kmsg.LeaveGroupRequestMember{{MemberID: "m"}}})
	}
	for _, v := range []int16{2, 9} {
		for _, topics := range []string{"some", "no"} {
			r := kmsg.NewPtrOffsetCommitRequest()
			r.Group, r.Generation = group, -1
			if topics == "some" {
				t, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
				t.Topic = "t"
				t.Partitions = append(t.Partitions, p)
				r.Topics = append(r.Topics, t)
			}
			x.ask("elsewhere: commit of "+topics+" topics", v, r)
		}
	}
	for _, v := range []int16{1, 2, 7, 8, 9} {
		r, t := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestTopic()
		g, gt := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions, gt.Topic, gt.Partitions = "t", []int32{0}, "t", []int32{0}
		r.Group, r.Topics = group, []kmsg.OffsetFetchRequestTopic{t}
		g.Group, g.Topics = group, []kmsg.OffsetFetchRequestGroupTopic{gt}
		r.Groups = append(r.Groups, g)
		x.ask("elsewhere: fetch offsets", v, r)
	}
	for _, v := range []int16{0, 5, 6} {
		x.ask("elsewhere: describe group", v, &kmsg.DescribeGroupsRequest{Groups: []string{group}})
	}
	x.ask("elsewhere: delete group", 2, &kmsg.DeleteGroupsRequest{Groups: []string{group}})
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic, t.Partitions = "t", []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
	x.ask("elsewhere: delete offsets", 0, &kmsg.OffsetDeleteRequest{Group: group, Topics: []kmsg.OffsetDeleteRequestTopic{t}})
	for _, v := range []int16{0, 5} {
		x.ask("elsewhere: groups", v, &kmsg.ListGroupsRequest{})
	}
	for _, v := range []int16{0, 3, 4, 6} {
		x.ask("elsewhere: coordinator", v, &kmsg.FindCoordinatorRequest{CoordinatorKey: group, CoordinatorKeys: []string{group}})
	}
}

// askAnyBroker sends requests that every broker answers, or forwards to the controller.
func askAnyBroker(x *transcript, self int32) {
	for _, v := range []int16{0, 8, 12, 13} {
		r, t := kmsg.NewPtrMetadataRequest(), kmsg.NewMetadataRequestTopic()
		t.Topic = ptr("t")
		r.Topics = append(r.Topics, t)
		x.ask("any: metadata", v, r)
	}
	for _, v := range []int16{0, 1, 2} {
		x.ask("any: cluster", v, &kmsg.DescribeClusterRequest{EndpointType: 1})
	}
	for _, broker := range []string{"1", "2", "4", "x"} {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeBroker, broker, []string{"node.id"}
		x.ask("any: configuration of "+broker, 4, &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{r}})
		i, c := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = "log.retention.ms", ptr("3600000")
		i.ResourceType, i.ResourceName, i.Configs = kmsg.ConfigResourceTypeBroker, broker, []kmsg.IncrementalAlterConfigsRequestResourceConfig{c}
		x.ask("any: alteration of "+broker, 1, &kmsg.IncrementalAlterConfigsRequest{Resources: []kmsg.IncrementalAlterConfigsRequestResource{i}, ValidateOnly: true})
	}
	name := "made-by-" + itoa(int(self))
	c, t := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor, c.TimeoutMillis = name, 1, 1, 10_000
	c.Topics = append(c.Topics, t)
	x.ask("any: create", 4, c)
	x.ask("any: grow", 3, &kmsg.CreatePartitionsRequest{TimeoutMillis: 10_000, Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 4}}})
	x.ask("any: delete", 5, &kmsg.DeleteTopicsRequest{TimeoutMillis: 10_000, TopicNames: []string{name}})
	e := kmsg.NewElectLeadersRequestTopic()
	e.Topic, e.Partitions = "t", []int32{0, 1, 2}
	x.ask("any: elect", 2, &kmsg.ElectLeadersRequest{TimeoutMillis: 10_000, Topics: []kmsg.ElectLeadersRequestTopic{e}})
}

func produceTo(t *testing.T, id [16]byte, acks int16, partitions ...int32) *kmsg.ProduceRequest {
	var b record.Builder
	b.AppendKV(1_700_000_000_000, nil, []byte("v"), nil)
	batch, err := b.Build(record.None)
	require.NoError(t, err)
	r, rt := kmsg.NewPtrProduceRequest(), kmsg.NewProduceRequestTopic()
	r.Acks, r.TimeoutMillis, rt.Topic, rt.TopicID = acks, 10_000, "t", id
	for _, p := range partitions {
		tp := kmsg.NewProduceRequestTopicPartition()
		tp.Partition, tp.Records = p, batch
		rt.Partitions = append(rt.Partitions, tp)
	}
	r.Topics = append(r.Topics, rt)
	return r
}

func fetchFrom(id [16]byte, session, epoch int32, partitions ...int32) *kmsg.FetchRequest {
	r, t := kmsg.NewPtrFetchRequest(), kmsg.NewFetchRequestTopic()
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.SessionEpoch, t.Topic, t.TopicID = 10, 1, 1<<20, session, "t", id
	for _, p := range slices.Clone(partitions) {
		tp := kmsg.NewFetchRequestTopicPartition()
		tp.Partition, tp.PartitionMaxBytes, tp.CurrentLeaderEpoch, tp.FetchOffset = p, 1<<20, epoch, 1
		t.Partitions = append(t.Partitions, tp)
	}
	r.Topics = append(r.Topics, t)
	return r
}
