package share

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/stratalog/strata/topic"
)

// Config describes a Coordinator. The zero Config is valid.
type Config struct {
	// UpdatesPerSnapshot is the number of updates of a share-partition after which its whole state
	// is written. 0 means 500. Kafka: share.coordinator.snapshot.update.records.per.snapshot.
	UpdatesPerSnapshot int

	// PruneInterval is the interval at which records that are no longer needed are deleted from the
	// state topic. 0 means 5 min. Kafka: share.coordinator.state.topic.prune.interval.ms.
	PruneInterval time.Duration

	// LockDuration is the time for which a delivered record is locked for its member. 0 means 30 s.
	// Kafka: group.share.record.lock.duration.ms.
	LockDuration time.Duration

	// MaxDeliveryCount is the maximum number of deliveries of a record. 0 means 5; at most 32767.
	// Kafka: group.share.delivery.count.limit.
	MaxDeliveryCount int

	// MaxInFlight bounds the distance of delivered records from the first record that is not done.
	// 0 means 2000. Kafka: group.share.partition.max.record.locks.
	MaxInFlight int

	// NoRenewal forbids members to extend the locks of their records: the error is
	// ErrRenewalDisabled. Kafka: share.renew.acknowledge.enable=false, for a group.
	NoRenewal bool

	// OfGroup returns the limits of a single group, instead of the fields above. It is called with
	// locks held: it may only compute, and must not call the Coordinator. nil: the fields above
	// apply to all groups. strata.Open sets it to the configurations of groups.
	OfGroup func(group string) Limits

	Topic TopicConfig

	Logger *slog.Logger // nil discards everything
}

// Limits are the settings of one group for handing out records. The fields are those of Config, and
// none is 0.
type Limits struct {
	LockDuration     time.Duration
	MaxDeliveryCount int
	MaxInFlight      int
	NoRenewal        bool
}

// limits returns a group's limits in effect.
func (c *Config) limits(group string) Limits {
	if c.OfGroup != nil {
		return c.OfGroup(group)
	}
	return Limits{c.LockDuration, c.MaxDeliveryCount, c.MaxInFlight, c.NoRenewal}
}

// TopicConfig describes the state topic that is created.
type TopicConfig struct {
	// Partitions is the number of partitions. 0 means 50. Kafka:
	// share.coordinator.state.topic.num.partitions.
	Partitions int32

	// Replicas is the replication factor. 0 means 3, or the number of brokers if that is less.
	// Kafka: share.coordinator.state.topic.replication.factor.
	Replicas int

	// MinInSync is the number of replicas that must be in sync for a change. 0 means 2, or the
	// number of replicas if that is less. Kafka: share.coordinator.state.topic.min.isr.
	MinInSync int

	// MaxBatchBytes bounds one batch in bytes, and thus the state of a share-partition: larger ones
	// fail with ErrTooLarge. 0 means 1 MiB.
	MaxBatchBytes int
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
	notNegative := func(field string, v int64) {
		if v < 0 {
			errs = append(errs, &topic.ConfigError{Key: field, Value: fmt.Sprint(v), Reason: "is negative"})
		}
	}
	notNegative("UpdatesPerSnapshot", int64(c.UpdatesPerSnapshot))
	notNegative("PruneInterval", int64(c.PruneInterval))
	notNegative("LockDuration", int64(c.LockDuration))
	notNegative("MaxDeliveryCount", int64(c.MaxDeliveryCount))
	notNegative("MaxInFlight", int64(c.MaxInFlight))
	if c.MaxDeliveryCount > math.MaxInt16 {
		errs = append(errs, &topic.ConfigError{Key: "MaxDeliveryCount", Value: fmt.Sprint(c.MaxDeliveryCount), Reason: "is above 32767"})
	}
	notNegative("Topic.Partitions", int64(c.Topic.Partitions))
	notNegative("Topic.Replicas", int64(c.Topic.Replicas))
	notNegative("Topic.MinInSync", int64(c.Topic.MinInSync))
	notNegative("Topic.MaxBatchBytes", int64(c.Topic.MaxBatchBytes))
	if c.Topic.Replicas > 0 && c.Topic.MinInSync > c.Topic.Replicas {
		errs = append(errs, &topic.ConfigError{Key: "Topic.MinInSync", Value: fmt.Sprint(c.Topic.MinInSync), Reason: fmt.Sprintf("is above Topic.Replicas, %d", c.Topic.Replicas)})
	}
	c.UpdatesPerSnapshot = cmp.Or(c.UpdatesPerSnapshot, 500)
	c.PruneInterval = cmp.Or(c.PruneInterval, 5*time.Minute)
	c.LockDuration = cmp.Or(c.LockDuration, 30*time.Second)
	c.MaxDeliveryCount = cmp.Or(c.MaxDeliveryCount, 5)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 2000)
	c.Topic.Partitions = cmp.Or(c.Topic.Partitions, 50)
	c.Topic.MaxBatchBytes = cmp.Or(c.Topic.MaxBatchBytes, 1<<20)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}
