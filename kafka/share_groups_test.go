package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share"
)

// A sharer is a member of a share group that sends its requests itself, on a connection of its
// own.
type sharer struct {
	*client
	group, id string
	topic     [16]byte
	epoch     int32 // of the next request of its session
}

func newSharer(t *testing.T, addr, id string, topic [16]byte) *sharer {
	return &sharer{client: dial(t, addr), group: "g", id: id, topic: topic}
}

func (s *sharer) beat(epoch int32, topics ...string) *kmsg.ShareGroupHeartbeatResponse {
	s.t.Helper()
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.Version, req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = 1, s.group, s.id, epoch, topics
	return s.ask(req).(*kmsg.ShareGroupHeartbeatResponse)
}

// A said acknowledges a range of records of partition 0.
type said struct {
	first, last int64
	what        int8
}

// fetch acquires records of partition 0.
func (s *sharer) fetch(edit func(*kmsg.ShareFetchRequest), acks ...said) *kmsg.ShareFetchResponse {
	s.t.Helper()
	req := kmsg.NewPtrShareFetchRequest()
	req.Version, req.GroupID, req.MemberID, req.ShareSessionEpoch = 2, &s.group, &s.id, s.epoch
	req.MinBytes, req.MaxBytes, req.MaxRecords, req.ShareAcquireMode = 1, 1<<20, 100, 1
	if s.epoch == 0 || len(acks) > 0 {
		rt, rp := kmsg.NewShareFetchRequestTopic(), kmsg.NewShareFetchRequestTopicPartition()
		for _, a := range acks {
			rp.AcknowledgementBatches = append(rp.AcknowledgementBatches, kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{FirstOffset: a.first, LastOffset: a.last, AcknowledgeTypes: []int8{a.what}})
		}
		rt.TopicID, rt.Partitions = s.topic, append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
	}
	if edit != nil {
		edit(req)
	}
	resp := s.ask(req).(*kmsg.ShareFetchResponse)
	if resp.ErrorCode == 0 {
		s.epoch++
	}
	return resp
}

// acknowledge acknowledges records of partition 0. It returns the error codes of the answer and of
// the partition.
func (s *sharer) acknowledge(epoch int32, acks ...said) (code, partition Code) {
	s.t.Helper()
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.Version, req.GroupID, req.MemberID, req.ShareSessionEpoch = 2, &s.group, &s.id, epoch
	rt, rp := kmsg.NewShareAcknowledgeRequestTopic(), kmsg.NewShareAcknowledgeRequestTopicPartition()
	for _, a := range acks {
		rp.AcknowledgementBatches = append(rp.AcknowledgementBatches, kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{FirstOffset: a.first, LastOffset: a.last, AcknowledgeTypes: []int8{a.what}})
	}
	rt.TopicID, rt.Partitions = s.topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp := s.ask(req).(*kmsg.ShareAcknowledgeResponse)
	if resp.ErrorCode != 0 {
		return Code(resp.ErrorCode), 0
	}
	s.epoch++
	return 0, Code(resp.Topics[0].Partitions[0].ErrorCode)
}

// got returns the ranges of partition 0 that an answer has acquired, with their delivery counts.
func got(resp *kmsg.ShareFetchResponse) (all [][3]int64) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			for _, a := range p.AcquiredRecords {
				all = append(all, [3]int64{a.FirstOffset, a.LastOffset, int64(a.DeliveryCount)})
			}
		}
	}
	return all
}

// shareTopic serves a topic of n records from which a share group starts, and returns its id.
func shareTopic(t *testing.T, n int) (s *Server, addr string, id [16]byte) {
	s, addr = serve(t, Config{})
	createTopic(t, addr, "jobs", 1)
	for range n {
		require.Zero(t, ask[*kmsg.ProduceResponse](t, addr, 9, produceOne(9, "jobs", batch("k", "v"))).Topics[0].Partitions[0].ErrorCode)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"g"}
	require.Zero(t, ask[*kmsg.FindCoordinatorResponse](t, addr, 6, find).Coordinators[0].ErrorCode)
	require.Zero(t, askAlter(t, addr, resourceGroup, "g", kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "share.auto.offset.reset", Value: kmsg.StringPtr("earliest")}))
	found, ok := s.cluster.TopicID("jobs")
	require.True(t, ok)
	return s, addr, found
}

