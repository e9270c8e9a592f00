package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
)

// shareOf encodes an assignment of partitions of t in the classic protocol.
func shareOf(partitions ...int32) string {
	a := assignor.Assignment{}
	for _, p := range partitions {
		a.Partitions = append(a.Partitions, record.TopicPartition{Topic: "t", Partition: p})
	}
	return string(a.AppendTo(nil))
}

// partitionsIn reads an assignment.
func (c *groupClient) partitionsIn(r *kmsg.SyncGroupResponse) (partitions []int32) {
	require.Zero(c.t, r.ErrorCode)
	a, err := assignor.ParseAssignment(r.MemberAssignment)
	require.NoError(c.t, err)
	for _, tp := range a.Partitions {
		partitions = append(partitions, tp.Partition)
	}
	return partitions
}

// reads makes a classic group of one member with both partitions of t, and returns the member's
// id.
func (c *groupClient) reads(group string) (memberID string) {
	first := c.join(joinAs(9, group, "", nil))
	joined := c.join(joinAs(9, group, first.MemberID, nil))
	require.Zero(c.t, joined.ErrorCode)
	require.Len(c.t, c.partitionsIn(c.sync(5, group, first.MemberID, joined.Generation, map[string]string{first.MemberID: shareOf(0, 1)})), 2)
	return first.MemberID
}

// TestGroupChangesItsProtocolWhileItsMembersLive upgrades a group, and downgrades it again.
func TestGroupChangesItsProtocolWhileItsMembersLive(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		old := c.reads("g")
		require.Zero(t, c.commit(8, "g", old, 1, 5, 0)[0])
		require.Equal(t, beatOK+" 2 []", heard(c.beat(c.beatRequest(s, "g", "m1", 0))), "what the other one has is not free")
		require.Equal(t, RebalanceInProgress, c.heartbeat("g", old, 1))
		require.Equal(t, beatOK+" 2 -", heard(c.beat(c.beatRequest(s, "g", "m1", 2))))

		rejoin := joinAs(9, "g", old, nil)
		rejoin.Protocols[0].Metadata[1] = 1 // version 1 with the fields of version 3
		joined := c.join(rejoin)
		require.Zero(t, joined.ErrorCode)
		require.Equal(t, []any{int32(2), "", old, "range"}, []any{joined.Generation, joined.LeaderID, joined.MemberID, *joined.Protocol})
		require.Empty(t, joined.Members, "it does not assign")
		synced := c.sync(5, "g", old, 2, nil)
		require.Equal(t, []int32{0}, c.partitionsIn(synced))
		require.Equal(t, []byte{0, 1}, synced.MemberAssignment[:2], "in the version that it speaks")
		require.Equal(t, beatOK+" 2 [1]", heard(c.beat(c.beatRequest(s, "g", "m1", 2))))
		require.Zero(t, c.heartbeat("g", old, 2))
		require.Equal(t, IllegalGeneration, c.heartbeat("g", old, 3))
		require.Equal(t, UnknownMemberID, c.heartbeat("g", "m1", 2), "it does not speak the classic protocol")

		require.Zero(t, c.commit(8, "g", old, 2, 6, 0)[0], "in the version of old clients")
		require.Equal(t, IllegalGeneration, c.commit(8, "g", old, 3, 7, 0)[0])
		require.Equal(t, IllegalGeneration, c.commit(8, "g", old, 1, 7, 1)[0], "it has given that one up")
		d := c.ask(&kmsg.ConsumerGroupDescribeRequest{Version: 1, Groups: []string{"g"}}).(*kmsg.ConsumerGroupDescribeResponse).Groups[0]
		require.Equal(t, "Stable", d.State)
		kinds := map[string]int8{}
		for _, m := range d.Members {
			kinds[m.MemberID] = m.MemberType
		}
		require.Equal(t, map[string]int8{old: 0, "m1": 1}, kinds)

		require.Zero(t, c.beat(c.beatRequest(s, "g", "m1", -1)).ErrorCode)
		require.Equal(t, "PreparingRebalance", c.state("g"))
		require.Equal(t, RebalanceInProgress, c.heartbeat("g", old, 2))
		joined = c.join(joinAs(9, "g", old, nil))
		require.Equal(t, []any{int32(3), old, 1}, []any{joined.Generation, joined.LeaderID, len(joined.Members)}, "it assigns again")
		require.Len(t, c.partitionsIn(c.sync(5, "g", old, 3, map[string]string{old: shareOf(0, 1)})), 2)
		require.Equal(t, "Stable", c.state("g"))
		require.EqualValues(t, 6, c.fetchOffset("g", "", -1))
	})
}

