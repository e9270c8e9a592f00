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
	// UpdatesPerSnapshot is after how many updates of a share-partition all of it is written. 0:
	// 500. Kafka: share.coordinator.snapshot.update.records.per.snapshot.
	UpdatesPerSnapshot int

	// PruneInterval is how often the topic of the states is looked through for records that are not
	// needed any more. 0: 5 min. Kafka: share.coordinator.state.topic.prune.interval.ms.
	PruneInterval time.Duration

	// LockDuration is how long a record is a member's that was handed it. 0: 30 s. Kafka:
	// group.share.record.lock.duration.ms.
	LockDuration time.Duration

	// MaxDeliveryCount is how often a record is handed out. 0: 5; at most 32767. Kafka:
	// group.share.delivery.count.limit.
	MaxDeliveryCount int

	// MaxInFlight is how far behind the first record that is not done with others are handed out.
	// 0: 2000. Kafka: group.share.partition.max.record.locks.
	MaxInFlight int

	// NoRenewal says that a member may not lock records that it has for longer:
	// ErrInvalidRecordState. Kafka: share.renew.acknowledge.enable=false, of a group.
	NoRenewal bool

	// OfGroup returns what of these a single group goes by at present. It is called with locks
	// held: it only computes, and does not call the Coordinator. nil: all groups go by the fields
	// above. strata.Open sets it to what is configured for groups.
	OfGroup func(group string) Limits

	Topic TopicConfig

	Logger *slog.Logger // nil discards everything
}

// Limits say how records are handed out to a group. The fields are those of Config, and none is 0.
type Limits struct {
	LockDuration     time.Duration
	MaxDeliveryCount int
	MaxInFlight      int
	NoRenewal        bool
}

// limits returns what a group goes by at present.
func (c *Config) limits(group string) Limits {
	if c.OfGroup != nil {
		return c.OfGroup(group)
	}
	return Limits{c.LockDuration, c.MaxDeliveryCount, c.MaxInFlight, c.NoRenewal}
}

// TopicConfig says how the topic of the states is created.
type TopicConfig struct {
	// Partitions is their number. 0: 50. Kafka: share.coordinator.state.topic.num.partitions.
	Partitions int32

	// Replicas is how many replicas each has. 0: 3, or as many as there are brokers. Kafka:
	// share.coordinator.state.topic.replication.factor.
	Replicas int

	// MinInSync is how many of them must be in sync for a change. 0: 2, or as many as there are
	// replicas. Kafka: share.coordinator.state.topic.min.isr.
	MinInSync int

	// MaxBatchBytes bounds one batch, and so the state of a share-partition: ErrTooLarge beyond it.
	// 0: 1 MiB.
	MaxBatchBytes int
}

// Validate returns nil if NewCoordinator takes c, as far as the brokers do not matter, else a
// *topic.ConfigError for each field that makes no sense, joined.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults returns c with every 0 replaced, or what is wrong with it.
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
