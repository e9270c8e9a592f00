package kafka

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
)

// The expected answers in these tests are those of Apache Kafka 4.3.0 to the same requests. A
// comment marks each difference.

// A groupServer is a server in memory, on a network in memory.
type groupServer struct {
	*Server
	of      *strata.Cluster
	network memnet.Network
}

// groupAddress is where a groupServer listens.
const groupAddress = "broker:9092"

// withGroups runs f in virtual time against a server that has the topic "t" with two partitions.
func withGroups(t *testing.T, f func(t *testing.T, s *groupServer)) { inBubble(t, Config{}, f) }

// inBubble is withGroups with a configuration.
func inBubble(t *testing.T, cfg Config, f func(t *testing.T, s *groupServer)) {
	inBubbleOf(t, strata.Config{}, cfg, f)
}

// inBubbleOf is inBubble with a configuration of the cluster.
func inBubbleOf(t *testing.T, of strata.Config, cfg Config, f func(t *testing.T, s *groupServer)) {
	synctest.Test(t, func(t *testing.T) {
		cluster, err := strata.Open(of)
		require.NoError(t, err)
		defer func() { require.NoError(t, cluster.Close()) }()
		require.NoError(t, cluster.CreateTopic(t.Context(), "t", topic.Config{Partitions: 2}))
		s := &groupServer{Server: NewServer(cluster, cfg), of: cluster}
		ln, err := s.network.Listen(groupAddress)
		require.NoError(t, err)
		var ended sync.WaitGroup
		ended.Go(func() { s.Serve(cluster.Controller(), ln) })
		defer ended.Wait()
		defer s.Close()
		synctest.Wait()
		f(t, s)
	})
}

// A groupClient sends requests of the group protocol on a connection of its own.
type groupClient struct {
	t *testing.T
	*client
}

func dialGroups(t *testing.T, s *groupServer) *groupClient {
	nc, err := s.network.Dial(t.Context(), "tcp", groupAddress)
	require.NoError(t, err)
	return &groupClient{t, &client{t: t, nc: nc}}
}

// newGroupClient dials and looks the coordinator up. Before a lookup every group is unknown.
func newGroupClient(t *testing.T, s *groupServer) *groupClient {
	c := dialGroups(t, s)
	require.Zero(t, c.findCoordinator(4, 0, "g").Coordinators[0].ErrorCode)
	return c
}

func (c *groupClient) findCoordinator(version int16, kind int8, keys ...string) *kmsg.FindCoordinatorResponse {
	return c.ask(&kmsg.FindCoordinatorRequest{Version: version, CoordinatorType: kind, CoordinatorKey: keys[0], CoordinatorKeys: keys}).(*kmsg.FindCoordinatorResponse)
}

// joinAs is a JoinGroup request with all mandatory fields.
func joinAs(version int16, group, memberID string, instanceID *string) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.ProtocolType = version, group, memberID, instanceID, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 10_000, 20_000
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscribed("t")}}
	return r
}

// subscribed is a consumer's subscription.
func subscribed(topics ...string) []byte { return assignor.Subscription{Topics: topics}.AppendTo(nil) }

func (c *groupClient) join(r *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	return c.ask(r).(*kmsg.JoinGroupResponse)
}

func (c *groupClient) sync(version int16, group, memberID string, generation int32, shares map[string]string) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.Generation = version, group, memberID, generation
	r.ProtocolType, r.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	for id, share := range shares {
		r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(share)})
	}
	return c.ask(r).(*kmsg.SyncGroupResponse)
}

func (c *groupClient) heartbeat(group, memberID string, generation int32) Code {
	return Code(c.ask(&kmsg.HeartbeatRequest{Version: 4, Group: group, MemberID: memberID, Generation: generation}).(*kmsg.HeartbeatResponse).ErrorCode)
}

func (c *groupClient) leave(version int16, group string, members ...kmsg.LeaveGroupRequestMember) *kmsg.LeaveGroupResponse {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group, r.MemberID, r.Members = version, group, members[0].MemberID, members
	return c.ask(r).(*kmsg.LeaveGroupResponse)
}

