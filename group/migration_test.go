package group

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// Groups upgrade and downgrade under each policy.
func TestPolicySaysWhetherGroupsChangeTheirProtocol(t *testing.T) {
	for policy, want := range map[MigrationPolicy][2]bool{MigrateBoth: {true, true}, MigrateUpgrade: {true, false}, MigrateDowngrade: {false, true}, MigrateNever: {false, false}} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { migrates(t, policy, want[0], want[1]) })
		})
	}
	_, err := ParseMigrationPolicy("sometimes")
	var bad *topic.ConfigError
	require.ErrorAs(t, err, &bad)
	policy, err := ParseMigrationPolicy(" Upgrade")
	require.NoError(t, err)
	require.Equal(t, MigrateUpgrade, policy)
	require.ErrorAs(t, Config{ConsumerMigration: 4}.Validate(), &bad)
}

func migrates(t *testing.T, policy MigrationPolicy, up, down bool) {
	brokers, err := replication.Open(replication.Config{})
	require.NoError(t, err)
	defer brokers.Close()
	c, err := NewCoordinator(ClusterStore(brokers), Config{ConsumerMigration: policy})
	require.NoError(t, err)
	defer checkEvents(t, c)()
	defer c.Close()
	ctx := t.Context()
	require.NoError(t, brokers.CreateTopic(ctx, "t", topic.Config{Partitions: 2}))
	classic := func(group string) error {
		_, err := c.Join(ctx, JoinRequest{Group: group, ProtocolType: ProtocolTypeConsumer, SessionTimeout: 10 * time.Second,
			Protocols: []assignor.Protocol{{Name: "range", Metadata: assignor.Subscription{Topics: []string{"t"}}.AppendTo(nil)}}})
		return err
	}
	beat := func(group string, epoch int32) error {
		_, err := c.ConsumerHeartbeat(ctx, ConsumerHeartbeatRequest{Group: group, MemberID: "m", MemberEpoch: epoch, RebalanceTimeout: time.Minute,
			SubscribedTopics: []string{"t"}, Owned: []offsets.TopicIDPartitions{}})
		return err
	}
	is := func(group string, want protocol.GroupType) {
		info, err := c.Group(ctx, group)
		require.NoError(t, err)
		require.Equal(t, want, info.Type)
	}
	require.NoError(t, classic("up"))
	err = beat("up", 0)
	require.Equal(t, up, err == nil, "%v", err)
	require.Equal(t, !up, errors.Is(err, ErrGroupNotFound))
	is("up", map[bool]protocol.GroupType{true: Consumer, false: Classic}[up])

	require.NoError(t, beat("down", 0))
	require.NoError(t, classic("down"), "members of the classic protocol may join under any policy")
	require.NoError(t, beat("down", -1))
	is("down", map[bool]protocol.GroupType{true: Classic, false: Consumer}[down])
}

// REBALANCE_IN_PROGRESS before the next target is computed makes a classic member join again and
// again for an assignment interval. Kafka 4.3 compares with the target's epoch, too. If only
// classic members are left it computes no target; here they join again.
func TestClassicMemberIsToldToJoinAgainOnlyWhenThereIsSomethingForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		brokers, err := replication.Open(replication.Config{})
		require.NoError(t, err)
		defer brokers.Close()
		c, err := NewCoordinator(ClusterStore(brokers), Config{ConsumerMigration: MigrateUpgrade})
		require.NoError(t, err)
		defer checkEvents(t, c)()
		defer c.Close()
		ctx := t.Context()
		require.NoError(t, brokers.CreateTopic(ctx, "t", topic.Config{Partitions: 2}))
		beat := func(epoch int32, owned []offsets.TopicIDPartitions) ConsumerHeartbeatResponse {
			r, err := c.ConsumerHeartbeat(ctx, ConsumerHeartbeatRequest{Group: "g", MemberID: "modern", MemberEpoch: epoch, RebalanceTimeout: time.Minute,
				SubscribedTopics: []string{"t"}, Owned: owned})
			require.NoError(t, err)
			return r
		}
		id := ""
		join := func() int32 {
			r, err := c.Join(ctx, JoinRequest{Group: "g", MemberID: id, ProtocolType: ProtocolTypeConsumer, SessionTimeout: 10 * time.Second,
				Protocols: []assignor.Protocol{{Name: "range", Metadata: assignor.Subscription{Topics: []string{"t"}}.AppendTo(nil)}}})
			require.NoError(t, err)
			id = r.MemberID
			return r.Generation
		}
		sync := func(generation int32) int {
			r, err := c.Sync(ctx, SyncRequest{Group: "g", MemberID: id, Generation: generation, ProtocolType: ProtocolTypeConsumer, ProtocolName: "range"})
			require.NoError(t, err)
			share, err := assignor.ParseAssignment(r.Assignment)
			require.NoError(t, err)
			return len(share.Partitions)
		}
		heartbeat := func(generation int32) error {
			return c.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: id, Generation: generation})
		}

		first := beat(0, []offsets.TopicIDPartitions{})
		generation := join()
		require.Equal(t, first.MemberEpoch, generation, "the last target is younger than its interval")
		require.Zero(t, sync(generation))
		require.NoError(t, heartbeat(generation))
		time.Sleep(1001 * time.Millisecond)
		require.NoError(t, heartbeat(generation), "the next target comes with a heartbeat of the other member")
		less := beat(first.MemberEpoch, first.Assignment)
		require.ErrorIs(t, heartbeat(generation), ErrRebalanceInProgress)

		beat(less.MemberEpoch, less.Assignment)
		generation = join()
		require.Equal(t, 1, sync(generation))
		require.NoError(t, heartbeat(generation))

		beat(-1, nil) // only the classic member is left to trigger a target
		time.Sleep(1001 * time.Millisecond)
		require.ErrorIs(t, heartbeat(generation), ErrRebalanceInProgress)
		generation = join()
		require.Equal(t, 2, sync(generation))
	})
}
