package interop

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAnswersAboutShareGroupsAreKafkas lets members of share groups join, acquire records,
// acknowledge them and send invalid requests. Administrators and brokers read, change and delete
// the stored state.
func TestAnswersAboutShareGroupsAreKafkas(t *testing.T) {
	t.Parallel()
	kafkas := startKafka(t)
	ours, _ := startStrata(t)
	sameAnswers(t, askShares(t, kafkas), askShares(t, ours))
}

func askShares(t *testing.T, k target) *transcript {
	s := &shareScript{transcript: newTranscript(t, k)}
	s.prepare()
	s.configured()
	s.heartbeats()
	s.fetches()
	s.acknowledges()
	s.offsets()
	s.states()
	return s.transcript
}

type shareScript struct {
	*transcript
	id    [16]byte // of the topic jobs
	group string   // the group of ShareFetch and ShareAcknowledge requests
}

// prepare creates the topic with twenty records, each in a batch of its own, and a group that
// starts at the first. It waits for the coordinators.
func (s *shareScript) prepare() {
	name := "jobs"
	createNamed(s.t, s.k, name, 2)
	md := kmsg.NewPtrMetadataRequest()
	md.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	s.until(12, md, func(r kmsg.Response) bool {
		got := r.(*kmsg.MetadataResponse).Topics[0]
		s.id = got.TopicID
		return got.ErrorCode == 0 && len(got.Partitions) == 2
	})
	p := franz(s.t, s.k, kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(name), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range 20 {
		require.NoError(s.t, p.ProduceSync(within(s.t), &kgo.Record{Value: value(i), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i))}).FirstErr())
	}
	awaitCoordinators(s.t, s.k)
}

// shareConfigs maps keys of share groups to the values that the test sets.
var shareConfigs = map[string][]string{
	"share.auto.offset.reset":          {"nonsense", "", "by_duration:", "by_duration:P1D", "by_duration:-PT1H", "by_duration:PT1H30M", "by_duration:PT0.5S", "by_duration:1h", "LATEST", "latest", "none"},
	"share.isolation.level":            {"READ_COMMITTED", "", "nonsense", "read_committed", "read_uncommitted"},
	"share.record.lock.duration.ms":    {"14999", "15000", "60000", "60001", "x", ""},
	"share.delivery.count.limit":       {"1", "2", "10", "11", "x"},
	"share.partition.max.record.locks": {"99", "100", "10000", "10001"},
	"share.heartbeat.interval.ms":      {"4999", "5000", "15000", "15001"},
	"share.session.timeout.ms":         {"44999", "45000", "60000", "60001"},
	"share.renew.acknowledge.enable":   {"true", "false", "maybe"},
	"share.assignment.interval.ms":     {"-1", "0", "15000", "15001"},
}

// Strata has these keys only as broker settings, the same for all share groups.
var _ = func() bool {
	for key, values := range shareConfigs {
		if key == "share.auto.offset.reset" || key == "share.isolation.level" {
			continue
		}
		const reason = "all share groups have the same: it is the broker's only"
		deviations["share config: describe "+key] = reason
		for _, v := range values {
			deviations["share config: "+key+"="+v] = reason
		}
	}
	return true
}()

// configured sets and describes the configuration keys of share groups.
func (s *shareScript) configured() {
	alter := func(name, group, key, value string) {
		r, rr := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewIncrementalAlterConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
		rr.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Value: &value}}
		r.Resources = append(r.Resources, rr)
		s.ask("share config: "+name, 1, r)
	}
	for _, key := range slices.Sorted(maps.Keys(shareConfigs)) {
		for _, v := range shareConfigs[key] {
			alter(key+"="+v, "configured", key, v)
		}
		r, rr := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewDescribeConfigsRequestResource()
		rr.ResourceType, rr.ResourceName, rr.ConfigNames = kmsg.ConfigResourceTypeGroupConfig, "not-configured", []string{key}
		r.Resources, r.IncludeSynonyms = append(r.Resources, rr), true
		s.ask("share config: describe "+key, 4, r)
	}
	for _, group := range []string{"g", "refused", "reads", "says"} {
		alter("earliest, "+group, group, "share.auto.offset.reset", "earliest")
		d, rr := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewDescribeConfigsRequestResource()
		rr.ResourceType, rr.ResourceName, rr.ConfigNames = kmsg.ConfigResourceTypeGroupConfig, group, []string{"share.auto.offset.reset"}
		d.Resources = append(d.Resources, rr)
		s.until(4, d, func(r kmsg.Response) bool {
			got := r.(*kmsg.DescribeConfigsResponse).Resources[0].Configs
			return len(got) == 1 && *got[0].Value == "earliest"
		})
	}
}