// Checklist row S16.
func TestFranzGoWorksAtAQueue(t *testing.T) {
	_, addr, _ := shareTopic(t, 20)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ShareGroup("g"), kgo.ConsumeTopics("jobs"), kgo.FetchMaxWait(100*time.Millisecond))
	require.NoError(t, err)
	defer cl.Close()
	seen := map[int64]int{}
	for done := 0; done < 20; {
		fetches := cl.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if seen[r.Offset]++; r.Offset%5 == 3 && seen[r.Offset] == 1 {
				r.Ack(kgo.AckRelease)
				return
			}
			r.Ack(kgo.AckAccept)
			done++
		})
	}
	for offset := range int64(20) {
		want := 1
		if offset%5 == 3 {
			want = 2
		}
		require.Equal(t, want, seen[offset], "offset %d", offset)
	}
}

// A partition without acknowledgements is in the answer only if it does not exist.
func TestAcknowledgingNothingOfAPartitionThatIsNoneIsAnError(t *testing.T) {
	_, addr, id := shareTopic(t, 1)
	one := newSharer(t, addr, "one", id)
	require.Zero(t, one.beat(0, "jobs").ErrorCode)
	one.fetch(nil)
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.Version, req.GroupID, req.MemberID, req.ShareSessionEpoch = 2, &one.group, &one.id, one.epoch
	for _, of := range []sharePart{{id, 0}, {id, 7}, {[16]byte{7}, 0}} {
		rt, rp := kmsg.NewShareAcknowledgeRequestTopic(), kmsg.NewShareAcknowledgeRequestTopicPartition()
		rp.Partition, rt.TopicID = of.number, of.id
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
	}
	var codes []Code
	for _, rt := range one.ask(req).(*kmsg.ShareAcknowledgeResponse).Topics {
		for _, p := range rt.Partitions {
			codes = append(codes, Code(p.ErrorCode))
		}
	}
	require.Equal(t, []Code{UnknownTopicOrPartition, UnknownTopicID}, codes)
}

// Checklist row S16.
func TestMembersOfAShareGroupHaveTheirOwnRecordsUntilTheySayWhatCameOfThem(t *testing.T) {
	_, addr, id := shareTopic(t, 6)
	one, two := newSharer(t, addr, "one", id), newSharer(t, addr, "two", id)
	require.Len(t, one.beat(0, "jobs").Assignment.TopicPartitions, 1)
	require.Zero(t, two.beat(0, "jobs").ErrorCode)

	limit := func(n int32) func(*kmsg.ShareFetchRequest) {
		return func(r *kmsg.ShareFetchRequest) { r.MaxRecords = n }
	}
	first := one.fetch(limit(4))
	require.Equal(t, [][3]int64{{0, 3, 1}}, got(first))
	require.EqualValues(t, 30_000, first.AcquisitionLockTimeoutMillis)
	require.Equal(t, [][3]int64{{4, 5, 1}}, got(two.fetch(nil)))
	require.Empty(t, got(two.fetch(nil)), "all records are with somebody")

	_, code := two.acknowledge(two.epoch, said{0, 0, 1})
	require.Equal(t, InvalidRecordState, code, "it is the other one's")
	_, code = one.acknowledge(one.epoch, said{0, 0, 1}, said{1, 1, 2}, said{2, 2, 3})
	require.Zero(t, code)
	_, code = one.acknowledge(one.epoch, said{2, 2, 1})
	require.Equal(t, InvalidRecordState, code, "it was rejected")
	require.Equal(t, [][3]int64{{1, 1, 2}}, got(two.fetch(nil)), "what was released")
	both := one.fetch(nil, said{3, 3, 2})
	require.Zero(t, both.Topics[0].Partitions[0].AcknowledgeErrorCode)
	require.Equal(t, [][3]int64{{3, 3, 2}}, got(both), "it says what came of records, and takes others, in one request")
	_, code = two.acknowledge(two.epoch, said{4, 5, 2}, said{1, 1, 1})
	require.Equal(t, InvalidRequest, code, "they are not by offset")
	_, code = two.acknowledge(two.epoch, said{1, 1, 1}, said{4, 5, 2})
	require.Zero(t, code)
	parts := one.fetch(func(r *kmsg.ShareFetchRequest) { r.BatchSize, r.ShareAcquireMode = 1, 0 })
	require.Equal(t, [][3]int64{{4, 4, 2}, {5, 5, 2}}, got(parts), "in parts of BatchSize")

	renew := one.fetch(nil, said{4, 4, 4})
	require.EqualValues(t, InvalidRequest, renew.Topics[0].Partitions[0].AcknowledgeErrorCode, "it does not say that it renews")
	renew = one.fetch(func(r *kmsg.ShareFetchRequest) { r.IsRenewAck = true }, said{4, 4, 4})
	require.EqualValues(t, InvalidRequest, renew.ErrorCode, "who renews fetches nothing")
	renew = one.fetch(func(r *kmsg.ShareFetchRequest) {
		r.IsRenewAck, r.MinBytes, r.MaxBytes, r.MaxRecords = true, 0, 0, 0
	}, said{4, 4, 4})
	require.Zero(t, renew.Topics[0].Partitions[0].AcknowledgeErrorCode)
	require.Zero(t, one.beat(-1).ErrorCode)
}

