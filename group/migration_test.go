package group

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/group/protocol"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// TestPolicySaysWhetherGroupsChangeTheirProtocol upgrades and downgrades under each policy.
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