// TestMembersOfTheClassicProtocolAreGivenTimeToJoinAgain has a member in each of two groups. Both
// send heartbeats. One does not join again, the other joins and does not fetch its assignment.
func TestMembersOfTheClassicProtocolAreGivenTimeToJoinAgain(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		for group, joins := range map[string]bool{"deaf": false, "mute": true} {
			old := c.reads(group)
			require.Equal(t, beatOK+" 2 []", heard(c.beat(c.beatRequest(s, group, "m1", 0))))
			require.Equal(t, RebalanceInProgress, c.heartbeat(group, old, 1))
			generation := int32(1)
			if joins {
				generation = c.join(joinAs(9, group, old, nil)).Generation
			}
			for range 3 {
				time.Sleep(6 * time.Second)
				require.NotEqual(t, UnknownMemberID, c.heartbeat(group, old, generation), group)
			}
			time.Sleep(6 * time.Second)
			require.Equal(t, UnknownMemberID, c.heartbeat(group, old, generation), group)
			time.Sleep(time.Second)
			require.Equal(t, beatOK+" 3 [0 1]", heard(c.beat(c.beatRequest(s, group, "m1", 2))))

			// the member cannot join again under its old id with partitions that another member
			// owns now; in Kafka it can
			late := joinAs(9, group, old, nil)
			late.Protocols[0].Metadata = assignor.Subscription{Topics: []string{"t"}, Owned: []record.TopicPartition{{Topic: "t"}}}.AppendTo(nil)
			require.Equal(t, UnknownMemberID, Code(c.join(late).ErrorCode))
		}
	})
}

// TestStaticMemberChangesItsProtocol replaces a static member by one of the other protocol, and
// back.
func TestStaticMemberChangesItsProtocol(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		instance := "i"
		joined := c.join(joinAs(9, "g", "", &instance))
		require.Zero(t, joined.ErrorCode)
		first := joined.MemberID
		sync := func(id string, generation int32, shares map[string]string) *kmsg.SyncGroupResponse {
			r := kmsg.NewPtrSyncGroupRequest()
			r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = 5, "g", id, generation, &instance
			r.ProtocolType, r.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
			for id, share := range shares {
				r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(share)})
			}
			return c.ask(r).(*kmsg.SyncGroupResponse)
		}
		require.Len(t, c.partitionsIn(sync(first, 1, map[string]string{first: shareOf(0, 1)})), 2)
		beat := c.beatRequest(s, "g", "m1", 0)
		beat.InstanceID = &instance
		require.Equal(t, beatOK+" 1 [0 1]", heard(c.beat(beat)), "it has what it had")
		require.Equal(t, FencedInstanceID, Code(sync(first, 1, nil).ErrorCode))

		joined = c.join(joinAs(9, "g", "", &instance))
		require.Zero(t, joined.ErrorCode)
		require.NotEqual(t, first, joined.MemberID)
		require.Equal(t, "Stable", c.state("g"), "a classic group again")
		require.Equal(t, []int32{0, 1}, c.partitionsIn(sync(joined.MemberID, joined.Generation, nil)))
		require.Equal(t, GroupIDNotFound, Code(c.ask(&kmsg.ConsumerGroupDescribeRequest{Version: 1, Groups: []string{"g"}}).(*kmsg.ConsumerGroupDescribeResponse).Groups[0].ErrorCode))
		require.Equal(t, FencedInstanceID, Code(c.beat(func() *kmsg.ConsumerGroupHeartbeatRequest {
			r := c.beatRequest(s, "g", "m2", 0)
			r.InstanceID = &instance
			require.Equal(t, beatOK, Code(c.beat(r).ErrorCode).String())
			r = c.beatRequest(s, "g", "m1", 1, 0, 1)
			r.InstanceID = &instance
			return r
		}()).ErrorCode), "and back: who was there before is fenced")
	})
}