// Checklist row S16: batches that other members will acquire are not sent.
func TestAMemberIsSentTheBatchesOfWhatItHasAcquiredOnly(t *testing.T) {
	_, addr, id := shareTopic(t, 6)
	one := newSharer(t, addr, "one", id)
	require.Zero(t, one.beat(0, "jobs").ErrorCode)
	bases := func(resp *kmsg.ShareFetchResponse) (all []int64) {
		for b := resp.Topics[0].Partitions[0].Records; len(b) > 0; {
			parsed, n, err := record.Parse(b)
			require.NoError(t, err)
			all = append(all, parsed.BaseOffset)
			b = b[n:]
		}
		return all
	}
	two := func(r *kmsg.ShareFetchRequest) { r.MaxRecords, r.BatchSize = 2, 1 }
	first := one.fetch(two)
	require.Equal(t, []int64{0, 1}, bases(first))
	require.Equal(t, [][3]int64{{0, 1, 1}}, got(first), "BatchSize is about whole batches only")
	require.Equal(t, []int64{2, 3}, bases(one.fetch(two)))
	_, code := one.acknowledge(one.epoch, said{0, 1, 1}, said{2, 2, 2})
	require.Zero(t, code)
	all := one.fetch(nil)
	require.Equal(t, [][3]int64{{2, 2, 2}, {4, 5, 1}}, got(all))
	require.Equal(t, []int64{2, 3, 4, 5}, bases(all), "from the first to the last, also what is in between")
}

// Checklist row S13.
func TestNamesOfShareGroupsAndMembersAreNotBlankNorTooLong(t *testing.T) {
	_, addr, id := shareTopic(t, 1)
	for _, blank := range []string{"", " ", "\t \n", "\x00"} {
		s := newSharer(t, addr, blank, id)
		require.EqualValues(t, InvalidRequest, s.beat(0, "jobs").ErrorCode, "%q", blank)
		s = newSharer(t, addr, "one", id)
		s.group = blank
		require.EqualValues(t, InvalidRequest, s.beat(0, "jobs").ErrorCode, "%q", blank)
	}
	require.Zero(t, newSharer(t, addr, " a ", id).beat(0, "jobs").ErrorCode)
	require.Zero(t, newSharer(t, addr, strings.Repeat("x", 36), id).beat(0, "jobs").ErrorCode)
	require.EqualValues(t, InvalidRequest, newSharer(t, addr, strings.Repeat("x", 37), id).beat(0, "jobs").ErrorCode)
}

