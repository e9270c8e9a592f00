package kafka

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
)

// beatRequest is a full heartbeat of a member that joins in epoch 0. In other epochs it has the
// partitions that the member owns.
func (c *groupClient) beatRequest(s *groupServer, group, member string, epoch int32, owned ...int32) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis = 1, group, member, epoch, -1
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if epoch == 0 {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 20_000, []string{"t"}
	} else if len(owned) > 0 {
		id, ok := s.cluster.TopicID("t")
		require.True(c.t, ok)
		r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: owned})
	}
	return r
}

func (c *groupClient) beat(r *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	return c.ask(r).(*kmsg.ConsumerGroupHeartbeatResponse)
}

// heard formats the answer to a heartbeat: error, epoch, partitions of t. "-" means that the
// assignment is unchanged.
func heard(r *kmsg.ConsumerGroupHeartbeatResponse) string {
	share := "-"
	if r.Assignment != nil {
		share = "[]"
		for _, t := range r.Assignment.Topics {
			share = fmt.Sprint(t.Partitions)
		}
	}
	return fmt.Sprintf("%v %d %s", Code(r.ErrorCode), r.MemberEpoch, share)
}

const beatOK = "NONE"

func TestMembersOfTheNewerProtocolArePassedPartitionsOneByOne(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		beat := func(member string, epoch int32, owned ...int32) string {
			return heard(c.beat(c.beatRequest(s, "g", member, epoch, owned...)))
		}
		first := c.beat(c.beatRequest(s, "g", "m1", 0))
		require.Equal(t, beatOK+" 2 [0 1]", heard(first))
		require.Equal(t, []any{"m1", int32(5000)}, []any{*first.MemberID, first.HeartbeatIntervalMillis})
		require.Equal(t, beatOK+" 2 []", beat("m2", 0), "within a second of the last target assignment")
		time.Sleep(time.Second)
		require.Equal(t, beatOK+" 2 [0]", beat("m1", 2, 0, 1), "it is to give up 1, and keeps its epoch")
		require.Equal(t, beatOK+" 3 -", beat("m2", 2), "1 is not free")
		require.Equal(t, beatOK+" 2 -", beat("m1", 2, 0, 1))
		require.Equal(t, beatOK+" 3 -", beat("m2", 3))
		require.Equal(t, beatOK+" 3 -", beat("m1", 2, 0))
		require.Equal(t, beatOK+" 3 [1]", beat("m2", 3))
		require.Equal(t, beatOK+" 3 -", beat("m2", 3, 1))

		for _, lost := range []string{"FENCED_MEMBER_EPOCH 0 -"} {
			require.Equal(t, lost, beat("m1", 4, 0), "an epoch to come")
			require.Equal(t, lost, beat("m2", 1, 1), "an epoch long over")
		}
		require.Equal(t, "UNKNOWN_MEMBER_ID 0 -", beat("m3", 2))

		d := c.ask(&kmsg.ConsumerGroupDescribeRequest{Version: 1, Groups: []string{"g", "nope"}, IncludeAuthorizedOperations: true}).(*kmsg.ConsumerGroupDescribeResponse).Groups
		require.Equal(t, []any{"Stable", int32(3), int32(3), "uniform", 2}, []any{d[0].State, d[0].Epoch, d[0].AssignmentEpoch, d[0].AssignorName, len(d[0].Members)})
		m1 := d[0].Members[0]
		require.Equal(t, []any{"m1", int32(3), []string{"t"}, int8(1), c.host()}, []any{m1.MemberID, m1.MemberEpoch, m1.SubscribedTopics, m1.MemberType, m1.ClientHost})
		require.Equal(t, []int32{0}, m1.Assignment.TopicPartitions[0].Partitions)
		require.Equal(t, "t", m1.TargetAssignment.TopicPartitions[0].Topic)
		require.Equal(t, []any{GroupIDNotFound, "Group nope not found."}, []any{Code(d[1].ErrorCode), *d[1].ErrorMessage})
		listed := c.ask(&kmsg.ListGroupsRequest{Version: 5, TypesFilter: []string{"Consumer"}}).(*kmsg.ListGroupsResponse).Groups
		require.Equal(t, []any{"g", "consumer", "Stable", "consumer"}, []any{listed[0].Group, listed[0].ProtocolType, listed[0].GroupState, listed[0].GroupType})
		require.Equal(t, "Dead", c.state("g"), "no classic group")

		require.Equal(t, beatOK+" -1 -", beat("m1", -1))
		time.Sleep(time.Second)
		require.Equal(t, beatOK+" 4 [0 1]", beat("m2", 3, 1))
		require.Equal(t, "UNKNOWN_MEMBER_ID 0 -", beat("m1", 3))
		time.Sleep(46 * time.Second)
		require.Equal(t, "UNKNOWN_MEMBER_ID 0 -", beat("m2", 4, 0, 1), "its session is over")
	})
}

