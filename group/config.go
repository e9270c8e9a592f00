package group

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/topic"
)

// Unlimited disables a limit where 0 means a default.
const Unlimited = -1

// Config describes a Coordinator. The zero Config is valid.
type Config struct {
	// InitialRebalanceDelay is the time that a new group waits for more members before its first
	// rebalance. 0 means no wait, which suits members in one process. Kafka's default is 3 s, for
	// the startup of several processes. Kafka: group.initial.rebalance.delay.ms.
	InitialRebalanceDelay time.Duration

	// MinSessionTimeout and MaxSessionTimeout bound the session timeouts of members. 0 means 6 s
	// and 30 min. Kafka: group.min.session.timeout.ms, group.max.session.timeout.ms.
	MinSessionTimeout, MaxSessionTimeout time.Duration

	// MaxSize is the maximum number of members of a group. 0 means no limit. Kafka: group.max.size.
	MaxSize int

	// OffsetsRetention is the time for which the offsets of a group without members are kept, and
	// offsets of topics that the group no longer subscribes to. In a group of the classic protocol
	// it begins when the last member leaves, in one of the newer protocol when the offset is
	// committed, as in Kafka. 0 or Unlimited keeps offsets for ever, so that a group continues
	// where it stopped even after months. Kafka's default is 7 days. Kafka:
	// offsets.retention.minutes.
	OffsetsRetention time.Duration

	// ExpiryInterval is the interval between removals of expired offsets and of empty groups. 0
	// means 10 min. Kafka: offsets.retention.check.interval.ms.
	ExpiryInterval time.Duration

	// OffsetMetadataMax is the maximum length of the metadata of a committed offset, in UTF-16
	// units. 0 means 4096. Kafka: offset.metadata.max.bytes.
	OffsetMetadataMax int

	// OffsetsPartitions is the number of partitions of a new offsets topic. 0 means 50. Kafka:
	// offsets.topic.num.partitions.
	OffsetsPartitions int32

	// OffsetsReplicas is the replication factor of a new offsets topic. 0 means 3, or the number of
	// brokers if that is less. Kafka: offsets.topic.replication.factor.
	OffsetsReplicas int

	// ConsumerSessionTimeout is the time without a heartbeat after which a member of the newer
	// protocol is removed. ConsumerHeartbeatInterval is the interval of heartbeats in the
	// coordinator's responses. 0 means 45 s and 5 s. Kafka: group.consumer.session.timeout.ms,
	// group.consumer.heartbeat.interval.ms.
	ConsumerSessionTimeout, ConsumerHeartbeatInterval time.Duration

	// Bounds of consumer.session.timeout.ms and consumer.heartbeat.interval.ms of a single group,
	// see Coordinator.AlterGroupConfig. 0 means 45 s to 60 s, and 5 s to 15 s, extended to the
	// fields above if these lie outside. Kafka: group.consumer.min.session.timeout.ms,
	// group.consumer.max.session.timeout.ms, group.consumer.min.heartbeat.interval.ms,
	// group.consumer.max.heartbeat.interval.ms.
	ConsumerMinSessionTimeout, ConsumerMaxSessionTimeout       time.Duration
	ConsumerMinHeartbeatInterval, ConsumerMaxHeartbeatInterval time.Duration

	// ConsumerMaxSize is the maximum number of members of a group of the newer protocol. 0 means no
	// limit. Kafka: group.consumer.max.size.
	ConsumerMaxSize int

	// ConsumerMigration selects whether a group with members may change to the other protocol. 0
	// means MigrateBoth. Kafka: group.consumer.migration.policy.
	ConsumerMigration MigrationPolicy

	// ConsumerAssignmentInterval is the minimum time between two target assignments of a group.
	// Members that join in between are included in the second. 0 means 1 s, Unlimited means no
	// minimum. Kafka: group.consumer.assignment.interval.ms.
	ConsumerAssignmentInterval time.Duration

	// ConsumerMaxAssignmentInterval bounds consumer.assignment.interval.ms of a single group. 0
	// means 15 s, or ConsumerAssignmentInterval if that is longer. Kafka:
	// group.consumer.max.assignment.interval.ms.
	ConsumerMaxAssignmentInterval time.Duration

	// ShareSessionTimeout is the time without a heartbeat after which a member of a share group is
	// removed. ShareHeartbeatInterval is the interval of heartbeats in the coordinator's responses.
	// 0 means 45 s and 5 s. Kafka: group.share.session.timeout.ms,
	// group.share.heartbeat.interval.ms.
	ShareSessionTimeout, ShareHeartbeatInterval time.Duration

	// Bounds of share.session.timeout.ms, share.heartbeat.interval.ms and
	// share.assignment.interval.ms of a single share group, see Coordinator.AlterGroupConfig. 0
	// means 45 s to 60 s, 5 s to 15 s, and up to 15 s, extended to the settings for all share
	// groups if these lie outside. Kafka: group.share.min.session.timeout.ms,
	// group.share.max.session.timeout.ms, group.share.min.heartbeat.interval.ms,
	// group.share.max.heartbeat.interval.ms, group.share.max.assignment.interval.ms.
	ShareMinSessionTimeout, ShareMaxSessionTimeout       time.Duration
	ShareMinHeartbeatInterval, ShareMaxHeartbeatInterval time.Duration
	ShareMaxAssignmentInterval                           time.Duration

	// ShareRecords are the defaults for handing out records to share groups. The configuration of a
	// single group takes precedence. strata.Open sets them from its Config.Shares.
	ShareRecords ShareRecords

	// ShareMaxSize is the maximum number of members of a share group. 0 means 200. Kafka:
	// group.share.max.size.
	ShareMaxSize int

	// ShareAssignmentInterval is ConsumerAssignmentInterval for share groups. 0 means 1 s,
	// Unlimited means no minimum. Kafka: group.share.assignment.interval.ms.
	ShareAssignmentInterval time.Duration

	// Streams configures streams groups.
	Streams StreamsConfig

	// MaxBatchBytes bounds one batch in the offsets topic, and thus one request: larger ones fail
	// with ErrTooLarge. 0 means 1 MiB. Kafka: max.message.bytes.
	MaxBatchBytes int

	// Components. nil means the default.
	Logger *slog.Logger // discards everything

	// ConsumerAssignors assign the partitions of groups of the newer protocol. Members choose one
	// by name; the first is the default. They must not be cooperative. In their input, Owned of a
	// member is its previous target assignment. nil means assignor.Uniform and assignor.Range.
	// Kafka: group.consumer.assignors.
	ConsumerAssignors []assignor.Assignor
	Hooks             Hooks

	// ShareStates stores the states of share groups' records. nil stores nothing. A strata.Cluster
	// always uses its own.
	ShareStates ShareStates
}