// Checklist row S20.
func TestAShareGroupIsHandedCommittedRecordsWhereThatIsWanted(t *testing.T) {
	for level, want := range map[string][][3]int64{"": {{0, 1, 1}}, "read_uncommitted": {{0, 1, 1}}, "read_committed": {{0, 0, 1}}} {
		_, addr, id := shareTopic(t, 1)
		if level != "" {
			require.Zero(t, askAlter(t, addr, resourceGroup, "g", kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "share.isolation.level", Value: &level}))
		}
		p, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID("p"), kgo.DefaultProduceTopic("jobs"))
		require.NoError(t, err)
		require.NoError(t, p.BeginTransaction())
		require.NoError(t, p.ProduceSync(t.Context(), kgo.StringRecord("aborted")).FirstErr())
		require.NoError(t, p.EndTransaction(t.Context(), kgo.TryAbort))
		p.Close()
		one := newSharer(t, addr, "one", id)
		require.Zero(t, one.beat(0, "jobs").ErrorCode)
		require.Equal(t, want, got(one.fetch(nil)), level)
	}
}

// Checklist row S21.
func TestAShareGroupGoesByItsOwnConfiguration(t *testing.T) {
	_, addr, id := shareTopic(t, 102)
	configured := func(key, value string) {
		t.Helper()
		require.Zero(t, askAlter(t, addr, resourceGroup, "g", kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Value: &value}))
	}
	configured("share.heartbeat.interval.ms", "6000")
	configured("share.partition.max.record.locks", "100")
	one := newSharer(t, addr, "one", id)
	require.EqualValues(t, 6000, one.beat(0, "jobs").HeartbeatIntervalMillis)
	many := func(r *kmsg.ShareFetchRequest) { r.MaxRecords = 1000 }
	last := func(resp *kmsg.ShareFetchResponse) [3]int64 { all := got(resp); return all[len(all)-1] }
	first := one.fetch(many)
	require.EqualValues(t, 30000, first.AcquisitionLockTimeoutMillis)
	require.EqualValues(t, 99, last(first)[1], "no more than 100 at a time")

	// a change counts from the next request on
	configured("share.record.lock.duration.ms", "17000")
	configured("share.delivery.count.limit", "2")
	again := one.fetch(many, said{0, 99, 2})
	require.EqualValues(t, 17000, again.AcquisitionLockTimeoutMillis)
	require.Equal(t, [3]int64{0, 99, 2}, last(again), "released, so that they are handed out a second time")
	third := one.fetch(many, said{0, 99, 2})
	require.Equal(t, [][3]int64{{100, 101, 1}}, got(third), "and not a third time")

	renew := func(r *kmsg.ShareFetchRequest) {
		r.IsRenewAck, r.MinBytes, r.MaxBytes, r.MaxRecords, r.MaxWaitMillis = true, 0, 0, 0, 0
	}
	require.Zero(t, one.fetch(renew, said{100, 100, 4}).Topics[0].Partitions[0].AcknowledgeErrorCode)
	configured("share.renew.acknowledge.enable", "false")
	refused := one.fetch(renew, said{100, 100, 4}).Topics[0].Partitions[0]
	require.Equal(t, InvalidRecordState, Code(refused.AcknowledgeErrorCode))
	require.Equal(t, "Renewing acquisition locks is not enabled for the group.", *refused.AcknowledgeErrorMessage)
}