func TestMemberThatGivesUpNothingIsPutOut(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		beat := func(member string, epoch int32, owned ...int32) string {
			return heard(c.beat(c.beatRequest(s, "g", member, epoch, owned...)))
		}
		beat("m1", 0)
		beat("m2", 0)
		time.Sleep(time.Second)
		require.Equal(t, beatOK+" 2 [0]", beat("m1", 2, 0, 1))
		for range 19 {
			time.Sleep(time.Second)
			require.Equal(t, beatOK+" 2 -", beat("m1", 2, 0, 1))
			beat("m2", 2)
		}
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, "UNKNOWN_MEMBER_ID 0 -", beat("m1", 2, 0, 1), "its rebalance timeout of 20 s is over")
		require.Equal(t, beatOK+" 4 [0 1]", beat("m2", 3))
	})
}

func TestHeartbeatsOfTheNewerProtocolAreRefusedForTheReasonsKafkaHas(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		empty, bad, nobody := "", "a(", "nobody"
		large, long := strings.Repeat("(a|b)*", 5000), strings.Repeat("a", 60_001)
		for name, cs := range map[string]struct {
			edit func(r *kmsg.ConsumerGroupHeartbeatRequest)
			want Code
		}{
			"group":             {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" }, InvalidRequest},
			"member":            {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }, InvalidRequest},
			"instance":          {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &empty }, InvalidRequest},
			"rack":              {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = &empty }, InvalidRequest},
			"epoch":             {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 }, InvalidRequest},
			"away, not static":  {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 }, InvalidRequest},
			"rebalance timeout": {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }, InvalidRequest},
			"topics":            {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil }, InvalidRequest},
			"owns nothing said": {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil }, InvalidRequest},
			"owns something": {func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{Partitions: []int32{0}})
			}, InvalidRequest},
			"assignor":          {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = &nobody }, UnsupportedAssignor},
			"no assignor":       {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = &empty }, UnsupportedAssignor},
			"regex":             {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &bad }, InvalidRegularExpression},
			"large regex":       {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &large }, InvalidRegularExpression},
			"long regex":        {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &long }, InvalidRegularExpression},
			"no group":          {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 1 }, GroupIDNotFound},
			"no group to leave": {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -1 }, GroupIDNotFound},
		} {
			r := c.beatRequest(s, "g", "m1", 0)
			cs.edit(r)
			resp := c.beat(r)
			require.Equal(t, cs.want, Code(resp.ErrorCode), name)
			require.NotNil(t, resp.ErrorMessage, name)
		}
		require.Empty(t, c.ask(&kmsg.ListGroupsRequest{Version: 5}).(*kmsg.ListGroupsResponse).Groups, "no group has come of it")

		old := c.beatRequest(s, "g", "", 0)
		old.Version = 0
		require.Len(t, *c.beat(old).MemberID, 22, "version 0 is given an id")
	})
}

