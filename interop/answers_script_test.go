package interop

import (
	"slices"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
)

func ptr[T any](v T) *T { return &v }

func askTopics(x *transcript) {
	create := func(topic string, partitions int32, factor int16, edit ...func(*kmsg.CreateTopicsRequestTopic)) *kmsg.CreateTopicsRequest {
		r, t := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
		r.TimeoutMillis = 10_000
		t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, factor
		for _, e := range edit {
			e(&t)
		}
		r.Topics = append(r.Topics, t)
		return r
	}
	for _, v := range []int16{2, 4, 5, 7} {
		x.ask("create: exists", v, create("t", 1, 1))
		x.ask("create: invalid name", v, create("a/b", 1, 1))
		x.ask("create: empty name", v, create("", 1, 1))
		x.ask("create: no partitions", v, create("x", 0, 1))
		x.ask("create: too many replicas", v, create("x", 1, 5))
		x.ask("create: no replicas", v, create("x", 1, 0))
		x.ask("create: unknown config", v, create("x", 1, 1, func(t *kmsg.CreateTopicsRequestTopic) {
			t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "nonsense", Value: ptr("1")}}
		}))
		x.ask("create: bad config", v, create("x", 1, 1, func(t *kmsg.CreateTopicsRequestTopic) {
			t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "segment.bytes", Value: ptr("many")}}
		}))
	}
	x.ask("create: colliding name", 7, create("__consumer.offsets", 1, 1))
	askCreateTwiceWrong(x, create)
	validate := create("fine", -1, -1)
	validate.ValidateOnly = true
	x.ask("create: only validated", 5, validate)
	twice := create("twice", 1, 1)
	twice.Topics = append(twice.Topics, twice.Topics[0])
	x.ask("create: twice in one request", 7, twice)

	grow := func(topic string, count int32) *kmsg.CreatePartitionsRequest {
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = topic, count
		return &kmsg.CreatePartitionsRequest{Topics: []kmsg.CreatePartitionsRequestTopic{t}, ValidateOnly: true, TimeoutMillis: 10_000}
	}
	x.ask("grow: fewer", 3, grow("t", 1))
	x.ask("grow: same", 3, grow("t", 2))
	x.ask("grow: unknown", 3, grow("nope", 2))
	x.ask("grow: fine", 3, grow("t", 3))
	askGrowTwiceWrong(x)
	x.ask("delete: unknown", 5, &kmsg.DeleteTopicsRequest{TimeoutMillis: 10_000, TopicNames: []string{"nope"}})
	x.ask("delete: unknown", 6, &kmsg.DeleteTopicsRequest{TimeoutMillis: 10_000, Topics: []kmsg.DeleteTopicsRequestTopic{{Topic: ptr("nope")}}})
	x.ask("delete: unknown id", 6, &kmsg.DeleteTopicsRequest{TimeoutMillis: 10_000, Topics: []kmsg.DeleteTopicsRequestTopic{{TopicID: [16]byte{9}}}})

	md := func(names ...string) *kmsg.MetadataRequest {
		r := kmsg.NewPtrMetadataRequest()
		r.Topics = []kmsg.MetadataRequestTopic{}
		for _, n := range names {
			r.Topics = append(r.Topics, kmsg.MetadataRequestTopic{Topic: ptr(n)})
		}
		return r
	}
	for _, v := range []int16{1, 4, 9, 12, 13} {
		x.ask("metadata", v, md("t", "t", "a/b"))
		x.ask("metadata: none", v, md())
	}
	x.ask("metadata: unknown, not created", 13, md("nope", "compacted"))
	ops := md("t")
	ops.IncludeTopicAuthorizedOperations = true
	x.ask("metadata: authorized operations", 13, ops)
	x.ask("metadata: unknown id", 13, &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{TopicID: [16]byte{9}}}})

	dtp := func(cursor *kmsg.DescribeTopicPartitionsRequestCursor, limit int32, names ...string) *kmsg.DescribeTopicPartitionsRequest {
		r := kmsg.NewPtrDescribeTopicPartitionsRequest()
		r.ResponsePartitionLimit, r.Cursor = limit, cursor
		for _, n := range names {
			t := kmsg.NewDescribeTopicPartitionsRequestTopic()
			t.Topic = n
			r.Topics = append(r.Topics, t)
		}
		return r
	}
	x.ask("partitions", 0, dtp(nil, 100, "t", "nope", "compacted"))
	x.ask("partitions: a page", 0, dtp(nil, 1, "t", "compacted"))
	x.ask("partitions: the next page", 0, dtp(&kmsg.DescribeTopicPartitionsRequestCursor{Topic: "t", Partition: 1}, 100, "t", "compacted"))
}

