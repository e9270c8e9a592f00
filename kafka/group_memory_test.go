package kafka

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/record"
)

// join adds a member with metadata of size bytes to a classic group of its own.
func join(c *client, group string, size int) *kmsg.JoinGroupResponse {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = 3
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, "consumer", 1_800_000, 1_800_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("x")}, {Name: "other", Metadata: make([]byte, size)}}
	return c.ask(req).(*kmsg.JoinGroupResponse)
}

// coordinating serves a group coordinator with 1 MiB for the members of a principal.
func coordinating(t *testing.T) (addr string) {
	t.Helper()
	_, addr = serve(t, Config{Limits: Limits{RequestBytes: 1 << 20, InFlightBytes: 2 << 20}})
	findGroups(dial(t, addr))
	return addr
}

// findGroups looks the group coordinator up, which creates it.
func findGroups(c *client) {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	require.Zero(c.t, c.ask(find).(*kmsg.FindCoordinatorResponse).ErrorCode)
}

// untilFull sends requests to a new server until the memory of groups is used up, and returns
// their number.
func untilFull(t *testing.T, ask func(c *client, i int) int16) (n int) {
	t.Helper()
	c, code := dial(t, coordinating(t)), int16(0)
	for ; n < 300 && code == 0; n++ {
		code = ask(c, n)
	}
	require.Equal(t, GroupMaxSizeReached, Code(code))
	return n
}

func TestMembersOfGroupsHaveABudget(t *testing.T) {
	addr := coordinating(t)
	var joined []*kmsg.JoinGroupResponse
	for i := range 10 {
		c := dial(t, addr)
		r := join(c, fmt.Sprint("g", i), 30<<10)
		c.nc.Close() // the member stays
		require.Zero(t, r.ErrorCode)
	}
	c := dial(t, addr)
	for len(joined) < 100 {
		r := join(c, fmt.Sprint("h", len(joined)), 30<<10)
		if r.ErrorCode != 0 {
			require.Equal(t, GroupMaxSizeReached, Code(r.ErrorCode))
			break
		}
		joined = append(joined, r)
	}
	require.Less(t, len(joined), 1<<20/(30<<10)-10)
	require.Greater(t, len(joined), 10)
	require.Zero(t, join(dial(t, addr), "small", 0).ErrorCode, "what is left is for others")
	for i, r := range joined {
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group, leave.MemberID = fmt.Sprint("h", i), r.MemberID
		require.Zero(t, c.ask(leave).(*kmsg.LeaveGroupResponse).ErrorCode)
	}
	for again := range 10 { // the memory of members that have left is free
		require.Eventually(t, func() bool { return join(c, fmt.Sprint("again", again), 30<<10).ErrorCode == 0 }, 20*time.Second, 10*time.Millisecond)
	}
}

func TestSubscriptionsOfMembersHaveABudget(t *testing.T) {
	var topics []string
	for i := range 300 {
		topics = append(topics, fmt.Sprintf("%s-%d", strings.Repeat("t", 100), i))
	}
	for name, subscribe := range map[string]func(c *client, i int) int16{
		"consumer": func(c *client, i int) int16 {
			req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, fmt.Sprint("c", i), "m", 60_000
			req.SubscribedTopicNames, req.Topics = topics, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			return c.ask(req).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode
		},
		"share": func(c *client, i int) int16 {
			req := kmsg.NewPtrShareGroupHeartbeatRequest()
			req.Version, req.GroupID, req.MemberID, req.SubscribedTopicNames = 1, fmt.Sprint("s", i), "m", topics
			return c.ask(req).(*kmsg.ShareGroupHeartbeatResponse).ErrorCode
		},
		"topology": func(c *client, i int) int16 {
			return c.ask(streamsBeat("m", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) {
				r.Group = fmt.Sprint("topology", i)
				r.Topology.Subtopologies[0].SourceTopics = topics[:50]
			})).(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode
		},
		"client tags": func(c *client, i int) int16 {
			return c.ask(streamsBeat("m", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) {
				r.Group = fmt.Sprint("tags", i)
				for _, name := range topics[:50] {
					r.ClientTags = append(r.ClientTags, kmsg.StreamsGroupHeartbeatRequestClientTag{Key: name})
				}
			})).(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Less(t, untilFull(t, subscribe), 200)
		})
	}
}