func TestGroupsOfOneProtocolAreClosedToTheOther(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		c.alone("classic") // with an assignment that is no consumer's
		require.Equal(t, GroupIDNotFound, Code(c.beat(c.beatRequest(s, "classic", "m1", 0)).ErrorCode))
		require.Equal(t, "Stable", c.state("classic"))

		require.Zero(t, c.beat(c.beatRequest(s, "modern", "m1", 0)).ErrorCode)
		for _, edit := range []func(*kmsg.JoinGroupRequest){
			func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" },
			func(r *kmsg.JoinGroupRequest) { r.Version, r.Protocols[0].Metadata = 3, []byte{1} }, // which needs no id
		} {
			r := joinAs(9, "modern", "", nil)
			edit(r)
			require.Equal(t, InconsistentGroupProtocol, Code(c.join(r).ErrorCode))
		}
		require.Equal(t, UnknownMemberID, c.heartbeat("modern", "m1", 2))

		// the last member leaves: the group and its offsets stay for a member of either protocol
		require.Zero(t, c.commit(9, "modern", "m1", 2, 5, 0)[0])
		require.Zero(t, c.beat(c.beatRequest(s, "modern", "m1", -1)).ErrorCode)
		c.alone("modern")
		require.Equal(t, "Stable", c.state("modern"))
		require.Equal(t, int64(5), c.fetchOffset("modern", "", -1))
		id := c.describe(5, "modern")[0].Members[0].MemberID
		require.Zero(t, c.leave(5, "modern", kmsg.LeaveGroupRequestMember{MemberID: id}).ErrorCode)
		require.Equal(t, beatOK+" 2 [0 1]", heard(c.beat(c.beatRequest(s, "modern", "m2", 0))))
		require.Equal(t, int64(5), c.fetchOffset("modern", "m2", 2))
	})
}

// fetchOffset returns the offset of partition 0 of t. If the group has an error, it returns -1000
// minus the error code.
func (c *groupClient) fetchOffset(group, member string, epoch int32) int64 {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version = 9
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = group, epoch
	if member != "" {
		g.MemberID = &member
	}
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}
	r.Groups = append(r.Groups, g)
	got := c.ask(r).(*kmsg.OffsetFetchResponse).Groups[0]
	if got.ErrorCode != 0 {
		return -1000 - int64(got.ErrorCode)
	}
	return got.Topics[0].Partitions[0].Offset
}

func TestOffsetsOfTheNewerProtocolAreOfAMemberInItsEpoch(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		require.Equal(t, beatOK+" 2 [0 1]", heard(c.beat(c.beatRequest(s, "g", "m1", 0))))
		commit := func(version int16, member string, epoch int32, offset int64) Code {
			return c.commit(version, "g", member, epoch, offset, 0)[0]
		}
		require.Equal(t, Code(0), commit(9, "m1", 2, 7))
		require.Equal(t, StaleMemberEpoch, commit(9, "m1", 3, 8))
		require.Equal(t, StaleMemberEpoch, commit(9, "m1", 1, 8), "it got the partition in epoch 2")
		require.Equal(t, UnsupportedVersion, commit(8, "m1", 2, 8))
		require.Equal(t, UnknownMemberID, commit(9, "m2", 2, 8))
		require.Equal(t, UnknownMemberID, commit(9, "", -1, 8))
		require.Equal(t, int64(7), c.fetchOffset("g", "m1", 2))
		require.Equal(t, -1000-int64(StaleMemberEpoch), c.fetchOffset("g", "m1", 1))
		require.Equal(t, -1000-int64(UnknownMemberID), c.fetchOffset("g", "m2", 2))
		require.Equal(t, int64(7), c.fetchOffset("g", "", -1))

		c.beat(c.beatRequest(s, "g", "m2", 0))
		time.Sleep(time.Second)
		c.beat(c.beatRequest(s, "g", "m1", 2, 0, 1))
		require.Equal(t, beatOK+" 3 -", heard(c.beat(c.beatRequest(s, "g", "m1", 2, 0))))
		require.Equal(t, Code(0), commit(9, "m1", 2, 9), "0 has been its own since epoch 2 (KIP-1251)")
	})
}