type newCreate = func(topic string, partitions int32, factor int16, edit ...func(*kmsg.CreateTopicsRequestTopic)) *kmsg.CreateTopicsRequest

// askCreateTwiceWrong creates topics with two invalid fields each. The error shows the order of
// the checks.
func askCreateTwiceWrong(x *transcript, create newCreate) {
	config := func(key string, value *string) func(*kmsg.CreateTopicsRequestTopic) {
		return func(t *kmsg.CreateTopicsRequestTopic) {
			t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: key, Value: value}}
		}
	}
	assigned := func(replicas ...int32) func(*kmsg.CreateTopicsRequestTopic) {
		return func(t *kmsg.CreateTopicsRequestTopic) {
			t.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: replicas}}
		}
	}
	for _, name := range []string{"t", "__consumer.offsets", "a/b", "__cluster_metadata", "new"} {
		for _, c := range []struct {
			what string
			req  *kmsg.CreateTopicsRequest
		}{
			{"no partitions", create(name, 0, 1)},
			{"no replicas", create(name, 1, 0)},
			{"neither", create(name, 0, 0)},
			{"too many replicas", create(name, 1, 5)},
			{"negative partitions", create(name, -7, 1)},
			{"too many partitions", create(name, 20_000, 1)},
			{"bad config", create(name, 1, 1, config("segment.bytes", ptr("many")))},
			{"null config", create(name, 1, 1, config("segment.bytes", nil))},
			{"null unknown config", create(name, 1, 1, config("nonsense", nil))},
			{"unknown config, no partitions", create(name, 0, 1, config("nonsense", ptr("1")))},
			{"null config, no replicas", create(name, 1, 0, config("segment.bytes", nil))},
			{"bad config, too many replicas", create(name, 1, 5, config("segment.bytes", ptr("many")))},
			{"bad config, unknown broker", create(name, -1, -1, config("segment.bytes", ptr("many")), assigned(77))},
			{"unknown broker", create(name, -1, -1, assigned(77))},
			{"assigned and counted", create(name, 3, -1, assigned(77))},
		} {
			c.req.ValidateOnly = true
			x.ask("create: "+name+", "+c.what, 7, c.req)
		}
	}
}

// askGrowTwiceWrong is askCreateTwiceWrong for CreatePartitions.
func askGrowTwiceWrong(x *transcript) {
	grow := func(topic string, count int32, replicas ...[]int32) *kmsg.CreatePartitionsRequest {
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = topic, count
		for _, r := range replicas {
			t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: r})
		}
		return &kmsg.CreatePartitionsRequest{Topics: []kmsg.CreatePartitionsRequestTopic{t}, ValidateOnly: true, TimeoutMillis: 10_000}
	}
	for _, name := range []string{"t", "nope", "a/b"} {
		x.ask("grow: "+name+", none", 3, grow(name, 0))
		x.ask("grow: "+name+", negative", 3, grow(name, -1))
		x.ask("grow: "+name+", fewer, unknown broker", 3, grow(name, 1, []int32{77}))
		x.ask("grow: "+name+", same, unknown broker", 3, grow(name, 2, []int32{77}))
		x.ask("grow: "+name+", unknown broker", 3, grow(name, 3, []int32{77}))
		x.ask("grow: "+name+", no broker", 3, grow(name, 3, []int32{}))
		x.ask("grow: "+name+", too many", 3, grow(name, 20_000))
		x.ask("grow: "+name+", too many assigned", 3, grow(name, 3, []int32{1}, []int32{1}))
		x.ask("grow: "+name+", broker twice", 3, grow(name, 3, []int32{1, 1}))
	}
}