func (c *groupClient) describe(version int16, groups ...string) []kmsg.DescribeGroupsResponseGroup {
	return c.ask(&kmsg.DescribeGroupsRequest{Version: version, Groups: groups}).(*kmsg.DescribeGroupsResponse).Groups
}

func (c *groupClient) state(group string) string { return c.describe(5, group)[0].State }

// alone makes a group of one member, Stable with generation 1, and returns the member's id.
func (c *groupClient) alone(group string) (memberID string) {
	first := c.join(joinAs(9, group, "", nil))
	require.Equal(c.t, MemberIDRequired, Code(first.ErrorCode))
	joined := c.join(joinAs(9, group, first.MemberID, nil))
	require.Zero(c.t, joined.ErrorCode)
	require.Zero(c.t, c.sync(5, group, first.MemberID, joined.Generation, map[string]string{first.MemberID: "share"}).ErrorCode)
	return first.MemberID
}

func TestCoordinatorsAreFoundInEveryVersion(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := dialGroups(t, s)
		host, port, _ := s.address(s.cluster.Controller(), "PLAINTEXT")
		for v := range int16(4) {
			r := c.findCoordinator(v, 0, "g")
			require.Zero(t, r.ErrorCode)
			require.Equal(t, []any{s.cluster.Controller(), host, port}, []any{r.NodeID, r.Host, r.Port})
			if v > 0 {
				require.Equal(t, "NONE", *r.ErrorMessage)
			}
		}
		for v := int16(4); v <= 6; v++ {
			r := c.findCoordinator(v, 0, "g", "", "g")
			require.Len(t, r.Coordinators, 3)
			for i, key := range []string{"g", "", "g"} {
				found := r.Coordinators[i]
				require.Equal(t, []any{key, s.cluster.Controller(), host, port, int16(0), ""},
					[]any{found.Key, found.NodeID, found.Host, found.Port, found.ErrorCode, *found.ErrorMessage})
			}
		}
	})
}

func TestCoordinatorsOfOtherKindsAreAnErrorThatClientsDoNotRetry(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		for _, kind := range []int8{2, 7, -1} {
			for _, v := range []int16{1, 3} {
				r := c.findCoordinator(v, kind, "g")
				require.Equal(t, []any{int16(InvalidRequest), int32(-1), "", int32(-1)}, []any{r.ErrorCode, r.NodeID, r.Host, r.Port})
				require.NotEmpty(t, *r.ErrorMessage)
			}
			for _, found := range c.findCoordinator(6, kind, "g", "h").Coordinators {
				require.Equal(t, []any{int16(InvalidRequest), int32(-1), "", int32(-1)}, []any{found.ErrorCode, found.NodeID, found.Host, found.Port})
			}
		}
		require.Zero(t, c.findCoordinator(0, 7, "g").ErrorCode) // version 0 has no types
	})
}