// A MigrationPolicy selects the directions in which groups with members may change their protocol.
// A group without members takes the protocol of its next member.
type MigrationPolicy uint8

// The policies. A classic group is upgraded to the newer protocol when a member that uses it joins.
// It is downgraded when the last such member leaves and classic members remain. Kafka:
// ConsumerGroupMigrationPolicy.
const (
	MigrateBoth      MigrationPolicy = iota // bidirectional
	MigrateUpgrade                          // upgrade
	MigrateDowngrade                        // downgrade
	MigrateNever                            // disabled
)

var migrationNames = [...]string{"bidirectional", "upgrade", "downgrade", "disabled"}

// String returns Kafka's name of the policy.
func (p MigrationPolicy) String() string {
	if int(p) >= len(migrationNames) {
		return fmt.Sprintf("MigrationPolicy(%d)", uint8(p))
	}
	return migrationNames[p]
}

// ParseMigrationPolicy parses Kafka's name of a policy, in any case.
func ParseMigrationPolicy(name string) (MigrationPolicy, error) {
	i := slices.Index(migrationNames[:], strings.ToLower(strings.TrimSpace(name)))
	if i < 0 {
		return 0, refused("ConsumerMigration", name, "is none of "+strings.Join(migrationNames[:], ", "))
	}
	return MigrationPolicy(i), nil
}

func (p MigrationPolicy) directions() modern.Migration {
	return modern.Migration{Upgrade: p == MigrateBoth || p == MigrateUpgrade, Downgrade: p == MigrateBoth || p == MigrateDowngrade}
}

// Hooks are called on events. They are called without locks and must not block.
type Hooks struct {
	// OnRebalanced is called when a group has a new generation: its members have joined, or the
	// last one has left. It is also called when a group of another type has a new target
	// assignment; then Protocol names the assignor and Generation is the epoch. Events has more.
	OnRebalanced func(Rebalanced)
}

// refused returns the error for an invalid field.
func refused(field string, v any, reason string) error {
	return &topic.ConfigError{Key: field, Value: fmt.Sprint(v), Reason: reason}
}