func (s *shareScript) beat(group, member string, epoch int32, topics ...string) *kmsg.ShareGroupHeartbeatRequest {
	r := kmsg.NewPtrShareGroupHeartbeatRequest()
	r.GroupID, r.MemberID, r.MemberEpoch, r.SubscribedTopicNames = group, member, epoch, topics
	return r
}

// joined has a member join, and returns once it has an assignment.
func (s *shareScript) joined(group, member string) (epoch int32) {
	got := s.until(1, s.beat(group, member, 0, "jobs"), func(r kmsg.Response) bool { return r.(*kmsg.ShareGroupHeartbeatResponse).ErrorCode == 0 }).(*kmsg.ShareGroupHeartbeatResponse)
	for got.Assignment == nil || len(got.Assignment.TopicPartitions) == 0 {
		got = s.until(1, s.beat(group, member, got.MemberEpoch), func(kmsg.Response) bool { return true }).(*kmsg.ShareGroupHeartbeatResponse)
		require.Zero(s.t, got.ErrorCode)
		time.Sleep(20 * time.Millisecond) // between two heartbeats
	}
	return got.MemberEpoch
}

func (s *shareScript) heartbeats() {
	rack, empty := "", ""
	edits := map[string]func(r *kmsg.ShareGroupHeartbeatRequest){
		"no group":         func(r *kmsg.ShareGroupHeartbeatRequest) { r.GroupID = "" },
		"blank group":      func(r *kmsg.ShareGroupHeartbeatRequest) { r.GroupID = " " },
		"no member":        func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberID = "" },
		"blank member":     func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberID = " " },
		"no rack":          func(r *kmsg.ShareGroupHeartbeatRequest) { r.RackID = &rack },
		"epoch -2":         func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberEpoch = -2 },
		"epoch -3":         func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberEpoch = -3 },
		"no subscription":  func(r *kmsg.ShareGroupHeartbeatRequest) { r.SubscribedTopicNames = nil },
		"group is unknown": func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberEpoch = 1 },
		"leaves no group":  func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberEpoch = -1 },
		"empty topic":      func(r *kmsg.ShareGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{empty} },
		"36 characters":    func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberID = strings.Repeat("x", 36) },
		"37 characters":    func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberID = strings.Repeat("x", 37) },
		"control":          func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberID = "\x00\t" },
	}
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		r := s.beat("refused-"+name, "m", 0, "jobs")
		edits[name](r)
		s.ask("share beat: "+name, 1, r)
	}
	epoch := s.joined("g", "m1")
	s.ask("share beat: unchanged", 1, s.beat("g", "m1", epoch))
	s.ask("share beat: an epoch ahead", 1, s.beat("g", "m1", epoch+5))
	s.ask("share beat: another one's", 1, s.beat("g", "m9", epoch))
	s.ask("share beat: leaves, unknown", 1, s.beat("g", "m9", -1))
	s.describe("one", "g")
	s.describe("none", "", "nobody")
	md, list := kmsg.NewPtrConsumerGroupDescribeRequest(), kmsg.NewPtrListGroupsRequest()
	md.Groups, list.TypesFilter = []string{"g"}, []string{"share"}
	s.ask("share group, described as a consumer group", 1, md)
	s.ask("share groups, listed", 5, list)
	old := kmsg.NewPtrDescribeGroupsRequest()
	old.Groups = []string{"g"}
	s.ask("share group, described as of old", 6, old)
	cb := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	cb.Group, cb.MemberID, cb.RebalanceTimeoutMillis, cb.SubscribedTopicNames, cb.Topics = "g", "c1", 60_000, []string{"jobs"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	s.ask("share group, joined by a consumer", 1, cb)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "g", "consumer", 10_000, 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}
	s.ask("share group, joined as of old", 9, join)
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Topics = "g", []kmsg.OffsetCommitRequestTopic{{Topic: "jobs", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0, Offset: 1, LeaderEpoch: -1}}}}
	s.ask("share group, an offset committed", 8, commit)
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{"g"}
	s.ask("share group, deleted with members", 2, del)
	second := s.joined("two", "a")
	s.joined("two", "b")
	s.until(1, s.beat("two", "a", second), func(r kmsg.Response) bool {
		second = r.(*kmsg.ShareGroupHeartbeatResponse).MemberEpoch
		return true
	})
	s.ask("share beat: leaves", 1, s.beat("two", "b", -1))
	s.ask("share beat: has left", 1, s.beat("two", "b", 2))
}