// The lookup of a coordinator creates the offsets topic. Kafka creates it in the background and
// answers COORDINATOR_NOT_AVAILABLE meanwhile; here the lookup waits.
func TestEverythingIsNotCoordinatorUntilACoordinatorWasLookedUp(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := dialGroups(t, s)
		require.Equal(t, NotCoordinator, c.heartbeat("g", "m", 1))
		require.Equal(t, NotCoordinator, Code(c.join(joinAs(9, "g", "", nil)).ErrorCode))
		require.Equal(t, NotCoordinator, Code(c.sync(5, "g", "m", 1, nil).ErrorCode))
		require.Equal(t, NotCoordinator, Code(c.leave(5, "g", kmsg.LeaveGroupRequestMember{MemberID: "m"}).ErrorCode))
		d := c.describe(6, "g")[0]
		require.Equal(t, []any{int16(NotCoordinator), ""}, []any{d.ErrorCode, d.State})
		require.Equal(t, NotCoordinator, c.commit(8, "g", "", -1, 5, 0)[0])
		require.Equal(t, NotCoordinator, Code(c.ask(&kmsg.DeleteGroupsRequest{Version: 2, Groups: []string{"g"}}).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode))
		require.Equal(t, NotCoordinator, Code(c.ask(&kmsg.OffsetDeleteRequest{Group: "g"}).(*kmsg.OffsetDeleteResponse).ErrorCode))
		list := c.ask(&kmsg.ListGroupsRequest{Version: 5}).(*kmsg.ListGroupsResponse)
		require.Zero(t, list.ErrorCode)
		require.Empty(t, list.Groups)

		one := c.fetch(1, "g", "t", 0)
		require.Equal(t, []any{int64(-1), "", NotCoordinator}, one)
		require.Equal(t, NotCoordinator, Code(c.ask(&kmsg.OffsetFetchRequest{Version: 7, Group: "g"}).(*kmsg.OffsetFetchResponse).ErrorCode))
		many := c.ask(fetchOf(8, "g", "t", 0)).(*kmsg.OffsetFetchResponse)
		require.Equal(t, NotCoordinator, Code(many.Groups[0].ErrorCode))
		require.Empty(t, many.Groups[0].Topics)

		require.Zero(t, c.findCoordinator(6, 0, "g").Coordinators[0].ErrorCode)
		require.Equal(t, "Dead", c.state("g")) // Kafka accepts heartbeats while groups are loaded
		require.Equal(t, UnknownMemberID, c.heartbeat("g", "m", 1))
	})
}

func TestMembersOfTheEmptyGroupAreRefused(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := dialGroups(t, s) // also before the offsets topic exists
		for v := range int16(10) {
			r := c.join(joinAs(v, "", "m", nil))
			require.Equal(t, InvalidGroupID, Code(r.ErrorCode))
			require.EqualValues(t, -1, r.Generation)
			require.Equal(t, v < 7, r.Protocol != nil)
			require.Nil(t, r.ProtocolType)
		}
		require.Equal(t, InvalidGroupID, c.heartbeat("", "m", 1))
		require.Equal(t, InvalidGroupID, Code(c.sync(5, "", "m", 1, nil).ErrorCode))
		for _, v := range []int16{1, 5} {
			require.Equal(t, InvalidGroupID, Code(c.leave(v, "", kmsg.LeaveGroupRequestMember{MemberID: "m"}).ErrorCode))
		}
		require.Equal(t, InvalidGroupID, Code(c.ask(&kmsg.OffsetDeleteRequest{}).(*kmsg.OffsetDeleteResponse).ErrorCode))
	})
}

func TestNewMembersGetTheirIDFirstFromVersion4On(t *testing.T) {
	for v := range int16(10) {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) {
			withGroups(t, func(t *testing.T, s *groupServer) {
				c := newGroupClient(t, s)
				r := c.join(joinAs(v, "g", "", nil))
				if v >= 4 {
					require.Equal(t, MemberIDRequired, Code(r.ErrorCode))
					require.True(t, strings.HasPrefix(r.MemberID, "test-"), r.MemberID)
					require.Equal(t, "Empty", c.state("g"))
					r = c.join(joinAs(v, "g", r.MemberID, nil))
				}
				require.Zero(t, r.ErrorCode)
				require.Equal(t, []any{int32(1), r.MemberID, "range", false}, []any{r.Generation, r.LeaderID, *r.Protocol, r.SkipAssignment})
				require.Equal(t, v >= 7, r.ProtocolType != nil && *r.ProtocolType == "consumer")
				require.Equal(t, []kmsg.JoinGroupResponseMember{{MemberID: r.MemberID, ProtocolMetadata: subscribed("t")}}, r.Members)
			})
		})
	}
}