// askGone sends requests about topics that are deleted and created again, by name and by id, with
// and without fetch sessions.
func askGone(x *transcript) {
	id := func(name string) [16]byte {
		md := kmsg.NewPtrMetadataRequest()
		md.SetVersion(12)
		md.Topics = []kmsg.MetadataRequestTopic{{Topic: ptr(name)}}
		for {
			resp, err := x.exchange(md)
			require.NoError(x.t, err)
			if t := resp.(*kmsg.MetadataResponse).Topics[0]; t.ErrorCode == 0 {
				return t.TopicID
			}
		}
	}
	made := func(name string) {
		r, t := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
		r.SetVersion(7)
		r.TimeoutMillis, t.Topic, t.NumPartitions, t.ReplicationFactor = 10_000, name, 1, 1
		r.Topics = append(r.Topics, t)
		_, err := x.exchange(r)
		require.NoError(x.t, err)
		f, ft := kmsg.NewPtrFetchRequest(), kmsg.NewFetchRequestTopic()
		f.SetVersion(12)
		f.SessionEpoch, f.MaxBytes, ft.Topic = -1, 1<<20, name
		ft.Partitions = []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}
		f.Topics = append(f.Topics, ft)
		for { // Kafka's broker leads a new partition only a moment later
			resp, err := x.exchange(f)
			require.NoError(x.t, err)
			if resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode == 0 {
				return
			}
		}
	}
	gone := func(name string) {
		r := &kmsg.DeleteTopicsRequest{Version: 5, TimeoutMillis: 10_000, TopicNames: []string{name}}
		_, err := x.exchange(r)
		require.NoError(x.t, err)
		md := kmsg.NewPtrMetadataRequest()
		md.SetVersion(12)
		md.Topics = []kmsg.MetadataRequestTopic{{Topic: ptr(name)}}
		for {
			resp, err := x.exchange(md)
			require.NoError(x.t, err)
			if resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode != 0 {
				return
			}
		}
	}
	for _, again := range []bool{false, true} {
		state := "deleted"
		if again {
			state = "made again"
		}
		for _, v := range []int16{12, 13, 16} {
			name := "gone-" + state[:4] + "-" + itoa(int(v))
			made(name)
			old := id(name)
			fetch := func(session, epoch int32, topics bool) *kmsg.FetchRequest {
				r, t, p := kmsg.NewPtrFetchRequest(), kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
				r.MaxWaitMillis, r.MinBytes, r.MaxBytes, t.Topic, t.TopicID, p.PartitionMaxBytes, p.CurrentLeaderEpoch = 10, 1, 1<<20, name, old, 1<<20, -1
				r.SessionID, r.SessionEpoch = session, epoch
				t.Partitions = append(t.Partitions, p)
				if topics {
					r.Topics = append(r.Topics, t)
				}
				return r
			}
			session := x.ask("gone: begin, "+state, v, fetch(0, 0, true)).(*kmsg.FetchResponse).SessionID
			gone(name)
			if again {
				made(name)
				id(name)
			}
			x.ask("gone: in session, "+state, v, fetch(session, 1, false))
			x.ask("gone: in session once more, "+state, v, fetch(session, 2, false))
			x.ask("gone: in session, asked again, "+state, v, fetch(session, 3, true))
			x.ask("gone: new session, "+state, v, fetch(0, 0, true))
			x.ask("gone: without session, "+state, v, fetch(0, -1, true))
			if v == 13 {
				x.ask("gone: metadata by id, "+state, v, &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{TopicID: old}}})
				x.ask("gone: metadata by id and name, "+state, v, &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{TopicID: old, Topic: ptr(name)}}})
				askProduceGone(x, state, old)
			}
			if again {
				gone(name)
			}
		}
	}
}

// askProduceGone produces to the id of a deleted topic.
func askProduceGone(x *transcript, state string, old [16]byte) {
	var b record.Builder
	b.AppendKV(1_700_000_000_000, nil, []byte("v"), nil)
	batch, err := b.Build(record.None)
	require.NoError(x.t, err)
	r, t, p := kmsg.NewPtrProduceRequest(), kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	r.Acks, r.TimeoutMillis, t.TopicID, p.Records = -1, 1000, old, batch
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	x.ask("gone: produce by id, "+state, 13, r)
}

