package kafkatest

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/errorreply"
	"github.com/stratalog/strata/kafka"
)

// served are the APIs that a Server serves. TestServedAPIsAreAllTested compares the list with a
// server.
var served = []kafka.Key{kafka.Produce, kafka.Fetch, kafka.ListOffsets, kafka.Metadata, kafka.OffsetCommit, kafka.OffsetFetch,
	kafka.FindCoordinator, kafka.JoinGroup, kafka.Heartbeat, kafka.LeaveGroup, kafka.SyncGroup, kafka.DescribeGroups, kafka.ListGroups,
	kafka.ApiVersions, kafka.CreateTopics, kafka.DeleteTopics, kafka.DeleteRecords, kafka.InitProducerID, kafka.OffsetForLeaderEpoch,
	kafka.DescribeConfigs, kafka.AlterConfigs, kafka.DescribeLogDirs, kafka.CreatePartitions, kafka.DeleteGroups, kafka.ElectLeaders,
	kafka.IncrementalAlterConfigs, kafka.AlterPartitionReassignments, kafka.ListPartitionReassignments, kafka.OffsetDelete, kafka.DescribeQuorum, kafka.UpdateFeatures,
	kafka.DescribeCluster, kafka.DescribeProducers, kafka.GetTelemetrySubscriptions, kafka.PushTelemetry, kafka.ListConfigResources,
	kafka.DescribeTopicPartitions, kafka.AddPartitionsToTxn, kafka.AddOffsetsToTxn, kafka.EndTxn, kafka.WriteTxnMarkers, kafka.TxnOffsetCommit,
	kafka.DescribeTransactions, kafka.ListTransactions, kafka.SaslHandshake, kafka.SaslAuthenticate, kafka.DescribeUserScramCredentials, kafka.AlterUserScramCredentials,
	kafka.CreateDelegationToken, kafka.RenewDelegationToken, kafka.ExpireDelegationToken, kafka.DescribeDelegationToken,
	kafka.DescribeACLs, kafka.CreateACLs, kafka.DeleteACLs, kafka.DescribeClientQuotas, kafka.AlterClientQuotas, kafka.ConsumerGroupHeartbeat, kafka.ConsumerGroupDescribe,
	kafka.ShareGroupHeartbeat, kafka.ShareGroupDescribe, kafka.ShareFetch, kafka.ShareAcknowledge, kafka.InitializeShareGroupState, kafka.ReadShareGroupState,
	kafka.WriteShareGroupState, kafka.DeleteShareGroupState, kafka.ReadShareGroupStateSummary, kafka.DescribeShareGroupOffsets, kafka.AlterShareGroupOffsets, kafka.DeleteShareGroupOffsets,
	kafka.StreamsGroupHeartbeat, kafka.StreamsGroupDescribe}

// eachVersion runs f for every served API and version. The request names two of each resource.
func eachVersion(t *testing.T, f func(t *testing.T, req kmsg.Request)) {
	for _, key := range served {
		for v := int16(0); v <= kmsg.RequestForKey(int16(key)).MaxVersion(); v++ {
			t.Run(fmt.Sprintf("%s v%d", key, v), func(t *testing.T) { f(t, sampleRequest(t, key, v)) })
		}
	}
}

// sampleRequest returns a request as the server decodes it. It names two topics of two partitions
// each, two groups and two resources.
func sampleRequest(t *testing.T, key kafka.Key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(int16(key))
	req.SetVersion(version)
	fill(reflect.ValueOf(req).Elem(), 0)
	return reread(t, req, kmsg.RequestForKey(int16(key)))
}

// reread encodes a message and decodes it, so that only the fields of its version remain.
func reread[M interface {
	AppendTo([]byte) []byte
	ReadFrom([]byte) error
	SetVersion(int16)
	GetVersion() int16
}](t *testing.T, m, empty M) M {
	p := m.AppendTo(nil)
	empty.SetVersion(m.GetVersion())
	require.NoError(t, empty.ReadFrom(p))
	require.Equal(t, p, empty.AppendTo(nil))
	return empty
}

// fill sets the fields that name things. i numbers the elements of a list.
func fill(v reflect.Value, i int) {
	if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
		d.Default()
	}
	for j := range v.NumField() {
		f, name := v.Field(j), v.Type().Field(j).Name
		switch {
		case name == "UnknownTags" || name == "ForgottenTopics":
		case name == "TopicID":
			f.Set(reflect.ValueOf([16]byte{1, byte(i)}))
		case name == "ResourceType":
			f.SetInt(int64(resourceTopic))
		case name == "Partition":
			f.SetInt(int64(i))
		case f.Kind() == reflect.String:
			f.SetString(fmt.Sprintf("%s-%d", name, i))
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.String:
			s := fmt.Sprintf("%s-%d", name, i)
			f.Set(reflect.ValueOf(&s))
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() != reflect.Uint8:
			for k := range 2 {
				elem := reflect.New(f.Type().Elem()).Elem()
				switch elem.Kind() {
				case reflect.Struct:
					fill(elem, k)
				case reflect.String:
					elem.SetString(fmt.Sprintf("%s-%d", name, k))
				default:
					elem.SetInt(int64(k))
				}
				f.Set(reflect.Append(f, elem))
			}
		}
	}
}