// Checklist row S17.
func TestShareSessionsBeginGoOnAndEndAsInKafka(t *testing.T) {
	_, addr, id := shareTopic(t, 2)
	one, two := newSharer(t, addr, "one", id), newSharer(t, addr, "two", id)
	require.Zero(t, one.beat(0, "jobs").ErrorCode)
	code := func(resp *kmsg.ShareFetchResponse) Code { return Code(resp.ErrorCode) }
	at := func(epoch int32) func(*kmsg.ShareFetchRequest) {
		return func(r *kmsg.ShareFetchRequest) { r.ShareSessionEpoch = epoch }
	}
	require.Equal(t, ShareSessionNotFound, code(one.fetch(at(1))))
	require.Equal(t, ShareSessionNotFound, code(one.fetch(at(-1))))
	require.Equal(t, InvalidRequest, code(one.fetch(nil, said{0, 0, 1})), "there is nothing to acknowledge yet")
	top, _ := one.acknowledge(0, said{0, 0, 1})
	require.Equal(t, InvalidShareSessionEpoch, top)
	top, _ = one.acknowledge(1, said{0, 0, 1})
	require.Equal(t, ShareSessionNotFound, top)
	none := ""
	require.Equal(t, InvalidRequest, code(one.fetch(func(r *kmsg.ShareFetchRequest) { r.MemberID = &none })))
	require.Equal(t, InvalidRequest, code(one.fetch(func(r *kmsg.ShareFetchRequest) { r.GroupID = nil })))
	long := newSharer(t, addr, strings.Repeat("m", 37), id)
	require.Equal(t, InvalidRequest, code(long.fetch(nil)), "the id of a member is 36 bytes at most")
	top, _ = long.acknowledge(1, said{0, 0, 1})
	require.Equal(t, InvalidRequest, top)

	require.Equal(t, [][3]int64{{0, 1, 1}}, got(one.fetch(nil)))
	require.Equal(t, InvalidShareSessionEpoch, code(one.fetch(at(5))))
	require.Zero(t, code(one.fetch(nil)))
	gone := one.fetch(func(r *kmsg.ShareFetchRequest) {
		r.ForgottenTopicsData = append(r.ForgottenTopicsData, kmsg.ShareFetchRequestForgottenTopicsData{TopicID: id, Partitions: []int32{0}})
	})
	require.Zero(t, code(gone))
	top, part := one.acknowledge(one.epoch, said{0, 0, 2})
	require.Equal(t, []Code{0, 0}, []Code{top, part})
	require.Empty(t, got(one.fetch(nil)), "it takes nothing of a partition that it has forgotten")
	require.Equal(t, [][3]int64{{0, 0, 2}}, got(two.fetch(nil)))

	last := one.fetch(at(-1), said{1, 1, 2})
	require.Zero(t, code(last))
	require.Equal(t, [][3]int64{{1, 1, 2}}, got(two.fetch(nil)), "the last request says what came of records, too")
	require.Equal(t, ShareSessionNotFound, code(one.fetch(at(one.epoch))))
}

// Checklist row S17.
func TestRecordsOfAMemberThatHasGoneAreAnothersAtOnce(t *testing.T) {
	_, addr, id := shareTopic(t, 2)
	one, two := newSharer(t, addr, "one", id), newSharer(t, addr, "two", id)
	require.Zero(t, one.beat(0, "jobs").ErrorCode)
	require.Equal(t, [][3]int64{{0, 1, 1}}, got(one.fetch(nil)))
	require.Empty(t, got(two.fetch(nil)))
	one.nc.Close()
	wait := func(r *kmsg.ShareFetchRequest) { r.MaxWaitMillis = 20_000 }
	require.Equal(t, [][3]int64{{0, 1, 2}}, got(two.fetch(wait)), "its lock would last 30 s; the delivery counts")

	three := newSharer(t, addr, "three", id)
	require.Empty(t, got(three.fetch(nil)))
	top, _ := two.acknowledge(-1, said{0, 0, 1})
	require.Zero(t, top)
	require.Equal(t, [][3]int64{{1, 1, 3}}, got(three.fetch(wait)), "a session that is closed gives back what it has")
}

// Checklist row S17: a record that ends every connection it is delivered to is archived.
func TestARecordThatEveryConnectionEndsWithIsGivenUp(t *testing.T) {
	_, addr, id := shareTopic(t, 1)
	last := newSharer(t, addr, "last", id)
	require.Zero(t, last.beat(0, "jobs").ErrorCode)
	wait := func(r *kmsg.ShareFetchRequest) { r.MaxWaitMillis = 20_000 }
	for n := range int64(5) {
		one := newSharer(t, addr, "member-"+string(rune('0'+n)), id)
		require.Equal(t, [][3]int64{{0, 0, n + 1}}, got(one.fetch(wait)))
		one.nc.Close()
	}
	require.Zero(t, ask[*kmsg.ProduceResponse](t, addr, 9, produceOne(9, "jobs", batch("k", "v"))).Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, [][3]int64{{1, 1, 1}}, got(last.fetch(wait)))
	require.Empty(t, got(last.fetch(nil)))
}

