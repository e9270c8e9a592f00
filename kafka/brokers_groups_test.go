package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/offsets"
)

// groupOf returns the id of a group that the broker coordinates.
func (b *brokers) groupOf(broker int32) string {
	for i := 0; ; i++ {
		id := fmt.Sprint("group-", i)
		p, err := b.cluster.OffsetsPartition(b.t.Context(), id, true)
		require.NoError(b.t, err)
		if b.cluster.Leader(offsets.Topic, p) == broker {
			return id
		}
	}
}

func TestEveryBrokerFindsTheSameCoordinator(t *testing.T) {
	b := serveBrokers(t, 3, Config{})
	for owner := range b.addrs {
		id := b.groupOf(owner)
		for _, addr := range b.addrs {
			for version := range int16(7) {
				req := &kmsg.FindCoordinatorRequest{CoordinatorKey: id, CoordinatorKeys: []string{id}}
				got := ask[*kmsg.FindCoordinatorResponse](t, addr, version, req)
				node, host, port := got.NodeID, got.Host, got.Port
				if version >= 4 {
					node, host, port = got.Coordinators[0].NodeID, got.Coordinators[0].Host, got.Coordinators[0].Port
				}
				require.Equal(t, owner, node)
				require.Equal(t, b.addrs[owner], hostPort(host, port))
			}
		}
	}
}

// groupQuestions sends every group request in all versions, JoinGroup from version joinsFrom, and
// returns the error codes. Below version 4 a coordinator adds a member at once, and the next
// JoinGroup waits for it.
func groupQuestions(t *testing.T, addr, id string, joinsFrom int16) map[string]Code {
	codes := map[string]Code{}
	c := &groupClient{t, dial(t, addr)}
	defer c.nc.Close()
	for v := joinsFrom; v <= 9; v++ {
		r := joinAs(v, id, "", nil)
		r.SetVersion(v)
		codes[fmt.Sprint("join ", v)] = Code(c.join(r).ErrorCode)
	}
	for v := range int16(6) {
		sync := &kmsg.SyncGroupRequest{Group: id, MemberID: "m", ProtocolType: kmsg.StringPtr("consumer"), Protocol: kmsg.StringPtr("range")}
		sync.SetVersion(v)
		codes[fmt.Sprint("sync ", v)] = Code(c.ask(sync).(*kmsg.SyncGroupResponse).ErrorCode)
		leave := &kmsg.LeaveGroupRequest{Group: id, MemberID: "m", Members: []kmsg.LeaveGroupRequestMember{{MemberID: "m"}}}
		leave.SetVersion(v)
		left := c.ask(leave).(*kmsg.LeaveGroupResponse)
		codes[fmt.Sprint("leave ", v)] = Code(left.ErrorCode)
		if len(left.Members) > 0 {
			codes[fmt.Sprint("leave ", v)] = Code(left.Members[0].ErrorCode)
		}
	}
	for v := range int16(5) {
		beat := &kmsg.HeartbeatRequest{Group: id, MemberID: "m"}
		beat.SetVersion(v)
		codes[fmt.Sprint("heartbeat ", v)] = Code(c.ask(beat).(*kmsg.HeartbeatResponse).ErrorCode)
	}
	for v := range int16(7) {
		codes[fmt.Sprint("describe ", v)] = Code(c.describe(v, id)[0].ErrorCode)
	}
	for v := int16(2); v <= 9; v++ {
		commit := commitOf(v, id, "", -1, 5, 0)
		commit.Topics[0].Topic = "orders"
		codes[fmt.Sprint("commit ", v)] = c.commitCodes(commit)[0]
	}
	for v := int16(1); v <= 9; v++ {
		codes[fmt.Sprint("offsets ", v)] = offsetsCode(c, v, id)
	}
	forget, ft := &kmsg.OffsetDeleteRequest{Group: id}, kmsg.NewOffsetDeleteRequestTopic()
	ft.Topic, ft.Partitions = "orders", []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
	forget.Topics = append(forget.Topics, ft)
	codes["delete offsets"] = Code(c.ask(forget).(*kmsg.OffsetDeleteResponse).ErrorCode)
	for v := range int16(3) {
		req := &kmsg.DeleteGroupsRequest{Groups: []string{id}}
		req.SetVersion(v)
		codes[fmt.Sprint("delete ", v)] = Code(c.ask(req).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)
	}
	return codes
}