func askRecords(x *transcript) {
	for _, ts := range []int64{-1, -2, -3, -4, -5, -6, -7, 1_700_000_000_004, 1_800_000_000_000} {
		for _, v := range []int16{1, 6, 8, 11} {
			r := kmsg.NewPtrListOffsetsRequest()
			t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
			t.Topic, p.Timestamp = "t", ts
			t.Partitions = append(t.Partitions, p)
			p.Partition = 1
			t.Partitions = append(t.Partitions, p)
			p.Partition = 7
			t.Partitions = append(t.Partitions, p)
			r.Topics = append(r.Topics, t)
			x.ask("list offsets at "+itoa(int(ts)), v, r)
		}
	}
	fetch := func(edit func(*kmsg.FetchRequest, *kmsg.FetchRequestTopic, *kmsg.FetchRequestTopicPartition)) *kmsg.FetchRequest {
		r, t, p := kmsg.NewPtrFetchRequest(), kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		r.MaxWaitMillis, r.MinBytes, r.MaxBytes, t.Topic, p.PartitionMaxBytes, p.CurrentLeaderEpoch = 10, 1, 1<<20, "t", 1<<20, -1
		r.SessionEpoch = -1
		edit(r, &t, &p)
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		return r
	}
	for _, v := range []int16{4, 7, 12} {
		x.ask("fetch: at the end", v, fetch(func(_ *kmsg.FetchRequest, _ *kmsg.FetchRequestTopic, p *kmsg.FetchRequestTopicPartition) {
			p.FetchOffset = 10
		}))
		x.ask("fetch: beyond the end", v, fetch(func(_ *kmsg.FetchRequest, _ *kmsg.FetchRequestTopic, p *kmsg.FetchRequestTopicPartition) {
			p.FetchOffset = 11
		}))
		x.ask("fetch: before the start", v, fetch(func(_ *kmsg.FetchRequest, _ *kmsg.FetchRequestTopic, p *kmsg.FetchRequestTopicPartition) {
			p.FetchOffset = -1
		}))
		x.ask("fetch: unknown topic", v, fetch(func(_ *kmsg.FetchRequest, t *kmsg.FetchRequestTopic, _ *kmsg.FetchRequestTopicPartition) {
			t.Topic = "nope"
		}))
		x.ask("fetch: unknown partition", v, fetch(func(_ *kmsg.FetchRequest, _ *kmsg.FetchRequestTopic, p *kmsg.FetchRequestTopicPartition) {
			p.Partition = 9
		}))
		x.ask("fetch: bad isolation", v, fetch(func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopic, _ *kmsg.FetchRequestTopicPartition) {
			r.IsolationLevel = 7
		}))
	}
	x.ask("fetch: unknown session", 12, fetch(func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopic, _ *kmsg.FetchRequestTopicPartition) {
		r.SessionID, r.SessionEpoch = 7, 1
	}))
	x.ask("fetch: later leader epoch", 12, fetch(func(_ *kmsg.FetchRequest, _ *kmsg.FetchRequestTopic, p *kmsg.FetchRequestTopicPartition) {
		p.CurrentLeaderEpoch = 99
	}))
	x.ask("fetch: unknown id", 13, fetch(func(*kmsg.FetchRequest, *kmsg.FetchRequestTopic, *kmsg.FetchRequestTopicPartition) {}))
	produce := func(topic string, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
		r, t, p := kmsg.NewPtrProduceRequest(), kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
		r.Acks, r.TimeoutMillis, t.Topic, p.Partition, p.Records = acks, 1000, topic, partition, records
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		return r
	}
	var b record.Builder
	b.AppendKV(1_700_000_000_000, nil, []byte("v"), nil)
	batch, err := b.Build(record.None)
	require.NoError(x.t, err)
	damaged := slices.Clone(batch)
	damaged[len(damaged)-2] ^= 1
	shifted := slices.Clone(batch)
	shifted[7] = 9 // base offset
	magic1 := slices.Clone(batch)
	magic1[16] = 1
	for _, v := range []int16{3, 7, 9, 12} {
		x.ask("produce: empty", v, produce("t", 0, -1, []byte{}))
		x.ask("produce: zeroes", v, produce("t", 0, -1, make([]byte, 80)))
		x.ask("produce: cut", v, produce("t", 0, -1, batch[:len(batch)-1]))
		x.ask("produce: damaged", v, produce("t", 0, -1, damaged))
		x.ask("produce: base offset", v, produce("t", 0, -1, shifted))
		x.ask("produce: two batches", v, produce("t", 0, -1, append(slices.Clone(batch), batch...)))
		x.ask("produce: old magic", v, produce("t", 0, -1, magic1))
		x.ask("produce: no key", v, produce("compacted", 0, -1, batch))
		x.ask("produce: unknown topic", v, produce("nope", 0, -1, batch))
		x.ask("produce: unknown partition", v, produce("t", 9, -1, batch))
		x.ask("produce: bad acks", v, produce("t", 0, 5, batch))
		x.ask("produce: offsets topic", v, produce("__consumer_offsets", 0, -1, batch))
		x.ask("produce", v, produce("t", 1, -1, batch))
	}
	x.ask("produce: unknown id", 13, produce("", 0, -1, batch))

	del := func(topic string, partition int32, offset int64) *kmsg.DeleteRecordsRequest {
		return &kmsg.DeleteRecordsRequest{TimeoutMillis: 1000, Topics: []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}}}}}
	}
	x.ask("delete records: beyond the end", 2, del("t", 0, 11))
	x.ask("delete records: negative", 2, del("t", 0, -2))
	x.ask("delete records: fine", 2, del("t", 0, 3))
	x.ask("delete records: below the start", 2, del("t", 0, 1))
	x.ask("delete records: unknown", 2, del("nope", 0, 1))
	x.ask("delete records: compacted", 2, del("compacted", 0, 0))
	x.ask("delete records: offsets topic", 2, del("__consumer_offsets", 0, 0))
	for _, epoch := range []int32{-1, 0, 99} {
		for _, current := range []int32{-1, 0, 99} {
			r, t, p := kmsg.NewPtrOffsetForLeaderEpochRequest(), kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			t.Topic, p.LeaderEpoch, p.CurrentLeaderEpoch = "t", epoch, current
			t.Partitions = append(t.Partitions, p)
			p.Partition = 1
			t.Partitions = append(t.Partitions, p)
			p.Partition = 9
			t.Partitions = append(t.Partitions, p)
			r.Topics = append(r.Topics, t)
			x.ask("leader epoch "+itoa(int(epoch))+" with current "+itoa(int(current)), 4, r)
		}
	}
	dp := kmsg.NewPtrDescribeProducersRequest()
	dp.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0, 9}}, {Topic: "nope", Partitions: []int32{0}}}
	x.ask("producers", 0, dp)
	el := kmsg.NewPtrElectLeadersRequest()
	el.TimeoutMillis = 1000
	el.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0, 9}}, {Topic: "nope", Partitions: []int32{0}}}
	x.ask("elect leaders", 2, el)
	re := kmsg.NewPtrListPartitionReassignmentsRequest()
	re.TimeoutMillis = 1000
	x.ask("reassignments", 0, re)
}