func (s *shareScript) describe(name string, groups ...string) {
	r := kmsg.NewPtrShareGroupDescribeRequest()
	r.GroupIDs, r.IncludeAuthorizedOperations = groups, true
	s.ask("share describe: "+name, 1, r)
}

// fetched returns a ShareFetch of partition 0.
func (s *shareScript) fetched(member string, epoch int32, acks ...ackRange) *kmsg.ShareFetchRequest {
	r := kmsg.NewPtrShareFetchRequest()
	r.GroupID, r.MemberID, r.ShareSessionEpoch = &s.group, &member, epoch
	r.MinBytes, r.MaxBytes, r.MaxRecords, r.BatchSize, r.ShareAcquireMode = 0, 1<<20, 2, 2, 1
	if epoch == 0 || len(acks) > 0 {
		rt, rp := kmsg.NewShareFetchRequestTopic(), kmsg.NewShareFetchRequestTopicPartition()
		for _, a := range acks {
			rp.AcknowledgementBatches = append(rp.AcknowledgementBatches, kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{FirstOffset: a.first, LastOffset: a.last, AcknowledgeTypes: a.types})
		}
		rt.TopicID, rt.Partitions = s.id, append(rt.Partitions, rp)
		r.Topics = append(r.Topics, rt)
	}
	return r
}

// waits makes a ShareFetch wait for records: Kafka loads a share partition on its first fetch.
func (s *shareScript) waits(r *kmsg.ShareFetchRequest) *kmsg.ShareFetchRequest {
	r.MinBytes, r.MaxWaitMillis = 1, 20_000
	return r
}

type ackRange struct {
	first, last int64
	types       []int8
}

func acked(first, last int64, types ...int8) ackRange { return ackRange{first, last, types} }

// works creates a group with one member, which initializes the state of its share partitions.
func (s *shareScript) works(group string) {
	s.group = group
	s.joined(group, "somebody")
}

func (s *shareScript) fetches() {
	s.works("refused")
	empty, none := "", (*string)(nil)
	edits := map[string]func(r *kmsg.ShareFetchRequest){
		"no group":          func(r *kmsg.ShareFetchRequest) { r.GroupID = none },
		"empty group":       func(r *kmsg.ShareFetchRequest) { r.GroupID = &empty },
		"no member":         func(r *kmsg.ShareFetchRequest) { r.MemberID = none },
		"empty member":      func(r *kmsg.ShareFetchRequest) { r.MemberID = &empty },
		"no session":        func(r *kmsg.ShareFetchRequest) { r.ShareSessionEpoch = 1 },
		"nothing to close":  func(r *kmsg.ShareFetchRequest) { r.ShareSessionEpoch = -1 },
		"epoch -2":          func(r *kmsg.ShareFetchRequest) { r.ShareSessionEpoch = -2 },
		"mode 2":            func(r *kmsg.ShareFetchRequest) { r.ShareAcquireMode = 2 },
		"mode -1":           func(r *kmsg.ShareFetchRequest) { r.ShareAcquireMode = -1 },
		"renews, and reads": func(r *kmsg.ShareFetchRequest) { r.IsRenewAck = true },
		"acknowledges at once": func(r *kmsg.ShareFetchRequest) {
			r.Topics[0].Partitions[0].AcknowledgementBatches = []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{{FirstOffset: 0, LastOffset: 0, AcknowledgeTypes: []int8{1}}}
		},
		"unknown topic":     func(r *kmsg.ShareFetchRequest) { r.Topics[0].TopicID = [16]byte{9} },
		"unknown partition": func(r *kmsg.ShareFetchRequest) { r.Topics[0].Partitions[0].Partition = 7 },
	}
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		r := s.fetched("refused-"+name, 0)
		r.MaxRecords = 1
		edits[name](r)
		s.ask("share fetch: "+name, 2, r)
	}
	s.works("reads")
	s.ask("share fetch: begins", 2, s.waits(s.fetched("m1", 0)))
	s.ask("share fetch: begins again", 2, s.waits(s.fetched("m1", 0)))
	s.ask("share fetch: goes on", 2, s.waits(s.fetched("m1", 1)))
	s.ask("share fetch: an old epoch", 2, s.fetched("m1", 1))
	s.ask("share fetch: an epoch ahead", 2, s.fetched("m1", 7))
	many := s.fetched("m1", 2)
	many.ShareAcquireMode, many.MaxRecords = 0, 3
	s.ask("share fetch: whole batches", 2, s.waits(many))
	s.ask("share fetch: old version", 1, s.waits(s.fetched("m1", 3)))
}