func TestJoinsAreRefusedForTheReasonsKafkaHas(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		r := c.join(joinAs(9, "g", "m", nil))
		require.Equal(t, []any{UnknownMemberID, "m", int32(-1)}, []any{Code(r.ErrorCode), r.MemberID, r.Generation})
		require.Equal(t, "Dead", c.state("g"), "such a join makes no group")

		short := joinAs(9, "g", "", nil)
		short.SessionTimeoutMillis = 1
		require.Equal(t, InvalidSessionTimeout, Code(c.join(short).ErrorCode))
		none := joinAs(9, "g", "", nil)
		none.Protocols = nil
		require.Equal(t, InconsistentGroupProtocol, Code(c.join(none).ErrorCode))

		c.alone("h")
		other := joinAs(9, "h", "", nil)
		other.ProtocolType = "connect"
		require.Equal(t, InconsistentGroupProtocol, Code(c.join(other).ErrorCode))
		other = joinAs(9, "h", "", nil)
		other.Protocols[0].Name = "sticky"
		require.Equal(t, InconsistentGroupProtocol, Code(c.join(other).ErrorCode))
		require.Equal(t, "Stable", c.state("h"))
	})
}

func TestTwoMembersShareAGroup(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		a, b := newGroupClient(t, s), newGroupClient(t, s)
		idA := a.alone("g")
		idB := b.join(joinAs(9, "g", "", nil)).MemberID
		joined := make(chan *kmsg.JoinGroupResponse)
		go func() { joined <- b.join(joinAs(9, "g", idB, nil)) }()
		synctest.Wait() // B waits for A
		require.Equal(t, RebalanceInProgress, a.heartbeat("g", idA, 1))
		require.Equal(t, RebalanceInProgress, Code(a.sync(5, "g", idA, 1, nil).ErrorCode))
		ra := a.join(joinAs(9, "g", idA, nil))
		rb := <-joined
		require.Equal(t, []any{int32(2), int32(2), idA, idA}, []any{ra.Generation, rb.Generation, ra.LeaderID, rb.LeaderID})
		require.Len(t, ra.Members, 2)
		require.Empty(t, rb.Members)

		synced := make(chan *kmsg.SyncGroupResponse)
		go func() { synced <- b.sync(5, "g", idB, 2, nil) }()
		synctest.Wait() // B waits for A's assignments
		require.Equal(t, "CompletingRebalance", a.state("g"))
		require.Equal(t, RebalanceInProgress, a.commit(9, "g", idA, 2, 5, 0)[0])
		require.Equal(t, IllegalGeneration, Code(a.sync(5, "g", idA, 1, nil).ErrorCode))
		require.Equal(t, "for A", string(a.sync(5, "g", idA, 2, map[string]string{idA: "for A", idB: "for B"}).MemberAssignment))
		sb := <-synced
		require.Equal(t, []any{int16(0), "for B", "consumer", "range"}, []any{sb.ErrorCode, string(sb.MemberAssignment), *sb.ProtocolType, *sb.Protocol})
		require.Zero(t, a.heartbeat("g", idA, 2))
		require.Equal(t, IllegalGeneration, a.heartbeat("g", idA, 1))

		d := a.describe(6, "g")[0]
		require.Equal(t, []any{"Stable", "consumer", "range", int32(-1 << 31)}, []any{d.State, d.ProtocolType, d.Protocol, d.AuthorizedOperations})
		require.Equal(t, kmsg.DescribeGroupsResponseGroupMember{MemberID: idB, ClientID: "test", ClientHost: a.host(), ProtocolMetadata: subscribed("t"), MemberAssignment: []byte("for B")}, d.Members[1])

		left := a.leave(5, "g", kmsg.LeaveGroupRequestMember{MemberID: "x"}, kmsg.LeaveGroupRequestMember{MemberID: idA}, kmsg.LeaveGroupRequestMember{MemberID: idA, InstanceID: kmsg.StringPtr("i")})
		require.Zero(t, left.ErrorCode)
		require.Equal(t, []int16{int16(UnknownMemberID), 0, int16(UnknownMemberID)}, []int16{left.Members[0].ErrorCode, left.Members[1].ErrorCode, left.Members[2].ErrorCode})
		require.Equal(t, RebalanceInProgress, b.heartbeat("g", idB, 2))
		require.Equal(t, UnknownMemberID, a.heartbeat("g", idA, 2))
	})
}

// host returns the name that the server has for this client's machine.
func (c *groupClient) host() string { return "/" + remoteHost(c.nc.LocalAddr()) }