func askGroups(x *transcript) {
	member := func(r kmsg.Response) *kmsg.JoinGroupResponse { return r.(*kmsg.JoinGroupResponse) }
	find := func(kind int8, keys ...string) *kmsg.FindCoordinatorRequest {
		return &kmsg.FindCoordinatorRequest{CoordinatorKey: keys[0], CoordinatorKeys: keys, CoordinatorType: kind}
	}
	for _, v := range []int16{0, 3, 4, 6} {
		x.ask("a coordinator", v, find(0, "g", ""))
		if v > 0 {
			x.ask("a coordinator of an unknown kind", v, find(9, "g"))
			x.ask("a coordinator of share groups", v, find(2, "g"))
			x.ask("a coordinator of transactions", v, find(1, "g"))
		}
	}
	heartbeat := func(group, member string, generation int32) *kmsg.HeartbeatRequest {
		return &kmsg.HeartbeatRequest{Group: group, MemberID: member, Generation: generation}
	}
	describe := func(groups ...string) *kmsg.DescribeGroupsRequest {
		return &kmsg.DescribeGroupsRequest{Groups: groups, IncludeAuthorizedOperations: true}
	}
	commit := func(group, member string, generation int32, partitions ...int32) *kmsg.OffsetCommitRequest {
		r, t := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewOffsetCommitRequestTopic()
		r.Group, r.MemberID, r.Generation, t.Topic = group, member, generation, "t"
		for _, p := range partitions {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset = p, 5
			t.Partitions = append(t.Partitions, rp)
		}
		r.Topics = append(r.Topics, t)
		return r
	}
	fetch := func(group string, all bool) *kmsg.OffsetFetchRequest {
		r, g := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup()
		r.Group, g.Group = group, group
		if !all {
			r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0, 9}}, {Topic: "nope", Partitions: []int32{0}}}
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0, 9}}, {Topic: "nope", Partitions: []int32{0}}}
		}
		r.Groups = append(r.Groups, g)
		return r
	}
	for _, v := range []int16{1, 2, 7, 8, 9, 10} {
		x.ask("offsets of an unknown group", v, fetch("nope", false))
		if v > 1 {
			x.ask("all offsets of an unknown group", v, fetch("nope", true))
		}
	}
	for _, v := range []int16{2, 8, 9, 10} {
		x.ask("commit: unknown group", v, commit("nope", "m", 1, 0, 7))
		x.ask("commit: offsets only", v, commit("simple", "", -1, 0, 1, 7))
	}
	x.ask("offsets", 9, fetch("simple", false))
	x.ask("all offsets", 8, fetch("simple", true))
	x.ask("all offsets", 10, fetch("simple", true))
	for _, v := range []int16{0, 5, 6} {
		x.ask("describe", v, describe("simple", "nope", ""))
	}
	for _, v := range []int16{0, 4, 5} {
		x.ask("list", v, &kmsg.ListGroupsRequest{StatesFilter: []string{"eMpTy"}, TypesFilter: []string{"CLASSIC", "what"}})
		x.ask("list: unknown state", v, &kmsg.ListGroupsRequest{StatesFilter: []string{"what"}})
	}
	join := func(group, id string, instance *string) *kmsg.JoinGroupRequest {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType, r.MemberID, r.InstanceID = group, 10_000, 10_000, "consumer", id, instance
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 0}}}
		return r
	}
	for _, v := range []int16{0, 5, 9} {
		x.ask("join: no group", v, join("", "", nil))
		x.ask("join: unknown member", v, join("nope", "m", nil))
		short := join("nope", "m", nil)
		short.SessionTimeoutMillis = 1
		x.ask("join: short session", v, short)
	}
	id := member(x.ask("join", 9, join("g", "", nil))).MemberID
	x.ask("join with the id", 9, join("g", id, nil))
	x.ask("describe while completing", 6, describe("g"))
	sync := func(kind, protocol *string, generation int32) *kmsg.SyncGroupRequest {
		return &kmsg.SyncGroupRequest{Group: "g", MemberID: id, Generation: generation, ProtocolType: kind, Protocol: protocol,
			GroupAssignment: []kmsg.SyncGroupRequestGroupAssignment{{MemberID: id, MemberAssignment: []byte{1, 2}}}}
	}
	x.ask("sync: no type", 5, sync(nil, ptr("range"), 1))
	x.ask("sync: wrong type", 5, sync(ptr("connect"), ptr("range"), 1))
	x.ask("sync: wrong generation", 5, sync(ptr("consumer"), ptr("range"), 9))
	x.ask("commit while completing", 9, commit("g", id, 1, 0))
	x.ask("sync", 5, sync(ptr("consumer"), ptr("range"), 1))
	x.ask("sync again", 2, sync(nil, nil, 1))
	x.ask("heartbeat", 4, heartbeat("g", id, 1))
	x.ask("heartbeat: old", 4, heartbeat("g", id, 0))
	x.ask("heartbeat: unknown", 4, heartbeat("g", "x", 1))
	x.ask("describe stable", 6, describe("g"))
	x.ask("commit from outside", 9, commit("g", "", -1, 0))
	x.ask("commit: old", 9, commit("g", id, 0, 0))
	x.ask("commit", 9, commit("g", id, 1, 0))
	other := join("g", "", nil)
	other.Protocols[0].Name = "sticky"
	x.ask("join: another protocol", 9, other)
	offsetDelete := func(group, topic string, partitions ...int32) *kmsg.OffsetDeleteRequest {
		t := kmsg.OffsetDeleteRequestTopic{Topic: topic}
		for _, p := range partitions {
			t.Partitions = append(t.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
		}
		return &kmsg.OffsetDeleteRequest{Group: group, Topics: []kmsg.OffsetDeleteRequestTopic{t}}
	}
	x.ask("delete offsets: subscribed", 0, offsetDelete("g", "t", 0, 9))
	x.ask("delete offsets: unknown topic", 0, offsetDelete("g", "nope", 0))
	x.ask("delete offsets: unknown group", 0, offsetDelete("nope", "t", 0))
	x.ask("delete offsets", 0, offsetDelete("simple", "t", 0, 1, 7))
	x.ask("a group whose offsets are all deleted", 6, describe("simple"))
	x.ask("deleting a group whose offsets are deleted", 2, &kmsg.DeleteGroupsRequest{Groups: []string{"simple"}})
	x.ask("delete groups", 2, &kmsg.DeleteGroupsRequest{Groups: []string{"g", "nope", ""}})
	leave := func(group string, members ...kmsg.LeaveGroupRequestMember) *kmsg.LeaveGroupRequest {
		return &kmsg.LeaveGroupRequest{Group: group, MemberID: members[0].MemberID, Members: members}
	}
	for _, v := range []int16{2, 5} {
		x.ask("leave: unknown group", v, leave("nope", kmsg.LeaveGroupRequestMember{MemberID: "m"}))
		x.ask("leave: no group", v, leave("", kmsg.LeaveGroupRequestMember{MemberID: "m"}))
	}
	x.ask("leave", 5, leave("g", kmsg.LeaveGroupRequestMember{MemberID: "m"}, kmsg.LeaveGroupRequestMember{MemberID: id}, kmsg.LeaveGroupRequestMember{MemberID: id, InstanceID: ptr("i")}))
	x.ask("describe empty", 6, describe("g"))
	x.ask("static join", 9, join("static", "", ptr("one")))
	x.ask("delete the group", 2, &kmsg.DeleteGroupsRequest{Groups: []string{"g"}})
}