func (s *shareScript) acknowledge(member string, epoch int32, acks ...ackRange) *kmsg.ShareAcknowledgeRequest {
	r := kmsg.NewPtrShareAcknowledgeRequest()
	r.GroupID, r.MemberID, r.ShareSessionEpoch = &s.group, &member, epoch
	rt, rp := kmsg.NewShareAcknowledgeRequestTopic(), kmsg.NewShareAcknowledgeRequestTopicPartition()
	for _, a := range acks {
		rp.AcknowledgementBatches = append(rp.AcknowledgementBatches, kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{FirstOffset: a.first, LastOffset: a.last, AcknowledgeTypes: a.types})
	}
	rt.TopicID, rt.Partitions = s.id, append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return r
}

func (s *shareScript) acknowledges() {
	s.ask("share ack: opens no session", 2, s.acknowledge("m1", 0, acked(0, 0, 1)))
	s.ask("share ack: no session", 2, s.acknowledge("nobody", 1, acked(0, 0, 1)))
	s.ask("share ack: closes", 2, s.acknowledge("m1", -1, acked(0, 0, 1)))
	s.works("says")
	got := s.fetched("m2", 0)
	got.MaxRecords = 8
	s.ask("share fetch: m2", 2, s.waits(got))
	epoch := int32(0)
	for _, c := range []struct {
		name string
		acks []ackRange
	}{
		{"accepts", []ackRange{acked(1, 1, 1)}},
		{"accepts again", []ackRange{acked(1, 1, 1)}},
		{"below the start", []ackRange{acked(0, 0, 1)}},
		{"beyond the end", []ackRange{acked(50, 50, 1)}},
		{"backwards", []ackRange{acked(3, 2, 1)}},
		{"negative", []ackRange{acked(-1, 2, 1)}},
		{"no types", []ackRange{acked(2, 2)}},
		{"too many types", []ackRange{acked(2, 2, 1, 1)}},
		{"too few types", []ackRange{acked(2, 4, 1, 1)}},
		{"unknown type", []ackRange{acked(2, 2, 5)}},
		{"negative type", []ackRange{acked(2, 2, -1)}},
		{"overlap", []ackRange{acked(2, 3, 1), acked(3, 4, 1)}},
		{"out of order", []ackRange{acked(3, 3, 1), acked(2, 2, 1)}},
		{"nothing", nil},
		{"renews and does not say so", []ackRange{acked(2, 2, 4)}},
		{"each its own", []ackRange{acked(2, 4, 1, 2, 3)}},
		{"a gap", []ackRange{acked(5, 5, 0)}},
	} {
		epoch++
		s.ask("share ack: "+c.name, 2, s.acknowledge("m2", epoch, c.acks...))
	}
	renew := s.acknowledge("m2", epoch+1, acked(6, 6, 4))
	renew.IsRenewAck = true
	s.ask("share ack: renews", 2, renew)
	unknown := s.acknowledge("m2", epoch+2, acked(6, 6, 1))
	unknown.Topics[0].TopicID = [16]byte{9}
	s.ask("share ack: unknown topic", 2, unknown)
	beyond := s.acknowledge("m2", epoch+3, acked(6, 6, 1))
	beyond.Topics[0].Partitions[0].Partition = 7
	s.ask("share ack: unknown partition", 2, beyond)
	s.ask("share fetch: acknowledges, and reads", 2, s.waits(s.fetched("m2", epoch+4, acked(6, 7, 1))))
	s.ask("share ack: an old epoch", 2, s.acknowledge("m2", 1, acked(6, 6, 1)))
	s.ask("share fetch: closes", 2, s.fetched("m2", -1))
	s.ask("share fetch: is closed", 2, s.fetched("m2", epoch+5))
}

