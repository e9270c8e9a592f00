package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestNamesThatARequestRepeatsAreAnsweredOnce(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		names := []string{"g", "other", "g", "g", "other"}
		for name, answers := range map[string]func() int{
			"DescribeGroups": func() int {
				return len(c.ask(&kmsg.DescribeGroupsRequest{Version: 5, Groups: names}).(*kmsg.DescribeGroupsResponse).Groups)
			},
			"ConsumerGroupDescribe": func() int {
				return len(c.ask(&kmsg.ConsumerGroupDescribeRequest{Version: 1, Groups: names}).(*kmsg.ConsumerGroupDescribeResponse).Groups)
			},
			"ShareGroupDescribe": func() int {
				return len(c.ask(&kmsg.ShareGroupDescribeRequest{Version: 1, GroupIDs: names}).(*kmsg.ShareGroupDescribeResponse).Groups)
			},
			"StreamsGroupDescribe": func() int {
				return len(c.ask(&kmsg.StreamsGroupDescribeRequest{Groups: names}).(*kmsg.StreamsGroupDescribeResponse).Groups)
			},
			"DescribeTransactions": func() int {
				return len(c.ask(&kmsg.DescribeTransactionsRequest{TransactionalIDs: names}).(*kmsg.DescribeTransactionsResponse).TransactionStates)
			},
			"DescribeProducers": func() int {
				topics := []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0, 0, 1}}, {Topic: "t", Partitions: []int32{1, 0}}}
				n := 0
				for _, rt := range c.ask(&kmsg.DescribeProducersRequest{Topics: topics}).(*kmsg.DescribeProducersResponse).Topics {
					n += len(rt.Partitions)
				}
				return n
			},
			"OffsetFetch of one group": func() int {
				topics := []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0, 1, 0, 0}}, {Topic: "t", Partitions: []int32{1, 0}}}
				n := 0
				for _, rt := range c.ask(&kmsg.OffsetFetchRequest{Version: 7, Group: "g", Topics: topics}).(*kmsg.OffsetFetchResponse).Topics {
					n += len(rt.Partitions)
				}
				return n
			},
		} {
			require.Equal(t, 2, answers(), name)
		}
	})
}

func TestRepeatedDeleteRecordsHaveTheLastOffset(t *testing.T) {
	parts := []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 1, Offset: 5}, {Partition: 0, Offset: 7}, {Partition: 1, Offset: 3}}
	req := &kmsg.DeleteRecordsRequest{Topics: []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: parts}, {Topic: "u", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 1, Offset: 9}}}}}
	dropRepeated(req)
	require.Equal(t, []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 1, Offset: 3}, {Partition: 0, Offset: 7}}, req.Topics[0].Partitions)
	require.Equal(t, []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 1, Offset: 9}}, req.Topics[1].Partitions)
}

// Each entry about a group has its configuration, which is a hundred times as long as the group's
// name.
func TestAnAnswerThatGrowsTooLargeIsCutOffWithAnError(t *testing.T) {
	s, addr := hostileServer(t, Limits{RequestBytes: 1 << 20, InFlightBytes: 4 << 20})
	c := dial(t, addr)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = 4, true, true
	for i := range 1000 {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = resourceGroup, fmt.Sprint(i)
		req.Resources = append(req.Resources, r)
	}
	got := c.ask(req).(*kmsg.DescribeConfigsResponse)
	require.Len(t, got.Resources, 1000)
	size, refused := 0, 0
	for _, r := range got.Resources {
		for _, e := range r.Configs {
			size += len(e.Name) + len(orEmpty(e.Documentation))
		}
		if Code(r.ErrorCode) == InvalidRequest {
			require.Contains(t, *r.ErrorMessage, "ask for less in one request")
			require.Empty(t, r.Configs)
			refused++
		}
	}
	require.NotZero(t, size)
	require.Less(t, size, 1<<20)
	require.Less(t, refused, 1000)
	require.NotZero(t, refused)
	c.nc.Close()
	require.Eventually(t, func() bool { return whole(s) }, 10*time.Second, time.Millisecond)
}

func TestRepeatedShareGroupWithOtherPartitionsIsAnswered(t *testing.T) {
	type group = kmsg.DescribeShareGroupOffsetsRequestGroup
	type topics = kmsg.DescribeShareGroupOffsetsRequestGroupTopic
	r := &kmsg.DescribeShareGroupOffsetsRequest{Groups: []group{
		{GroupID: "g", Topics: []topics{{Topic: "a", Partitions: []int32{0, 1}}}},
		{GroupID: "g", Topics: []topics{{Topic: "a", Partitions: []int32{1, 2, 2}}, {Topic: "b", Partitions: []int32{0}}}},
		{GroupID: "all"}, {GroupID: "h", Topics: []topics{{Topic: "a", Partitions: []int32{0}}}}, {GroupID: "all"},
	}}
	dropRepeated(r)
	require.Equal(t, []group{
		{GroupID: "g", Topics: []topics{{Topic: "a", Partitions: []int32{0, 1}}}},
		{GroupID: "g", Topics: []topics{{Topic: "a", Partitions: []int32{2}}, {Topic: "b", Partitions: []int32{0}}}},
		{GroupID: "all"}, {GroupID: "h", Topics: []topics{{Topic: "a", Partitions: []int32{0}}}},
	}, r.Groups)
}