func TestAJoinWhoseConnectionEndsLeavesNoMember(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		a := newGroupClient(t, s)
		idA := a.alone("g")
		for _, name := range []string{"with the id it was given", "without an id", "static"} {
			gone := newGroupClient(t, s)
			request := joinAs(3, "g", "", nil)
			switch name {
			case "with the id it was given":
				request = joinAs(9, "g", gone.join(joinAs(9, "g", "", nil)).MemberID, nil)
			case "static":
				request = joinAs(9, "g", "", kmsg.StringPtr("i"))
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				gone.send(request)
				gone.closed()
			}()
			synctest.Wait()
			require.Equal(t, "PreparingRebalance", a.state("g"), name)
			require.NoError(t, gone.nc.Close())
			<-done
			synctest.Wait()
			require.Len(t, a.describe(5, "g")[0].Members, 1, name)
			joined := a.join(joinAs(9, "g", idA, nil))
			require.Zero(t, joined.ErrorCode)
			require.Len(t, joined.Members, 1, name)
			require.Zero(t, a.sync(5, "g", idA, joined.Generation, nil).ErrorCode)
		}
	})
}

func TestASyncWhoseConnectionEndsKeepsTheMember(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		a, b := newGroupClient(t, s), newGroupClient(t, s)
		idA := a.alone("g")
		joined := make(chan *kmsg.JoinGroupResponse)
		go func() { joined <- b.join(joinAs(3, "g", "", nil)) }()
		synctest.Wait()
		generation := a.join(joinAs(9, "g", idA, nil)).Generation
		idB := (<-joined).MemberID
		done := make(chan struct{})
		go func() {
			defer close(done)
			r := kmsg.NewPtrSyncGroupRequest()
			r.Version, r.Group, r.MemberID, r.Generation = 3, "g", idB, generation
			b.send(r)
			b.closed()
		}()
		synctest.Wait()
		require.NoError(t, b.nc.Close())
		<-done
		require.Zero(t, a.sync(5, "g", idA, generation, map[string]string{idA: "A", idB: "B"}).ErrorCode)
		again := newGroupClient(t, s)
		require.Equal(t, "B", string(again.sync(3, "g", idB, generation, nil).MemberAssignment))
	})
}

func TestStaticMembersComeBackWithoutARebalance(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c, instance := newGroupClient(t, s), kmsg.StringPtr("one")
		first := c.join(joinAs(9, "g", "", instance))
		require.Zero(t, first.ErrorCode, "static members need not come twice")
		require.True(t, strings.HasPrefix(first.MemberID, "one-"), first.MemberID)
		require.Equal(t, "one", *first.Members[0].InstanceID)
		require.Zero(t, c.sync(5, "g", first.MemberID, 1, map[string]string{first.MemberID: "share"}).ErrorCode)

		again := c.join(joinAs(9, "g", "", instance))
		require.Equal(t, []any{int16(0), int32(1), true, again.MemberID}, []any{again.ErrorCode, again.Generation, again.SkipAssignment, again.LeaderID})
		require.Len(t, again.Members, 1, "it watches their topics")
		require.NotEqual(t, first.MemberID, again.MemberID)
		require.Equal(t, "share", string(c.sync(5, "g", again.MemberID, 1, nil).MemberAssignment))
		require.Equal(t, "one", *c.describe(4, "g")[0].Members[0].InstanceID)

		// version 8 has no SkipAssignment: the answer names another leader
		old := c.join(joinAs(8, "g", "", instance))
		require.Equal(t, []any{int16(0), again.MemberID}, []any{old.ErrorCode, old.LeaderID})
		require.Empty(t, old.Members)

		require.Equal(t, FencedInstanceID, Code(c.join(joinAs(9, "g", first.MemberID, instance)).ErrorCode))
		fenced := &kmsg.HeartbeatRequest{Version: 4, Group: "g", MemberID: first.MemberID, InstanceID: instance, Generation: 1}
		require.Equal(t, FencedInstanceID, Code(c.ask(fenced).(*kmsg.HeartbeatResponse).ErrorCode))
		require.Equal(t, UnknownMemberID, c.heartbeat("g", first.MemberID, 1))

		// an administrator removes the member
		left := c.leave(5, "g", kmsg.LeaveGroupRequestMember{InstanceID: instance})
		require.Zero(t, left.Members[0].ErrorCode)
		require.Equal(t, "one", *left.Members[0].InstanceID)
		require.Equal(t, "Empty", c.state("g"))
	})
}

