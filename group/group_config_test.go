package group

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/internal/sharing"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func set(key, value string) replication.ConfigChange {
	return replication.ConfigChange{Key: key, Value: value}
}

// A silent member exceeds the session timeout that its group's configuration sets. A member of a
// group without configuration stays.
func TestConfigurationOfAGroupCountsAtOnceAndAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.Mem()
		for run := range 2 {
			brokers, err := replication.Open(replication.Config{FS: fs, Dir: "d"})
			require.NoError(t, err)
			c, err := NewCoordinator(ClusterStore(brokers), Config{ConsumerMinSessionTimeout: 6 * time.Second})
			require.NoError(t, err)
			ctx := t.Context()
			if run == 0 {
				require.NoError(t, brokers.CreateTopic(ctx, "t", topic.Config{Partitions: 2}))
				require.NoError(t, c.AlterGroupConfig(ctx, ConfigAlteration{Group: "g", Changes: []replication.ConfigChange{
					set("consumer.session.timeout.ms", "10000"), set("consumer.heartbeat.interval.ms", "7000")}}))
			}
			beat := ConsumerHeartbeatRequest{MemberID: "m", RebalanceTimeout: time.Minute, SubscribedTopics: []string{"t"}, Owned: []offsets.TopicIDPartitions{}, ClientHost: "/1"}
			for group, want := range map[string]time.Duration{"g": 7 * time.Second, "other": 5 * time.Second} {
				beat.Group = group
				resp, err := c.ConsumerHeartbeat(ctx, beat)
				require.NoError(t, err)
				require.Equal(t, want, resp.HeartbeatInterval)
			}
			time.Sleep(11 * time.Second)
			synctest.Wait()
			for group, members := range map[string]int{"g": 0, "other": 1} {
				info, err := c.Group(ctx, group)
				require.NoError(t, err)
				require.Len(t, info.Members, members, "%s in run %d", group, run)
			}
			require.NoError(t, c.Close())
			require.NoError(t, brokers.Close())
		}
	})
}

func TestConfigurationThatNoGroupCanGoByIsRefused(t *testing.T) {
	brokers, err := replication.Open(replication.Config{})
	require.NoError(t, err)
	defer brokers.Close()
	c, err := NewCoordinator(ClusterStore(brokers), Config{ConsumerHeartbeatInterval: 20 * time.Second})
	require.NoError(t, err)
	defer checkEvents(t, c)()
	defer c.Close()
	alter := func(dry bool, changes ...replication.ConfigChange) error {
		return c.AlterGroupConfig(t.Context(), ConfigAlteration{Group: "g", Changes: changes, DryRun: dry})
	}
	for _, dry := range []bool{true, false} {
		for _, ch := range []replication.ConfigChange{
			set("consumer.session.timeout.ms", "x"), set("consumer.session.timeout.ms", "60001"), set("consumer.session.timeout.ms", "44999"),
			set("consumer.heartbeat.interval.ms", "20001"), set("no.such", "1"), set("consumer.assignment.interval.ms", "-1"),
			{Key: "consumer.session.timeout.ms", Op: replication.AppendConfig, Value: "1"},
		} {
			var bad *topic.ConfigError
			require.ErrorAs(t, alter(dry, ch), &bad, "%+v", ch)
			require.Equal(t, ch.Key, bad.Key)
		}
		require.NoError(t, alter(dry, set("consumer.heartbeat.interval.ms", "20000")), "the bounds reach as far as what all go by")
		require.Equal(t, !dry, c.ConfigEntries("g")[1].IsSet)
	}
	require.ErrorIs(t, c.AlterGroupConfig(t.Context(), ConfigAlteration{}), ErrInvalidGroupID)
	without, err := NewCoordinator(newFakeStore(nil), Config{})
	require.NoError(t, err)
	defer without.Close()
	require.ErrorIs(t, without.AlterGroupConfig(t.Context(), ConfigAlteration{Group: "g"}), errors.ErrUnsupported)
}

// Kafka: GroupConfig.evaluate.
func TestConfigurationSetUnderOtherBoundsIsKeptWithinThem(t *testing.T) {
	cfg, err := Config{}.withDefaults()
	require.NoError(t, err)
	for value, want := range map[string]int64{"1": 45_000, "50000": 50_000, "99999999": 60_000, "x": 45_000} {
		require.Equal(t, want, lookupConfigKey(consumerSessionKey).effective(&cfg, map[string]string{"consumer.session.timeout.ms": value}), value)
	}
	for field, bad := range map[string]Config{
		"low":           {ConsumerMinSessionTimeout: 50 * time.Second},
		"high":          {ConsumerMaxHeartbeatInterval: time.Second},
		"none":          {ConsumerMaxAssignmentInterval: time.Millisecond},
		"share low":     {ShareMinSessionTimeout: 50 * time.Second},
		"share high":    {ShareMaxHeartbeatInterval: time.Second},
		"share records": {ShareRecords: ShareRecords{MaxInFlight: -1}},
	} {
		var refused *topic.ConfigError
		require.ErrorAs(t, bad.Validate(), &refused, field)
	}
}