// Validate returns nil if NewCoordinator accepts c, apart from conditions on the brokers. Otherwise
// it returns a *topic.ConfigError for each invalid field, joined.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults returns c with every 0 replaced, or an error for its invalid fields.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	positive := func(name string, d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
		if *d < 0 {
			errs = append(errs, refused(name, *d, "is negative"))
		}
	}
	positive("InitialRebalanceDelay", &c.InitialRebalanceDelay, 0)
	positive("MinSessionTimeout", &c.MinSessionTimeout, 6*time.Second)
	positive("MaxSessionTimeout", &c.MaxSessionTimeout, 30*time.Minute)
	positive("ExpiryInterval", &c.ExpiryInterval, 10*time.Minute)
	positive("ConsumerSessionTimeout", &c.ConsumerSessionTimeout, 45*time.Second)
	positive("ConsumerHeartbeatInterval", &c.ConsumerHeartbeatInterval, 5*time.Second)
	if c.ConsumerHeartbeatInterval >= c.ConsumerSessionTimeout {
		errs = append(errs, refused("ConsumerHeartbeatInterval", c.ConsumerHeartbeatInterval, fmt.Sprintf("is not below ConsumerSessionTimeout, %v", c.ConsumerSessionTimeout)))
	}
	if c.ConsumerAssignmentInterval == Unlimited {
		c.ConsumerAssignmentInterval = 1 // shorter than the log's resolution
	}
	positive("ConsumerAssignmentInterval", &c.ConsumerAssignmentInterval, time.Second)
	errs = append(errs, c.boundConsumers()...)
	errs = append(errs, c.withShareDefaults()...)
	errs = append(errs, c.Streams.withDefaults()...)
	if int(c.ConsumerMigration) >= len(migrationNames) {
		errs = append(errs, refused("ConsumerMigration", c.ConsumerMigration, "is no policy"))
	}
	if c.ConsumerAssignors == nil {
		c.ConsumerAssignors = []assignor.Assignor{assignor.Uniform(), assignor.Range()}
	}
	errs = append(errs, checkAssignors(c.ConsumerAssignors)...)
	if c.OffsetsRetention == Unlimited {
		c.OffsetsRetention = 0
	}
	positive("OffsetsRetention", &c.OffsetsRetention, 0)
	if c.MinSessionTimeout > c.MaxSessionTimeout {
		errs = append(errs, refused("MinSessionTimeout", c.MinSessionTimeout, fmt.Sprintf("is above MaxSessionTimeout, %v", c.MaxSessionTimeout)))
	}
	notNegative := func(name string, n int) {
		if n < 0 {
			errs = append(errs, refused(name, n, "is negative"))
		}
	}
	notNegative("MaxSize", c.MaxSize)
	notNegative("ConsumerMaxSize", c.ConsumerMaxSize)
	notNegative("OffsetMetadataMax", c.OffsetMetadataMax)
	notNegative("OffsetsPartitions", int(c.OffsetsPartitions))
	notNegative("OffsetsReplicas", c.OffsetsReplicas)
	notNegative("MaxBatchBytes", c.MaxBatchBytes)
	if c.OffsetMetadataMax == 0 {
		c.OffsetMetadataMax = 4096
	}
	if c.OffsetMetadataMax > 10_000 {
		errs = append(errs, refused("OffsetMetadataMax", c.OffsetMetadataMax, "is above 10000, which is what the record's format holds in any script"))
	}
	if c.OffsetsPartitions == 0 {
		c.OffsetsPartitions = 50
	}
	if c.MaxBatchBytes == 0 {
		c.MaxBatchBytes = 1 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}

// boundConsumers fills in the bounds of the configuration of single consumer groups.
func (c *Config) boundConsumers() (errs []error) {
	var none time.Duration
	return slices.Concat(
		bound("ConsumerMinSessionTimeout", "ConsumerMaxSessionTimeout", &c.ConsumerMinSessionTimeout, &c.ConsumerMaxSessionTimeout,
			c.ConsumerSessionTimeout, 45*time.Second, time.Minute),
		bound("ConsumerMinHeartbeatInterval", "ConsumerMaxHeartbeatInterval", &c.ConsumerMinHeartbeatInterval, &c.ConsumerMaxHeartbeatInterval,
			c.ConsumerHeartbeatInterval, 5*time.Second, 15*time.Second),
		bound("", "ConsumerMaxAssignmentInterval", &none, &c.ConsumerMaxAssignmentInterval, c.ConsumerAssignmentInterval, 0, 15*time.Second))
}