func (s *shareScript) offsets() {
	described := func(name string, version int16, group string, topics ...string) {
		r, g := kmsg.NewPtrDescribeShareGroupOffsetsRequest(), kmsg.NewDescribeShareGroupOffsetsRequestGroup()
		g.GroupID = group
		for _, t := range topics {
			g.Topics = append(g.Topics, kmsg.DescribeShareGroupOffsetsRequestGroupTopic{Topic: t, Partitions: []int32{0}})
		}
		r.Groups = append(r.Groups, g)
		s.ask("share offsets: "+name, version, r)
	}
	altered := func(name, group, topic string, partition int32, offset int64) {
		r, t := kmsg.NewPtrAlterShareGroupOffsetsRequest(), kmsg.NewAlterShareGroupOffsetsRequestTopic()
		r.GroupID, t.Topic = group, topic
		t.Partitions = []kmsg.AlterShareGroupOffsetsRequestTopicPartition{{Partition: partition, StartOffset: offset}}
		r.Topics = append(r.Topics, t)
		s.ask("share offsets: alter, "+name, 0, r)
	}
	deleted := func(name, group string, topics ...string) {
		r := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
		r.GroupID = group
		for _, t := range topics {
			r.Topics = append(r.Topics, kmsg.DeleteShareGroupOffsetsRequestTopic{Topic: t})
		}
		s.ask("share offsets: delete, "+name, 0, r)
	}
	described("no group", 1, "")
	altered("with members", "g", "jobs", 0, 3)
	deleted("with members", "g", "jobs")
	s.until(1, s.beat("g", "m1", -1), func(r kmsg.Response) bool { return r.(*kmsg.ShareGroupHeartbeatResponse).ErrorCode == 0 })
	s.describe("without members", "g")
	altered("no group", "", "jobs", 0, 3)
	altered("unknown topic", "g", "nope", 0, 3)
	altered("unknown partition", "g", "jobs", 9, 3)
	altered("negative", "g", "jobs", 0, -1)
	altered("to 3", "g", "jobs", 0, 3)
	described("altered", 0, "g", "jobs")
	described("altered", 1, "g", "jobs")
	altered("beyond the end", "g", "jobs", 0, 300)
	described("beyond the end", 1, "g", "jobs")
	altered("group is unknown", "made", "jobs", 1, 0)
	described("made", 1, "made")
	s.describe("made", "made")
	deleted("no group", "", "jobs")
	deleted("unknown group", "nobody", "jobs")
	deleted("unknown topic", "g", "nope", "jobs")
	deleted("again", "g", "jobs")
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{"g", "made", "nobody"}
	s.ask("share groups, deleted", 2, del)
	s.describe("deleted", "g")
}