func TestErrorResponseIsWellFormedInEveryVersion(t *testing.T) {
	eachVersion(t, func(t *testing.T, req kmsg.Request) {
		for _, code := range []kafka.Code{kafka.UnknownServerError, kafka.NotLeaderOrFollower, kafka.NotCoordinator, kafka.FetchSessionIDNotFound} {
			for _, part := range []bool{false, true} {
				resp := reread(t, errorResponse(req, code, part), req.ResponseKind())
				if kafka.Key(req.Key()) == kafka.Fetch && req.GetVersion() < 7 && code == kafka.FetchSessionIDNotFound {
					continue // versions without sessions have no field for it
				}
				if kafka.Key(req.Key()) == kafka.ListPartitionReassignments || code == kafka.FetchSessionIDNotFound && part {
					continue
				}
				require.Equal(t, []kafka.Code{code}, Codes(resp), "part: %v", part)
			}
		}
	})
}

func TestErrorResponseAnswersForEveryTarget(t *testing.T) {
	eachVersion(t, func(t *testing.T, req kmsg.Request) {
		resp := errorResponse(req, kafka.UnknownTopicOrPartition, false)
		if levelOf(req, kafka.UnknownTopicOrPartition, false) == errorreply.Outermost {
			return
		}
		var answered []target
		answers(reflect.ValueOf(resp).Elem(), target{partition: -1}, &answered)
		var asked []target
		for _, q := range targets(req) {
			// only from version 8 on the answer has the group
			if kafka.Key(req.Key()) != kafka.OffsetFetch {
				q.group = groupOf(resp, q.group)
			} else if req.GetVersion() < 8 {
				q.group = ""
			}
			q.all, q.kind = false, 0
			if !namesTransaction(resp) {
				q.txn = ""
			}
			asked = append(asked, q)
		}
		require.ElementsMatch(t, asked, answered)
	})
}

// namesTransaction reports whether responses like resp name transactional ids.
func namesTransaction(resp kmsg.Response) bool {
	switch a := resp.(type) {
	case *kmsg.DescribeTransactionsResponse:
		return true
	case *kmsg.AddPartitionsToTxnResponse:
		return a.Version >= 4
	}
	return false
}

// groupOf returns group if responses like resp name groups.
func groupOf(resp kmsg.Response, group string) string {
	switch a := resp.(type) {
	case *kmsg.DescribeGroupsResponse, *kmsg.ConsumerGroupDescribeResponse, *kmsg.DeleteGroupsResponse, *kmsg.ShareGroupDescribeResponse, *kmsg.DescribeShareGroupOffsetsResponse,
		*kmsg.StreamsGroupDescribeResponse:
		return group
	case *kmsg.FindCoordinatorResponse:
		if a.Version >= 4 {
			return group
		}
	}
	return ""
}

// answers appends the targets that a response has answers for to found.
func answers(v reflect.Value, ctx target, found *[]target) {
	ctx = ctx.within(v)
	if r, ok := v.Addr().Interface().(*kmsg.FindCoordinatorResponseCoordinator); ok {
		ctx.group = r.Key
	}
	if f := v.FieldByName("ResourceName"); f.IsValid() {
		ctx.topic = f.String()
	}
	leaf := true
	for _, name := range responseLists {
		if f := v.FieldByName(name); f.IsValid() {
			for i := range f.Len() {
				leaf = false
				answers(f.Index(i), ctx, found)
			}
		}
	}
	if leaf {
		*found = append(*found, ctx)
	}
}