// boundShares is boundConsumers for share groups.
func (c *Config) boundShares() (errs []error) {
	var none time.Duration
	return slices.Concat(
		bound("ShareMinSessionTimeout", "ShareMaxSessionTimeout", &c.ShareMinSessionTimeout, &c.ShareMaxSessionTimeout,
			c.ShareSessionTimeout, 45*time.Second, time.Minute),
		bound("ShareMinHeartbeatInterval", "ShareMaxHeartbeatInterval", &c.ShareMinHeartbeatInterval, &c.ShareMaxHeartbeatInterval,
			c.ShareHeartbeatInterval, 5*time.Second, 15*time.Second),
		bound("", "ShareMaxAssignmentInterval", &none, &c.ShareMaxAssignmentInterval, c.ShareAssignmentInterval, 0, 15*time.Second))
}

// bound fills in the lowest and the highest value of a setting of single groups, where they are 0.
// It returns errors unless static, the value for all groups, is between them.
func bound(lowest, highest string, low, high *time.Duration, static, defLow, defHigh time.Duration) (errs []error) {
	if *low == 0 {
		*low = min(defLow, static)
	}
	if *high == 0 {
		*high = max(defHigh, static)
	}
	if *low < 0 || *low > static {
		errs = append(errs, refused(lowest, *low, fmt.Sprintf("is not between 0 and what all groups go by, %v", static)))
	}
	if *high < static {
		errs = append(errs, refused(highest, *high, fmt.Sprintf("is below what all groups go by, %v", static)))
	}
	return errs
}

// withShareDefaults replaces the zero fields about share groups, and returns errors for the invalid
// ones.
func (c *Config) withShareDefaults() (errs []error) {
	if c.ShareAssignmentInterval == Unlimited {
		c.ShareAssignmentInterval = 1 // shorter than the log's resolution
	}
	c.ShareSessionTimeout = cmp.Or(c.ShareSessionTimeout, 45*time.Second)
	c.ShareHeartbeatInterval = cmp.Or(c.ShareHeartbeatInterval, 5*time.Second)
	c.ShareAssignmentInterval = cmp.Or(c.ShareAssignmentInterval, time.Second)
	c.ShareMaxSize = cmp.Or(c.ShareMaxSize, 200)
	for name, v := range map[string]int64{"ShareSessionTimeout": int64(c.ShareSessionTimeout), "ShareHeartbeatInterval": int64(c.ShareHeartbeatInterval),
		"ShareAssignmentInterval": int64(c.ShareAssignmentInterval), "ShareMaxSize": int64(c.ShareMaxSize)} {
		if v < 0 {
			errs = append(errs, refused(name, v, "is negative"))
		}
	}
	if c.ShareHeartbeatInterval >= c.ShareSessionTimeout {
		errs = append(errs, refused("ShareHeartbeatInterval", c.ShareHeartbeatInterval, fmt.Sprintf("is not below ShareSessionTimeout, %v", c.ShareSessionTimeout)))
	}
	if len(errs) == 0 {
		errs = c.boundShares()
	}
	r := &c.ShareRecords
	r.LockDuration, r.MaxDeliveryCount, r.MaxInFlight = cmp.Or(r.LockDuration, 30*time.Second), cmp.Or(r.MaxDeliveryCount, 5), cmp.Or(r.MaxInFlight, 2000)
	if r.LockDuration < 0 || r.MaxDeliveryCount < 0 || r.MaxInFlight < 0 {
		errs = append(errs, refused("ShareRecords", *r, "has a negative number"))
	}
	if c.ShareStates == nil {
		c.ShareStates = noShareStates{}
	}
	return errs
}

// checkAssignors returns the errors of server-side assignors.
func checkAssignors(as []assignor.Assignor) (errs []error) {
	if len(as) == 0 {
		errs = append(errs, refused("ConsumerAssignors", "", "is empty"))
	}
	names := map[string]bool{}
	for _, a := range as {
		switch {
		case a == nil:
			errs = append(errs, refused("ConsumerAssignors", nil, "has an assignor that is nil"))
			continue
		case a.Name() == "" || names[a.Name()]:
			errs = append(errs, refused("ConsumerAssignors", a.Name(), "is no name, or that of two"))
		case assignor.AllCooperative([]assignor.Assignor{a}):
			errs = append(errs, refused("ConsumerAssignors", a.Name(), "is cooperative: it would hold back what the coordinator moves"))
		}
		names[a.Name()] = true
	}
	return errs
}