// Checklist row S18.
func TestOffsetsOfShareGroupsAreDescribedAlteredAndDeleted(t *testing.T) {
	_, addr, id := shareTopic(t, 4)
	one := newSharer(t, addr, "one", id)
	require.Zero(t, one.beat(0, "jobs").ErrorCode)
	require.Equal(t, [][3]int64{{0, 3, 1}}, got(one.fetch(nil)))
	_, code := one.acknowledge(one.epoch, said{0, 0, 1}, said{2, 2, 1})
	require.Zero(t, code)
	describe := func() (all [][3]int64) {
		req, g := kmsg.NewPtrDescribeShareGroupOffsetsRequest(), kmsg.NewDescribeShareGroupOffsetsRequestGroup()
		g.GroupID = "g"
		req.Groups = append(req.Groups, g)
		resp := ask[*kmsg.DescribeShareGroupOffsetsResponse](t, addr, 1, req)
		require.Zero(t, resp.Groups[0].ErrorCode)
		for _, rt := range resp.Groups[0].Topics {
			for _, p := range rt.Partitions {
				all = append(all, [3]int64{int64(p.Partition), p.StartOffset, p.Lag})
			}
		}
		return all
	}
	require.Equal(t, [][3]int64{{0, 1, 2}}, describe(), "offset 2 is done, 1 and 3 are not")
	alter := func(p int32, to int64) (Code, Code) {
		req, rt := kmsg.NewPtrAlterShareGroupOffsetsRequest(), kmsg.NewAlterShareGroupOffsetsRequestTopic()
		rt.Topic, rt.Partitions = "jobs", []kmsg.AlterShareGroupOffsetsRequestTopicPartition{{Partition: p, StartOffset: to}}
		req.GroupID, req.Topics = "g", append(req.Topics, rt)
		resp := ask[*kmsg.AlterShareGroupOffsetsResponse](t, addr, 0, req)
		if resp.ErrorCode != 0 {
			return Code(resp.ErrorCode), 0
		}
		return 0, Code(resp.Topics[0].Partitions[0].ErrorCode)
	}
	remove := func() (Code, Code) {
		req, rt := kmsg.NewPtrDeleteShareGroupOffsetsRequest(), kmsg.NewDeleteShareGroupOffsetsRequestTopic()
		rt.Topic = "jobs"
		req.GroupID, req.Topics = "g", append(req.Topics, rt)
		resp := ask[*kmsg.DeleteShareGroupOffsetsResponse](t, addr, 0, req)
		if resp.ErrorCode != 0 {
			return Code(resp.ErrorCode), 0
		}
		return 0, Code(resp.Topics[0].ErrorCode)
	}
	top, _ := alter(0, 3)
	require.Equal(t, NonEmptyGroup, top)
	top, _ = remove()
	require.Equal(t, NonEmptyGroup, top)
	require.Zero(t, one.beat(-1).ErrorCode)
	_, part := alter(7, 3)
	require.Equal(t, UnknownTopicOrPartition, part)
	top, part = alter(0, 3)
	require.Equal(t, []Code{0, 0}, []Code{top, part})
	require.Equal(t, [][3]int64{{0, 3, 1}}, describe())
	require.Equal(t, [][3]int64{{3, 3, 1}}, got(one.fetch(nil)), "whoever handed records out before does not")
	top, part = remove()
	require.Equal(t, []Code{0, 0}, []Code{top, part})
	require.Empty(t, describe())
	_, part = remove()
	require.Equal(t, UnknownTopicOrPartition, part)
}