// Checklist row S19.
func TestShareGroupsBeginWhereTheyAreConfiguredTo(t *testing.T) {
	now := time.UnixMilli(10_000_000_000)
	at := func(d time.Duration) partition.OffsetSpec { return partition.At(now.Add(-d)) }
	for value, want := range map[string]partition.OffsetSpec{"latest": partition.Latest, "earliest": partition.Earliest,
		"by_duration:PT1H": at(time.Hour), "by_duration:P1DT2H3M4.5S": at(26*time.Hour + 3*time.Minute + 4500*time.Millisecond), "by_duration:pt0s": at(0)} {
		got, err := parseShareReset(value, now)
		require.NoError(t, err, value)
		require.Equal(t, want, got, value)
	}
	for _, bad := range []string{"", "none", "LATEST", "by_duration:", "by_duration:1h", "by_duration:P", "by_duration:PT", "by_duration:P1DT", "by_duration:-PT1H", "by_duration:P999999DT99999999H"} {
		_, err := parseShareReset(bad, now)
		require.Error(t, err, bad)
	}
	brokers, err := replication.Open(replication.Config{})
	require.NoError(t, err)
	defer brokers.Close()
	c, err := NewCoordinator(ClusterStore(brokers), Config{})
	require.NoError(t, err)
	defer checkEvents(t, c)()
	defer c.Close()
	require.Equal(t, partition.Latest, c.ShareReset("g"))
	require.NoError(t, c.AlterGroupConfig(t.Context(), ConfigAlteration{Group: "g", Changes: []replication.ConfigChange{set("share.auto.offset.reset", "earliest")}}))
	require.Equal(t, partition.Earliest, c.ShareReset("g"))
	require.Equal(t, partition.ReadUncommitted, c.ShareIsolation("g"))
	require.NoError(t, c.AlterGroupConfig(t.Context(), ConfigAlteration{Group: "g", Changes: []replication.ConfigChange{set("share.isolation.level", "read_committed")}}))
	require.Equal(t, partition.ReadCommitted, c.ShareIsolation("g"))
	require.Equal(t, partition.Latest, c.ShareReset("other"))
	var refused *topic.ConfigError
	require.ErrorAs(t, c.AlterGroupConfig(t.Context(), ConfigAlteration{Group: "g", Changes: []replication.ConfigChange{set("share.auto.offset.reset", "none")}}), &refused)
}

// Checklist row S21.
func TestShareGroupsAreConfiguredOneByOne(t *testing.T) {
	brokers, err := replication.Open(replication.Config{})
	require.NoError(t, err)
	defer brokers.Close()
	c, err := NewCoordinator(ClusterStore(brokers), Config{ShareRecords: ShareRecords{MaxInFlight: 50}})
	require.NoError(t, err)
	defer checkEvents(t, c)()
	defer c.Close()
	all := ShareRecords{LockDuration: 30 * time.Second, MaxDeliveryCount: 5, MaxInFlight: 50}
	require.Equal(t, all, c.ShareRecords("g"))
	alter := func(changes ...replication.ConfigChange) error {
		return c.AlterGroupConfig(t.Context(), ConfigAlteration{Group: "g", Changes: changes})
	}
	require.NoError(t, alter(set("share.record.lock.duration.ms", "17000"), set("share.delivery.count.limit", "2"),
		set("share.partition.max.record.locks", "4000"), set("share.renew.acknowledge.enable", "False"),
		set("share.session.timeout.ms", "50000"), set("share.heartbeat.interval.ms", "6000"), set("share.assignment.interval.ms", "0")))
	require.Equal(t, ShareRecords{17 * time.Second, 2, 4000, true}, c.ShareRecords("g"))
	require.Equal(t, sharing.Timeouts{Session: 50 * time.Second, Heartbeat: 6 * time.Second}, c.shareTimeouts("g"))
	require.Equal(t, all, c.ShareRecords("other"))
	require.Equal(t, sharing.Timeouts{Session: 45 * time.Second, Heartbeat: 5 * time.Second, Assignment: time.Second}, c.shareTimeouts("other"))
	require.NoError(t, alter(set("share.renew.acknowledge.enable", "TRUE")))
	require.False(t, c.ShareRecords("g").NoRenewal)
	for key, values := range map[string][]string{
		"share.record.lock.duration.ms":    {"14999", "60001", "x"},
		"share.delivery.count.limit":       {"1", "11"},
		"share.partition.max.record.locks": {"99", "4001"},
		"share.renew.acknowledge.enable":   {"", "yes"},
		"share.session.timeout.ms":         {"44999", "60001"},
		"share.heartbeat.interval.ms":      {"4999", "15001"},
		"share.assignment.interval.ms":     {"-1", "15001"},
	} {
		for _, value := range values {
			var refused *topic.ConfigError
			require.ErrorAs(t, alter(set(key, value)), &refused, key+"="+value)
		}
	}
}