func TestSplitTakesRequestsApart(t *testing.T) {
	eachVersion(t, func(t *testing.T, req kmsg.Request) {
		before := req.AppendTo(nil)
		all := targets(req)
		require.NotEmpty(t, all)
		picked, rest := split(req, func(target) bool { return true })
		require.Equal(t, before, picked.AppendTo(nil))
		require.Nil(t, rest)
		picked, rest = split(req, func(target) bool { return false })
		require.Nil(t, picked)
		require.Equal(t, before, rest.AppendTo(nil))
		if len(all) == 1 {
			return
		}
		first := true
		picked, rest = split(req, func(target) bool { defer func() { first = false }(); return first })
		require.Equal(t, all[:1], targets(picked))
		require.Equal(t, all[1:], targets(rest))
		require.Equal(t, before, req.AppendTo(nil), "the request itself has changed")

		// The merged answers to both parts equal the answer to the whole request, in some order.
		whole := errorResponse(req, kafka.UnknownTopicOrPartition, true)
		merged := errorResponse(rest, kafka.UnknownTopicOrPartition, true)
		merge(merged, errorResponse(picked, kafka.UnknownTopicOrPartition, true))
		var want, got []target
		answers(reflect.ValueOf(whole).Elem(), target{partition: -1}, &want)
		answers(reflect.ValueOf(merged).Elem(), target{partition: -1}, &got)
		require.ElementsMatch(t, want, got)
		reread(t, merged, req.ResponseKind())
	})
}

func TestMergePutsErrorsOverAnswers(t *testing.T) {
	served := kmsg.NewPtrProduceResponse()
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic = "a"
	for p := range int32(2) {
		part := kmsg.NewProduceResponseTopicPartition()
		part.Partition, part.BaseOffset = p, 42
		topic.Partitions = append(topic.Partitions, part)
	}
	served.Topics = append(served.Topics, topic)

	req := kmsg.NewPtrProduceRequest()
	q := kmsg.NewProduceRequestTopic()
	q.Topic = "a"
	q.Partitions = append(q.Partitions, kmsg.ProduceRequestTopicPartition{Partition: 1})
	req.Topics = append(req.Topics, q)
	merge(served, errorResponse(req, kafka.NotLeaderOrFollower, true))

	require.Len(t, served.Topics, 1)
	require.Len(t, served.Topics[0].Partitions, 2)
	require.Equal(t, int64(42), served.Topics[0].Partitions[0].BaseOffset)
	require.Equal(t, int16(kafka.NotLeaderOrFollower), served.Topics[0].Partitions[1].ErrorCode)
	require.Equal(t, int64(-1), served.Topics[0].Partitions[1].BaseOffset)
	require.Equal(t, int64(42), topic.Partitions[1].BaseOffset, "what the server holds was changed")
}

func TestGroupErrorsAreAnsweredForTheGroup(t *testing.T) {
	for _, version := range []int16{2, 8} {
		resp := errorResponse(sampleRequest(t, kafka.OffsetFetch, version), kafka.NotCoordinator, false).(*kmsg.OffsetFetchResponse)
		require.Empty(t, resp.Topics)
		require.Equal(t, int16(kafka.NotCoordinator), resp.ErrorCode)
		if version == 8 {
			require.Len(t, resp.Groups, 2)
			require.Equal(t, int16(kafka.NotCoordinator), resp.Groups[1].ErrorCode)
			require.Empty(t, resp.Groups[1].Topics)
		}
	}
	resp := errorResponse(sampleRequest(t, kafka.OffsetFetch, 8), kafka.UnstableOffsetCommit, false).(*kmsg.OffsetFetchResponse)
	require.Zero(t, resp.Groups[0].ErrorCode)
	require.Equal(t, int16(kafka.UnstableOffsetCommit), resp.Groups[0].Topics[1].Partitions[1].ErrorCode)
}

func TestOverwriteSpoilsSelectedAnswersOnly(t *testing.T) {
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = 9
	for _, name := range []string{"a", "b"} {
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic = kmsg.StringPtr(name)
		topic.Partitions = []kmsg.MetadataResponseTopicPartition{{Partition: 0, Leader: 1}, {Partition: 1, Leader: 1}}
		resp.Topics = append(resp.Topics, topic)
	}
	overwrite(resp, kafka.LeaderNotAvailable, ofPartitions, func(t target) bool { return t.topic == "b" && t.partition == 1 })
	require.Equal(t, []kafka.Code{kafka.LeaderNotAvailable}, Codes(resp))
	require.Equal(t, int16(kafka.LeaderNotAvailable), resp.Topics[1].Partitions[1].ErrorCode)
	require.Equal(t, int32(1), resp.Topics[1].Partitions[0].Leader)

	overwrite(resp, kafka.UnknownTopicOrPartition, ofTopics, func(t target) bool { return t.topic == "a" })
	require.Equal(t, int16(kafka.UnknownTopicOrPartition), resp.Topics[0].ErrorCode)
	require.Equal(t, "a", *resp.Topics[0].Topic)
	require.Empty(t, resp.Topics[0].Partitions)
	require.Zero(t, resp.Topics[1].ErrorCode)
	reread(t, resp, kmsg.NewPtrMetadataResponse())
}