func TestSyncNamesItsProtocolFromVersion5On(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		id := c.alone("g")
		for _, names := range [][2]*string{{nil, kmsg.StringPtr("range")}, {kmsg.StringPtr("consumer"), nil}, {kmsg.StringPtr(""), kmsg.StringPtr("")},
			{kmsg.StringPtr("connect"), kmsg.StringPtr("range")}, {kmsg.StringPtr("consumer"), kmsg.StringPtr("sticky")}} {
			r := &kmsg.SyncGroupRequest{Version: 5, Group: "g", MemberID: id, Generation: 1, ProtocolType: names[0], Protocol: names[1]}
			got := c.ask(r).(*kmsg.SyncGroupResponse)
			require.Equal(t, InconsistentGroupProtocol, Code(got.ErrorCode))
			require.Nil(t, got.Protocol)
		}
		for v := range int16(5) {
			r := &kmsg.SyncGroupRequest{Version: v, Group: "g", MemberID: id, Generation: 1}
			require.Equal(t, "share", string(c.ask(r).(*kmsg.SyncGroupResponse).MemberAssignment))
		}
		require.Equal(t, UnknownMemberID, Code(c.sync(5, "g", "x", 1, nil).ErrorCode))
		for group, want := range map[string]Code{"": InvalidGroupID, "g": UnknownMemberID} {
			r := &kmsg.SyncGroupRequest{Version: 4, Group: group, MemberID: id, InstanceID: kmsg.StringPtr(""), Generation: 1}
			require.Equal(t, want, Code(c.ask(r).(*kmsg.SyncGroupResponse).ErrorCode))
		}
	})
}

func TestMembersThatAreSilentLoseTheirPlace(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		id := c.alone("g")
		for range 5 {
			time.Sleep(9 * time.Second)
			require.Zero(t, c.heartbeat("g", id, 1))
		}
		time.Sleep(11 * time.Second)
		require.Equal(t, UnknownMemberID, c.heartbeat("g", id, 1))
		require.Equal(t, "Empty", c.state("g"))
	})
}

func TestOldLeavesHaveOneMemberAndOneError(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		id := c.alone("g")
		for v := range int16(3) {
			require.Equal(t, UnknownMemberID, Code(c.leave(v, "g", kmsg.LeaveGroupRequestMember{MemberID: "x"}).ErrorCode))
			require.Equal(t, UnknownMemberID, Code(c.leave(v, "nobody", kmsg.LeaveGroupRequestMember{MemberID: "x"}).ErrorCode))
		}
		require.Zero(t, c.leave(0, "g", kmsg.LeaveGroupRequestMember{MemberID: id}).ErrorCode)
		require.Equal(t, "Empty", c.state("g"))
		r := c.leave(3, "nobody", kmsg.LeaveGroupRequestMember{MemberID: "x"}, kmsg.LeaveGroupRequestMember{InstanceID: kmsg.StringPtr("i")})
		require.Zero(t, r.ErrorCode)
		require.Equal(t, UnknownMemberID, Code(r.Members[0].ErrorCode))
		require.Equal(t, UnknownMemberID, Code(r.Members[1].ErrorCode))
	})
}