func askConfigs(x *transcript) {
	alter := func(kind kmsg.ConfigResourceType, name, key string, op kmsg.IncrementalAlterConfigOp, value *string) *kmsg.IncrementalAlterConfigsRequest {
		r, res, c := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		res.ResourceType, res.ResourceName, c.Name, c.Op, c.Value = kind, name, key, op, value
		res.Configs = append(res.Configs, c)
		r.Resources = append(r.Resources, res)
		return r
	}
	topic := kmsg.ConfigResourceTypeTopic
	x.ask("alter: unknown key", 1, alter(topic, "t", "nonsense", 0, ptr("1")))
	x.ask("alter: bad value", 1, alter(topic, "t", "retention.ms", 0, ptr("x")))
	x.ask("alter: null", 1, alter(topic, "t", "retention.ms", 0, nil))
	x.ask("alter: append to a number", 1, alter(topic, "t", "retention.ms", 2, ptr("1")))
	x.ask("alter: unset key", 1, alter(topic, "t", "retention.ms", 1, nil))
	x.ask("alter: unknown topic", 1, alter(topic, "nope", "retention.ms", 0, ptr("1")))
	x.ask("alter: no topic", 1, alter(topic, "", "retention.ms", 0, ptr("1")))
	x.ask("alter: unknown operation", 1, alter(topic, "t", "retention.ms", 9, ptr("1")))
	x.ask("alter", 1, alter(topic, "t", "retention.ms", 0, ptr("1234567")))
	describe := func(kind kmsg.ConfigResourceType, name string, keys ...string) *kmsg.DescribeConfigsRequest {
		r, res := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType, res.ResourceName, res.ConfigNames = kind, name, keys
		r.Resources, r.IncludeSynonyms = append(r.Resources, res), true
		return r
	}
	x.ask("configs: some", 4, describe(topic, "t", "cleanup.policy", "segment.bytes", "nonsense"))
	x.ask("configs: unknown topic", 4, describe(topic, "nope"))
	x.ask("configs: invalid topic", 4, describe(topic, "a/b"))
	x.ask("configs: another broker", 4, describe(kmsg.ConfigResourceTypeBroker, "99"))
}