func TestStaticMemberOfTheNewerProtocolTakesOverFromItself(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		instance := "i"
		beat := func(member string, epoch int32, owned ...int32) string {
			r := c.beatRequest(s, "g", member, epoch, owned...)
			r.InstanceID = &instance
			return heard(c.beat(r))
		}
		require.Equal(t, beatOK+" 2 [0 1]", beat("m1", 0))
		require.Equal(t, "UNRELEASED_INSTANCE_ID 0 -", beat("m2", 0))
		require.Equal(t, beatOK+" -2 -", beat("m1", -2))
		require.Equal(t, "FENCED_MEMBER_EPOCH 0 -", beat("m1", 2, 0, 1))
		require.Equal(t, beatOK+" 2 [0 1]", beat("m2", 0), "nothing is rebalanced")
		require.Equal(t, "FENCED_INSTANCE_ID 0 -", beat("m1", 2, 0, 1))
		require.Equal(t, beatOK+" 2 -", beat("m2", 2, 0, 1))
		require.Equal(t, beatOK+" -2 -", beat("m2", -2))
		require.Equal(t, beatOK+" 2 [0 1]", beat("m3", 0), "what it is meant to have came along the first time")
		require.Equal(t, beatOK+" -2 -", beat("m3", -2))
		time.Sleep(46 * time.Second)
		require.Equal(t, "UNKNOWN_MEMBER_ID 0 -", beat("m3", 2), "it did not come back in time")
	})
}

func TestRegularExpressionFollowsTheTopics(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		expr := "t.*"
		join := c.beatRequest(s, "g", "m1", 0)
		join.SubscribedTopicNames, join.SubscribedTopicRegex = nil, &expr
		require.Equal(t, beatOK+" 2 [0 1]", heard(c.beat(join)))
		require.NoError(t, s.cluster.CreateTopic(t.Context(), "t2", topic.Config{Partitions: 1}))
		require.NoError(t, s.cluster.CreateTopic(t.Context(), "not", topic.Config{Partitions: 1}))
		time.Sleep(time.Second)
		synctest.Wait()
		got := c.beat(c.beatRequest(s, "g", "m1", 2, 0, 1))
		require.Len(t, got.Assignment.Topics, 2)
		d := c.ask(&kmsg.ConsumerGroupDescribeRequest{Version: 1, Groups: []string{"g"}}).(*kmsg.ConsumerGroupDescribeResponse).Groups[0]
		require.Equal(t, expr, *d.Members[0].SubscribedTopicRegex)
	})
}

func TestFranzGoConsumesByTheNewerProtocol(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "t", topic.Config{Partitions: 4}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	newClient := func() *kgo.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
		require.NoError(t, err)
		return cl
	}
	one := newClient()
	const records = 100
	for i := range records {
		require.NoError(t, one.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr())
	}
	seen := map[string]int{}
	for len(seen) < records {
		fetches := one.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	d, err := s.cluster.DescribeConsumerGroup(ctx, "g")
	require.NoError(t, err)
	require.Len(t, d.Members, 1)
	require.NoError(t, one.CommitUncommittedOffsets(ctx))
	one.Close()
	two := newClient()
	defer two.Close()
	require.NoError(t, two.ProduceSync(ctx, kgo.StringRecord("last")).FirstErr())
	fetches := two.PollFetches(ctx)
	require.NoError(t, fetches.Err())
	require.Equal(t, "last", string(fetches.Records()[0].Value), "it goes on where the first one stopped")
	info, err := s.cluster.Describe(ctx, "g")
	require.NoError(t, err)
	require.Equal(t, "consumer", string(info.Type))
}

// TestMembersGoByTheConfigurationOfTheirGroup changes the configuration while the group has a
// member.
func TestMembersGoByTheConfigurationOfTheirGroup(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		const key = "consumer.heartbeat.interval.ms"
		alter := func(ch kmsg.IncrementalAlterConfigsRequestResourceConfig) {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			req.Version = 1
			req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: resourceGroup, ResourceName: "g", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{ch}}}
			require.Zero(t, c.ask(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode)
		}
		interval := func(group string, epoch int32) int32 {
			resp := c.beat(c.beatRequest(s, group, "m", epoch, 0, 1))
			require.Zero(t, resp.ErrorCode)
			return resp.HeartbeatIntervalMillis
		}
		alter(change(key, 0, "6000"))
		require.EqualValues(t, 6000, interval("g", 0))
		require.EqualValues(t, 5000, interval("other", 0))
		alter(change(key, 0, "7000"))
		require.EqualValues(t, 7000, interval("g", 2))
		alter(change(key, 1, ""))
		require.EqualValues(t, 5000, interval("g", 2))
	})
}