// A reason (KIP-800) is in the events of the group.
func TestReasonsOfJoinsAndDeparturesAreInTheEvents(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		events := s.of.GroupEvents(t.Context())
		c := newGroupClient(t, s)
		join := joinAs(9, "g", "", kmsg.StringPtr("i"))
		join.Reason = kmsg.StringPtr("a new machine")
		id := c.join(join).MemberID
		require.Zero(t, c.leave(5, "g", kmsg.LeaveGroupRequestMember{MemberID: id, InstanceID: kmsg.StringPtr("i"), Reason: kmsg.StringPtr("it is being replaced")}).ErrorCode)
		var reasons []string
		for e := range events {
			for _, cause := range e.Causes {
				reasons = append(reasons, fmt.Sprint(e.Kind, ": ", cause.Reason))
			}
			if e.Kind == group.Emptied {
				break
			}
		}
		require.Equal(t, []string{"joining: a new machine", "joined: a new machine", "emptied: a new machine", "emptied: it is being replaced"}, reasons)
	})
}

func TestGroupsAreListedByStateAndType(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		c.alone("g")
		c.commit(8, "offsets only", "", -1, 5, 0)
		list := func(v int16, states, types []string) (names []string) {
			r := c.ask(&kmsg.ListGroupsRequest{Version: v, StatesFilter: states, TypesFilter: types}).(*kmsg.ListGroupsResponse)
			require.Zero(t, r.ErrorCode)
			for _, g := range r.Groups {
				names = append(names, strings.Join([]string{g.Group, g.ProtocolType, g.GroupState, g.GroupType}, "/"))
			}
			return names
		}
		require.Equal(t, []string{"g/consumer//", "offsets only///"}, list(0, nil, nil))
		require.Equal(t, []string{"g/consumer/Stable/", "offsets only//Empty/"}, list(4, nil, nil))
		require.Equal(t, []string{"g/consumer/Stable/classic", "offsets only//Empty/classic"}, list(5, nil, nil))
		require.Equal(t, []string{"g/consumer/Stable/classic"}, list(5, []string{"STABLE", "what"}, []string{"Classic"}))
		require.Empty(t, list(5, []string{"what"}, nil))
		require.Empty(t, list(5, nil, []string{"consumer"}))
	})
}

func TestGroupsThatAreUnknownAreDescribedAsDead(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		for _, v := range []int16{0, 5} {
			d := c.describe(v, "nope")[0]
			require.Equal(t, []any{int16(0), "Dead", "nope"}, []any{d.ErrorCode, d.State, d.Group})
		}
		d := c.describe(6, "nope", "")
		require.Equal(t, []any{GroupIDNotFound, "Group nope not found.", "Dead"}, []any{Code(d[0].ErrorCode), *d[0].ErrorMessage, d[0].State})
		require.Equal(t, []any{GroupIDNotFound, "Group  not found."}, []any{Code(d[1].ErrorCode), *d[1].ErrorMessage})

		c.commit(8, "offsets only", "", -1, 5, 0)
		for version, unknown := range map[int16]int32{5: 3400, 6: -1 << 31} {
			r := c.ask(&kmsg.DescribeGroupsRequest{Version: version, Groups: []string{"nope", "offsets only"}, IncludeAuthorizedOperations: true}).(*kmsg.DescribeGroupsResponse)
			require.Equal(t, []any{unknown, int32(3400), "Empty"}, []any{r.Groups[0].AuthorizedOperations, r.Groups[1].AuthorizedOperations, r.Groups[1].State})
		}
	})
}

func TestGroupsAreDeletedWhenTheyHaveNoMembers(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		id := c.alone("g")
		c.commit(8, "offsets only", "", -1, 5, 0)
		del := func(v int16, groups ...string) (codes []Code) {
			for _, g := range c.ask(&kmsg.DeleteGroupsRequest{Version: v, Groups: groups}).(*kmsg.DeleteGroupsResponse).Groups {
				codes = append(codes, Code(g.ErrorCode))
			}
			return codes
		}
		require.Equal(t, []Code{NonEmptyGroup, GroupIDNotFound, GroupIDNotFound, 0}, del(2, "g", "nope", "", "nope", "offsets only"))
		require.Equal(t, []any{int64(-1), "", Code(0)}, c.fetch(7, "offsets only", "t", 0))
		c.leave(5, "g", kmsg.LeaveGroupRequestMember{MemberID: id})
		require.Equal(t, []Code{0}, del(0, "g"))
		require.Equal(t, "Dead", c.state("g"))
	})
}