func TestIDsOfMembersThatNeverJoinHaveABudget(t *testing.T) {
	c := dial(t, coordinating(t))
	join := func() *kmsg.JoinGroupResponse {
		req := joinAs(4, "g", "", nil)
		req.SessionTimeoutMillis = 1_800_000
		return c.ask(req).(*kmsg.JoinGroupResponse)
	}
	var ids []string
	var full time.Time // since when every request is refused; zero if the last one was not
	for len(ids) < 2<<10 {
		r := join()
		if r.ErrorCode == int16(MemberIDRequired) {
			ids, full = append(ids, r.MemberID), time.Time{}
			continue
		}
		require.Equal(t, GroupMaxSizeReached, Code(r.ErrorCode))
		if full.IsZero() {
			full = time.Now()
		}
		if time.Since(full) > 2*collectEvery { // not only until the garbage of other requests is collected
			break
		}
	}
	require.Less(t, len(ids), 1<<10)
	require.Greater(t, len(ids), 300)
	for _, id := range ids { // the members leave
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group, leave.MemberID = "g", id
		require.Zero(t, c.ask(leave).(*kmsg.LeaveGroupResponse).ErrorCode)
	}
	ids = nil
	require.Eventually(t, func() bool { return join().ErrorCode == int16(MemberIDRequired) }, 20*time.Second, 10*time.Millisecond)
}

func TestAPrincipalHasHalfOfTheMemoryOfGroups(t *testing.T) {
	m := &groupMemory{size: 1000, budget: new(memory.Budget)}
	a, b := groupCharge{m, "User:a"}, groupCharge{m, "User:b"}
	require.NoError(t, a.take(500))
	require.ErrorIs(t, a.take(1), group.ErrGroupMaxSize)
	kept, err := b.clone(make([]byte, 400))
	require.NoError(t, err)
	require.ErrorIs(t, b.take(200), group.ErrGroupMaxSize)
	runtime.KeepAlive(kept)
	require.Eventually(t, func() bool { return b.take(200) == nil }, 20*time.Second, time.Millisecond)
}

func TestNamesOfGroupsAndMembersHaveABudget(t *testing.T) {
	long := strings.Repeat("n", 4<<10)
	for name, ask := range map[string]func(c *client, i int) int16{
		"group of classic members": func(c *client, i int) int16 {
			return join(c, fmt.Sprint(long, "-classic-", i), 0).ErrorCode
		},
		"instance and type of classic members": func(c *client, i int) int16 {
			req := joinAs(5, fmt.Sprint("instance-", i), "", nil)
			req.InstanceID, req.ProtocolType, req.SessionTimeoutMillis = &long, long, 1_800_000
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("x")}}
			return c.ask(req).(*kmsg.JoinGroupResponse).ErrorCode
		},
		"consumer group": func(c *client, i int) int16 {
			return consumerBeat(c, fmt.Sprint(long, "-consumer-", i), "m", nil)
		},
		"consumer": func(c *client, i int) int16 {
			return consumerBeat(c, "members", fmt.Sprint(long, i), nil)
		},
		"instance and rack of consumers": func(c *client, i int) int16 {
			instance := fmt.Sprint(long, i)
			return consumerBeat(c, "racks", fmt.Sprint("m", i), &instance)
		},
		"share group": func(c *client, i int) int16 {
			req := kmsg.NewPtrShareGroupHeartbeatRequest()
			req.Version, req.GroupID, req.MemberID, req.SubscribedTopicNames = 1, fmt.Sprint(long, "-share-", i), "m", []string{"t"}
			return c.ask(req).(*kmsg.ShareGroupHeartbeatResponse).ErrorCode
		},
		"streams group": func(c *client, i int) int16 {
			return c.ask(streamsBeat("m", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) {
				r.Group = fmt.Sprint(long, "-streams-", i)
			})).(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Less(t, untilFull(t, ask), 1<<20/(4<<10)+2)
		})
	}
}

// consumerBeat adds a member to a consumer group. The member's rack has the name of its instance.
func consumerBeat(c *client, group, member string, instance *string) int16 {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, group, member, 60_000
	req.InstanceID, req.RackID = instance, instance
	req.SubscribedTopicNames, req.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return c.ask(req).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode
}

func TestSmallGroupsHaveABudget(t *testing.T) {
	c := dial(t, coordinating(t))
	n, code := 0, int16(0)
	for ; n < 1000 && code == 0; n++ {
		code = consumerBeat(c, fmt.Sprint("g", n), "m", nil)
	}
	require.Equal(t, GroupMaxSizeReached, Code(code))
	require.Less(t, n, 1<<20/(groupBytes+memberBytes)+2)
	require.Greater(t, n, 300)
}