func offsetsCode(c *groupClient, v int16, id string) Code {
	got := c.ask(fetchOf(v, id, "orders", 0)).(*kmsg.OffsetFetchResponse)
	switch {
	case v >= 8:
		return Code(got.Groups[0].ErrorCode)
	case v >= 2:
		return Code(got.ErrorCode)
	}
	return Code(got.Topics[0].Partitions[0].ErrorCode)
}

func TestGroupIsServedByItsCoordinatorOnly(t *testing.T) {
	b := serveBrokers(t, 2, Config{})
	id := b.groupOf(2)
	c := dial(t, b.addrs[2])
	commit := commitOf(9, id, "", -1, 5, 0)
	commit.Topics[0].Topic = "orders"
	require.Zero(t, c.ask(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
	for what, code := range groupQuestions(t, b.addrs[1], id, 0) {
		require.Equal(t, NotCoordinator, code, what)
	}
	got, err := b.cluster.FetchOffsets(t.Context(), id, nil)
	require.NoError(t, err)
	require.Len(t, got, 1)
	for _, o := range got {
		require.EqualValues(t, 5, o.Offset, "nothing was changed by the broker that was wrong")
	}
	for what, code := range groupQuestions(t, b.addrs[2], id, 4) {
		require.NotEqual(t, NotCoordinator, code, what)
	}
	require.Empty(t, ask[*kmsg.OffsetCommitResponse](t, b.addrs[1], 9, &kmsg.OffsetCommitRequest{Group: id}).Topics, "nothing to refuse")
}

func TestEveryBrokerListsTheGroupsThatItCoordinates(t *testing.T) {
	b := serveBrokers(t, 3, Config{})
	for id, addr := range b.addrs {
		commit := commitOf(9, b.groupOf(id), "", -1, 5, 0)
		commit.Topics[0].Topic = "orders"
		require.Zero(t, ask[*kmsg.OffsetCommitResponse](t, addr, 9, commit).Topics[0].Partitions[0].ErrorCode)
	}
	for id, addr := range b.addrs {
		got := ask[*kmsg.ListGroupsResponse](t, addr, 5, &kmsg.ListGroupsRequest{})
		require.Len(t, got.Groups, 1)
		require.Equal(t, b.groupOf(id), got.Groups[0].Group)
	}
}

// A client that has one address finds all brokers. It reads the records of each partition back in
// order, in groups of every coordinator.
func TestFranzGoFindsLeadersAndCoordinators(t *testing.T) {
	b := serveBrokers(t, 3, Config{})
	p, err := kgo.NewClient(kgo.SeedBrokers(b.addrs[2]), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer p.Close()
	const each = 200
	for i := range each * 3 {
		p.Produce(t.Context(), &kgo.Record{Partition: int32(i % 3), Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	require.NoError(t, p.Flush(t.Context()))
	require.Equal(t, []int64{each, each, each}, b.ends())
	for owner := range b.addrs {
		id := b.groupOf(owner)
		read := func(records int) map[int32]int {
			cl, err := kgo.NewClient(kgo.SeedBrokers(b.addrs[3]), kgo.ConsumerGroup(id), kgo.ConsumeTopics("orders"),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.FetchMaxWait(100*time.Millisecond))
			require.NoError(t, err)
			defer cl.Close()
			next := map[int32]int{}
			for total := 0; total < records; {
				fetches := cl.PollFetches(t.Context())
				require.NoError(t, fetches.Err())
				fetches.EachRecord(func(r *kgo.Record) {
					if _, begun := next[r.Partition]; !begun {
						next[r.Partition] = int(r.Offset)
					}
					require.Equal(t, fmt.Sprint(next[r.Partition]*3+int(r.Partition)), string(r.Value))
					next[r.Partition]++
					total++
				})
			}
			require.NoError(t, cl.CommitUncommittedOffsets(t.Context()))
			return next
		}
		require.Equal(t, map[int32]int{0: each, 1: each, 2: each}, read(each*3))
		committed, err := b.cluster.FetchOffsets(t.Context(), id, nil)
		require.NoError(t, err)
		require.Len(t, committed, 3)
		for _, o := range committed {
			require.EqualValues(t, each, o.Offset)
		}
	}
}
