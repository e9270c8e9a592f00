package kafka

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/topic"
)

// offsetGroups serves an empty consumer group, an empty share group and a share group with a
// member. The client has all rights to groups. It may read topic "ok", describe "seen", and has no
// right to "hidden".
func offsetGroups(t *testing.T) (*Server, string) {
	t.Helper()
	s, addr := authorized(t, rights(acl.Group, acl.Wildcard, acl.All), rights(acl.Topic, "ok", acl.All), rights(acl.Topic, "seen", acl.Describe),
		rights(acl.Topic, "absent", acl.Read), rights(acl.TransactionalID, acl.Wildcard, acl.All))
	for _, name := range []string{"ok", "seen", "hidden"} {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), name, topic.Config{}))
	}
	for _, id := range []string{"consumers", "sharers", "full"} { // it makes their topic
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = id
		require.Zero(t, ask[*kmsg.FindCoordinatorResponse](t, addr, 3, find).ErrorCode)
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Generation = "consumers", -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "ok", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{LeaderEpoch: -1}}}}
	require.Zero(t, ask[*kmsg.OffsetCommitResponse](t, addr, 8, commit).Topics[0].Partitions[0].ErrorCode)
	require.Zero(t, alterShares(t, addr, "sharers", "ok", 0).ErrorCode)
	beat := kmsg.NewPtrShareGroupHeartbeatRequest()
	beat.GroupID, beat.MemberID, beat.SubscribedTopicNames = "full", "AAAAAAAAAAAAAAAAAAAAAA", []string{"ok"}
	require.Zero(t, ask[*kmsg.ShareGroupHeartbeatResponse](t, addr, 1, beat).ErrorCode)
	return s, addr
}

// alterShares sets the start offsets of a group in partitions of a topic.
func alterShares(t *testing.T, addr, groupID, name string, partitions ...int32) *kmsg.AlterShareGroupOffsetsResponse {
	t.Helper()
	req, rt := kmsg.NewPtrAlterShareGroupOffsetsRequest(), kmsg.NewAlterShareGroupOffsetsRequestTopic()
	req.GroupID, rt.Topic = groupID, name
	for _, p := range partitions {
		rt.Partitions = append(rt.Partitions, kmsg.AlterShareGroupOffsetsRequestTopicPartition{Partition: p})
	}
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.AlterShareGroupOffsetsResponse](t, addr, 0, req)
}

// saidOf formats an error code and its message.
func saidOf(code int16, text *string) string { return fmt.Sprintf("%d %s", code, orEmpty(text)) }

// The expected answers are those of Kafka 4.3 to a client with these rights.
func TestWhatIsWrongWithAShareGroupIsToldBeforeItsTopics(t *testing.T) {
	s, addr := offsetGroups(t)
	for id, want := range map[string]string{
		"": "24 The group id is invalid.", "consumers": "69 Group consumers is not a share group.", "full": "68 The group is not empty.",
	} {
		for _, partitions := range [][]int32{{0}, nil} {
			resp := alterShares(t, addr, id, "hidden", partitions...)
			require.Equal(t, want, saidOf(resp.ErrorCode, resp.ErrorMessage))
			require.Empty(t, resp.Topics)
		}
		for _, names := range [][]string{{"hidden"}, {"ok"}, {"ok", "hidden"}, nil} {
			req := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
			req.GroupID = id
			for _, name := range names {
				req.Topics = append(req.Topics, kmsg.DeleteShareGroupOffsetsRequestTopic{Topic: name})
			}
			resp := ask[*kmsg.DeleteShareGroupOffsetsResponse](t, addr, 0, req)
			require.Equal(t, want, saidOf(resp.ErrorCode, resp.ErrorMessage), names)
			require.Empty(t, resp.Topics)
		}
	}
	for name, describable := range map[string]bool{"hidden": false, "seen": true} {
		require.Empty(t, alterShares(t, addr, "sharers", name).Topics, "no partition was asked about")
		resp := alterShares(t, addr, "sharers", name, 0)
		require.Zero(t, resp.ErrorCode)
		require.Len(t, resp.Topics, 1)
		require.Equal(t, TopicAuthorizationFailed, Code(resp.Topics[0].Partitions[0].ErrorCode))
		id, _ := s.cluster.TopicID(name)
		require.Equal(t, describable, topic.ID(resp.Topics[0].TopicID) == id)
	}
}