// Checklist row S18.
func TestStatesOfSharePartitionsAreServedAndFenced(t *testing.T) {
	_, addr, id := shareTopic(t, 1)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorType, find.CoordinatorKeys = coordinatorShare, []string{"g", share.Key{Group: "g", TopicID: id}.ID()}
	found := ask[*kmsg.FindCoordinatorResponse](t, addr, 6, find).Coordinators
	require.Equal(t, []int16{int16(InvalidRequest), 0}, []int16{found[0].ErrorCode, found[1].ErrorCode})
	for version := range int16(6) {
		if find.CoordinatorKey = find.CoordinatorKeys[1]; version == 0 {
			continue // version 0 finds the coordinator of a group
		}
		old := ask[*kmsg.FindCoordinatorResponse](t, addr, version, find)
		if version >= 4 {
			old.ErrorCode = old.Coordinators[1].ErrorCode
		}
		require.Equal(t, InvalidRequest, Code(old.ErrorCode), "version %d", version)
	}
	begin := func(epoch int32) Code {
		req := kmsg.NewPtrInitializeShareGroupStateRequest()
		req.GroupID, req.Topics = "g", []kmsg.InitializeShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.InitializeShareGroupStateRequestTopicPartition{{StateEpoch: epoch, StartOffset: 5}}}}
		return Code(ask[*kmsg.InitializeShareGroupStateResponse](t, addr, 0, req).Topics[0].Partitions[0].ErrorCode)
	}
	read := func(epoch int32) kmsg.ReadShareGroupStateResponseTopicPartition {
		req := kmsg.NewPtrReadShareGroupStateRequest()
		req.GroupID, req.Topics = "g", []kmsg.ReadShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.ReadShareGroupStateRequestTopicPartition{{LeaderEpoch: epoch}}}}
		return ask[*kmsg.ReadShareGroupStateResponse](t, addr, 0, req).Topics[0].Partitions[0]
	}
	write := func(leader, state int32, batches ...kmsg.WriteShareGroupStateRequestTopicPartitionStateBatch) Code {
		req, p := kmsg.NewPtrWriteShareGroupStateRequest(), kmsg.NewWriteShareGroupStateRequestTopicPartition()
		p.LeaderEpoch, p.StateEpoch, p.StartOffset, p.StateBatches, p.DeliveryCompleteCount = leader, state, 6, batches, 2
		req.GroupID, req.Topics = "g", []kmsg.WriteShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.WriteShareGroupStateRequestTopicPartition{p}}}
		return Code(ask[*kmsg.WriteShareGroupStateResponse](t, addr, 1, req).Topics[0].Partitions[0].ErrorCode)
	}
	require.Equal(t, []any{InvalidRequest, InvalidRequest}, []any{Code(read(0).ErrorCode), write(0, 0)}, "there is none")
	require.Zero(t, begin(3))
	require.Equal(t, FencedStateEpoch, begin(2))
	require.Zero(t, read(4).ErrorCode)
	require.Equal(t, []any{FencedLeaderEpoch, FencedLeaderEpoch, FencedStateEpoch}, []any{Code(read(3).ErrorCode), write(3, 3), write(4, 2)})
	batch := kmsg.WriteShareGroupStateRequestTopicPartitionStateBatch{FirstOffset: 6, LastOffset: 7, DeliveryState: 2, DeliveryCount: 1}
	require.Equal(t, InvalidRequest, write(4, 3, batch, batch))
	require.Zero(t, write(4, 3, batch))
	now := read(4)
	require.Equal(t, []any{int32(3), int64(6), 1, int8(2)}, []any{now.StateEpoch, now.StartOffset, len(now.StateBatches), now.StateBatches[0].DeliveryState})
	sum := kmsg.NewPtrReadShareGroupStateSummaryRequest()
	sum.GroupID, sum.Topics = "g", []kmsg.ReadShareGroupStateSummaryRequestTopic{{TopicID: id, Partitions: []kmsg.ReadShareGroupStateSummaryRequestTopicPartition{{}}}}
	of := ask[*kmsg.ReadShareGroupStateSummaryResponse](t, addr, 1, sum).Topics[0].Partitions[0]
	require.Equal(t, []any{int64(6), int32(2), int32(4)}, []any{of.StartOffset, of.DeliveryCompleteCount, of.LeaderEpoch})
	del := kmsg.NewPtrDeleteShareGroupStateRequest()
	del.GroupID, del.Topics = "g", []kmsg.DeleteShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.DeleteShareGroupStateRequestTopicPartition{{}}}}
	require.Zero(t, ask[*kmsg.DeleteShareGroupStateResponse](t, addr, 0, del).Topics[0].Partitions[0].ErrorCode)
	require.EqualValues(t, InvalidRequest, read(5).ErrorCode)
}