// states sends the requests about share state that brokers send to each other.
func (s *shareScript) states() {
	const unknownID = "AAAAAAAAAAAAAAAAAAAAAQ" // an answer would contain the target's own id
	key := &kmsg.FindCoordinatorRequest{CoordinatorType: 2, CoordinatorKeys: []string{fmt.Sprintf("s:%s:0", unknownID)}}
	s.until(6, key, func(r kmsg.Response) bool { return r.(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode == 0 })
	for _, bad := range []string{"s", "s:x:0", ":" + unknownID + ":0", "s:" + unknownID + ":x"} {
		s.ask("share state: coordinator of "+bad[:1]+itoa(len(bad)), 6, &kmsg.FindCoordinatorRequest{CoordinatorType: 2, CoordinatorKeys: []string{bad}})
	}
	initialize := func(name, group string, id [16]byte, partition, epoch int32, start int64) {
		r := kmsg.NewPtrInitializeShareGroupStateRequest()
		r.GroupID = group
		r.Topics = []kmsg.InitializeShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.InitializeShareGroupStateRequestTopicPartition{{Partition: partition, StateEpoch: epoch, StartOffset: start}}}}
		s.ask("share state: initialize, "+name, 0, r)
	}
	read := func(name, group string, id [16]byte, partition, epoch int32) {
		r := kmsg.NewPtrReadShareGroupStateRequest()
		r.GroupID = group
		r.Topics = []kmsg.ReadShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.ReadShareGroupStateRequestTopicPartition{{Partition: partition, LeaderEpoch: epoch}}}}
		s.ask("share state: read, "+name, 0, r)
	}
	summary := func(name, group string, id [16]byte, partition, epoch int32) {
		for _, v := range []int16{0, 1} {
			r := kmsg.NewPtrReadShareGroupStateSummaryRequest()
			r.GroupID = group
			r.Topics = []kmsg.ReadShareGroupStateSummaryRequestTopic{{TopicID: id, Partitions: []kmsg.ReadShareGroupStateSummaryRequestTopicPartition{{Partition: partition, LeaderEpoch: epoch}}}}
			s.ask("share state: summary, "+name, v, r)
		}
	}
	type batch = kmsg.WriteShareGroupStateRequestTopicPartitionStateBatch
	write := func(name, group string, state, leader int32, start int64, batches ...batch) {
		r := kmsg.NewPtrWriteShareGroupStateRequest()
		r.GroupID = group
		r.Topics = []kmsg.WriteShareGroupStateRequestTopic{{TopicID: s.id, Partitions: []kmsg.WriteShareGroupStateRequestTopicPartition{
			{Partition: 0, StateEpoch: state, LeaderEpoch: leader, StartOffset: start, DeliveryCompleteCount: 1, StateBatches: batches}}}}
		s.ask("share state: write, "+name, 1, r)
	}
	remove := func(name, group string, id [16]byte, partition int32) {
		r := kmsg.NewPtrDeleteShareGroupStateRequest()
		r.GroupID = group
		r.Topics = []kmsg.DeleteShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.DeleteShareGroupStateRequestTopicPartition{{Partition: partition}}}}
		s.ask("share state: delete, "+name, 0, r)
	}
	other := [16]byte{9}
	initialize("no group", "", s.id, 0, 1, 0)
	initialize("unknown topic", "s", other, 0, 1, 0)
	initialize("unknown partition", "s", s.id, 9, 1, 0)
	summary("none", "s", s.id, 0, 0)
	remove("none", "s", s.id, 0)
	initialize("first", "s", s.id, 0, 1, 4)
	initialize("again", "s", s.id, 0, 1, 4)
	initialize("an older epoch", "s", s.id, 0, 0, 4)
	summary("initialized", "s", s.id, 0, 0)
	read("initialized", "s", s.id, 0, 2)
	read("an older leader", "s", s.id, 0, 1)
	write("an older leader", "s", 1, 1, 5)
	write("a newer leader", "s", 1, 3, 5)
	write("an older state", "s", 0, 3, 5)
	write("a newer state", "s", 2, 3, 5)
	write("batches", "s", 1, 3, 5, batch{FirstOffset: 5, LastOffset: 7, DeliveryState: 0, DeliveryCount: 2}, batch{FirstOffset: 8, LastOffset: 8, DeliveryState: 2, DeliveryCount: 1})
	read("batches", "s", s.id, 0, 3)
	write("over these", "s", 1, 3, 6, batch{FirstOffset: 7, LastOffset: 7, DeliveryState: 4, DeliveryCount: 3})
	write("start is not told", "s", 1, 3, -1, batch{FirstOffset: 9, LastOffset: 9, DeliveryState: 2, DeliveryCount: 1})
	read("over these", "s", s.id, 0, 3)
	summary("written", "s", s.id, 0, 3)
	write("no group", "", 1, 3, 5)
	read("no group", "", s.id, 0, 3)
	summary("no group", "", s.id, 0, 3)
	remove("no group", "", s.id, 0)
	remove("unknown partition", "s", s.id, 9)
	remove("some", "s", s.id, 0)
	remove("again", "s", s.id, 0)
	summary("deleted", "s", s.id, 0, 3)
}