func TestThereMayBeNothingToDeleteOfAShareGroup(t *testing.T) {
	_, addr := offsetGroups(t)
	req := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
	req.GroupID = "sharers"
	said := func(name string) string {
		req.Topics = []kmsg.DeleteShareGroupOffsetsRequestTopic{{Topic: name}}
		resp := ask[*kmsg.DeleteShareGroupOffsetsResponse](t, addr, 0, req)
		require.Zero(t, resp.ErrorCode)
		return saidOf(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage)
	}
	require.Equal(t, "3 This server does not host this topic-partition.", said("absent"))
	require.Equal(t, "0 ", said("ok"))
	require.Equal(t, "3 There is no offset information to delete.", said("ok"), "it is forgotten already")
	require.Equal(t, "29 Topic authorization failed.", said("hidden"))
}

// The topics of the requests have no partitions. A topic that does not exist, or that the client
// may not read, is in the answer all the same; another topic is not. Kafka 4.3 does the same.
func TestTopicsWithoutPartitionsAreAnsweredWhereSomethingIsWrongWithThem(t *testing.T) {
	_, addr := offsetGroups(t)
	var want []string
	commit, txn, remove := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewPtrTxnOffsetCommitRequest(), kmsg.NewPtrOffsetDeleteRequest()
	commit.Group, commit.Generation, txn.Group, remove.Group = "consumers", -1, "consumers", "consumers"
	txn.TransactionalID, txn.Generation = "txn", -1
	for _, name := range []string{"absent", "ok", "hidden"} {
		commit.Topics = append(commit.Topics, kmsg.OffsetCommitRequestTopic{Topic: name})
		txn.Topics = append(txn.Topics, kmsg.TxnOffsetCommitRequestTopic{Topic: name})
		remove.Topics = append(remove.Topics, kmsg.OffsetDeleteRequestTopic{Topic: name})
		if name != "ok" {
			want = append(want, name)
		}
	}
	var got [3][]string
	for _, rt := range ask[*kmsg.OffsetCommitResponse](t, addr, 8, commit).Topics {
		require.Empty(t, rt.Partitions)
		got[0] = append(got[0], rt.Topic)
	}
	for _, rt := range ask[*kmsg.TxnOffsetCommitResponse](t, addr, 3, txn).Topics {
		require.Empty(t, rt.Partitions)
		got[1] = append(got[1], rt.Topic)
	}
	for _, rt := range ask[*kmsg.OffsetDeleteResponse](t, addr, 0, remove).Topics {
		require.Empty(t, rt.Partitions)
		got[2] = append(got[2], rt.Topic)
	}
	for _, names := range got {
		require.Equal(t, want, names)
	}

	records := kmsg.NewPtrDeleteRecordsRequest()
	for _, name := range []string{"absent", "ok", "hidden"} {
		records.Topics = append(records.Topics, kmsg.DeleteRecordsRequestTopic{Topic: name})
	}
	require.Empty(t, ask[*kmsg.DeleteRecordsResponse](t, addr, 2, records).Topics)
}

// The answer has the resources in the order of the request, also the refused ones. A resource that
// the request names twice is in it twice.
func TestResourcesAreAnsweredInTheOrderOfTheRequest(t *testing.T) {
	_, addr := authorized(t, rights(acl.Topic, "a", acl.AlterConfigs), rights(acl.Topic, "b", acl.AlterConfigs), rights(acl.Group, acl.Wildcard, acl.AlterConfigs))
	inc, old := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewPtrAlterConfigsRequest()
	names := []string{"hidden", "b", "a", "also hidden", "b", "hidden", "z"}
	for _, name := range names {
		inc.Resources = append(inc.Resources, kmsg.IncrementalAlterConfigsRequestResource{ResourceType: resourceTopic, ResourceName: name})
		old.Resources = append(old.Resources, kmsg.AlterConfigsRequestResource{ResourceType: resourceTopic, ResourceName: name})
	}
	inc.Resources[6].ResourceType, old.Resources[6].ResourceType = resourceGroup, resourceGroup
	want := []Code{InvalidRequest, InvalidRequest, UnknownTopicOrPartition, TopicAuthorizationFailed, InvalidRequest, InvalidRequest, 0}
	var answered [2][]string
	var codes [2][]Code
	for _, r := range ask[*kmsg.IncrementalAlterConfigsResponse](t, addr, 1, inc).Resources {
		answered[0], codes[0] = append(answered[0], r.ResourceName), append(codes[0], Code(r.ErrorCode))
	}
	for _, r := range ask[*kmsg.AlterConfigsResponse](t, addr, 2, old).Resources {
		answered[1], codes[1] = append(answered[1], r.ResourceName), append(codes[1], Code(r.ErrorCode))
	}
	for i := range answered {
		require.Equal(t, names, answered[i])
		require.Equal(t, want, codes[i])
	}
}