func TestThePageOfLimitsGivesTheTotalMemory(t *testing.T) {
	total := Limits{}.MemoryBytes() + int64(2-runtime.GOMAXPROCS(0))*record.InflatedPerProcessor // on two processors
	page, err := os.ReadFile("../docs/limits.md")
	require.NoError(t, err)
	require.Contains(t, string(page), fmt.Sprintf("can fill %.1f GiB on two processors", math.Ceil(float64(total)/(1<<30)*10)/10))
	require.LessOrEqual(t, float64(total), 1.1*(1<<30))
}

// joinShare subscribes a member of a share group to a topic.
func joinShare(c *client, group, member string, epoch int32, topic string) Code {
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.Version, req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = 1, group, member, epoch, []string{topic}
	return Code(c.ask(req).(*kmsg.ShareGroupHeartbeatResponse).ErrorCode)
}

func TestStatesOfShareGroupsHaveABudget(t *testing.T) {
	s, addr := serve(t, Config{Limits: Limits{RequestBytes: 1 << 20, InFlightBytes: 2 << 20}})
	createTopic(t, addr, "wide", 200)
	createTopic(t, addr, "narrow", 1)
	c := dial(t, addr)
	findGroups(c)
	require.Zero(t, joinShare(c, "small", "m", 0, "narrow"))
	used := s.groupMemory.budget.Used()
	for i := range 20 { // a member that the group does not know
		require.Equal(t, GroupIDNotFound, joinShare(c, fmt.Sprint("absent", i), "m", 5, "wide"))
		require.Equal(t, UnknownMemberID, joinShare(c, "small", "unknown", 5, "wide"))
	}
	require.Less(t, s.groupMemory.budget.Used()-used, 20<<10)
	n, code := 0, Code(0)
	for ; n < 100 && code == 0; n++ {
		code = joinShare(c, fmt.Sprint("g", n), "m", 0, "wide")
	}
	require.Equal(t, GroupMaxSizeReached, code)
	require.InDelta(t, 1<<20/(200*800), n, 2)
	require.Equal(t, GroupMaxSizeReached, joinShare(c, "again", "m", 0, "wide"))
}

// All kinds of coordinators together keep at most half of the budget for one principal.
func TestAllKindsOfCoordinatorsHaveOneBudget(t *testing.T) {
	s, addr := serve(t, Config{Limits: Limits{RequestBytes: 1 << 20, InFlightBytes: 2 << 20}})
	createTopic(t, addr, "t", 1)
	beginTxn(t, addr, "id")
	c := &groupClient{t, dial(t, addr)}
	findGroups(c.client)
	require.Zero(t, c.commit(8, "g", "", -1, 1, 0)[0])
	long := strings.Repeat("n", 8<<10)
	code := Code(0)
	for i := 0; i < 300 && code == 0; i++ {
		code = Code(c.ask((&txnClient{id: fmt.Sprint(long, i)}).initRequest(-1, -1)).(*kmsg.InitProducerIDResponse).ErrorCode)
	}
	require.Equal(t, PolicyViolation, code)
	require.Equal(t, InvalidCommitOffsetSize, c.commit(8, long+"g", "", -1, 1, 0)[0])
	require.Equal(t, GroupMaxSizeReached, Code(join(c.client, "members", 30<<10).ErrorCode))
	require.InDelta(t, 1<<20, s.groupMemory.budget.Used(), 64<<10)
	require.Zero(t, c.commit(8, "g", "", -1, 2, 0)[0], "what needs no memory goes on")
}

func TestCommitsHaveABudget(t *testing.T) {
	_, addr := serve(t, Config{Limits: Limits{RequestBytes: 1 << 20, InFlightBytes: 2 << 20}})
	createTopic(t, addr, "t", 1)
	createTopic(t, addr, "orders", 1)
	c := &groupClient{t, dial(t, addr)}
	findGroups(c.client)
	p := beginTxn(t, addr, "id")
	long := strings.Repeat("n", 4<<10)
	n, code := 0, Code(0)
	for ; n < 500 && code == 0; n++ {
		code = c.commit(8, fmt.Sprint(long, n), "", -1, 1, 0)[0]
	}
	require.Equal(t, InvalidCommitOffsetSize, code)
	require.InDelta(t, 1<<20/(6<<10), n, 20)
	require.Zero(t, c.commit(8, long+"0", "", -1, 2, 0)[0], "a partition that has an offset")

	require.Equal(t, TransactionAbortable, p.commitOffset(5, long+"txn"))
	require.Equal(t, InvalidCommitOffsetSize, p.commitOffset(3, long+"txn"))
}
