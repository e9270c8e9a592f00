package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Unlimited disables a limit where 0 means a default.
const Unlimited = -1

// LevelZero selects level 0 of the feature transaction.version, since 0 means a default.
const LevelZero = -1

// Config describes a Coordinator. The zero Config is valid.
type Config struct {
	// Version is the level of the feature transaction.version: LevelZero, 1 or 2. It determines the
	// format of records. From 2 on, the coordinator gives a producer a new epoch when it ends a
	// transaction on its own. The cluster stores the level from the first transactional id on; 0
	// means the stored level, or 2 if there is none. Kafka: transaction.version of kafka-features.
	Version int16

	// MaxTimeout is the longest timeout of a producer's transactions. 0 means 15 min. Kafka:
	// transaction.max.timeout.ms.
	MaxTimeout time.Duration

	// Expiration is the time after which an id without a transaction is removed. 0 means 7 days,
	// Unlimited never. Kafka: transactional.id.expiration.ms.
	Expiration time.Duration

	// ExpiryInterval is the interval between searches for expired ids. 0 means 1 h. Kafka:
	// transaction.remove.expired.transaction.cleanup.interval.ms.
	ExpiryInterval time.Duration

	Topic TopicConfig

	// OffsetsPartition returns the partition that stores the offsets of a group; nil: AddOffsets
	// returns an error.
	OffsetsPartition func(ctx context.Context, group string) (record.TopicPartition, error)

	Logger *slog.Logger // nil discards everything
}

// TopicConfig describes the state topic that is created.
type TopicConfig struct {
	// Partitions is the number of partitions. 0 means 50. Kafka:
	// transaction.state.log.num.partitions.
	Partitions int32

	// Replicas is the replication factor. 0 means 3, or the number of brokers if that is less.
	// Kafka: transaction.state.log.replication.factor.
	Replicas int

	// MinInSync is the number of replicas that must be in sync for a change. 0 means 2, or the
	// number of replicas if that is less. Kafka: transaction.state.log.min.isr.
	MinInSync int

	// MaxBatchBytes bounds one batch in bytes, and thus the state of one id: larger ones fail with
	// ErrTooLarge. 0 means 1 MiB.
	MaxBatchBytes int
}

// Validate returns nil if NewCoordinator accepts c, apart from conditions on the brokers. Otherwise
// it returns a *topic.ConfigError for each invalid field, joined.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

// refused returns the error for an invalid field.
func refused(field string, v any, reason string) error {
	return &topic.ConfigError{Key: field, Value: fmt.Sprint(v), Reason: reason}
}

// withDefaults returns c with every 0 replaced, or an error for its invalid fields.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	notNegative := func(name string, v int64) {
		if v < 0 {
			errs = append(errs, refused(name, v, "is negative"))
		}
	}
	switch c.Version {
	case 0:
		c.Version = 2
	case LevelZero:
		c.Version = 0
	case 1, 2:
	default:
		errs = append(errs, refused("Version", c.Version, "is not LevelZero, 1 or 2"))
	}
	if c.Expiration == Unlimited {
		c.Expiration = 0
	} else {
		c.Expiration = cmp.Or(c.Expiration, 7*24*time.Hour)
	}
	c.MaxTimeout = cmp.Or(c.MaxTimeout, 15*time.Minute)
	c.ExpiryInterval = cmp.Or(c.ExpiryInterval, time.Hour)
	c.Topic.Partitions = cmp.Or(c.Topic.Partitions, 50)
	c.Topic.MaxBatchBytes = cmp.Or(c.Topic.MaxBatchBytes, 1<<20)
	notNegative("MaxTimeout", int64(c.MaxTimeout))
	if c.MaxTimeout > math.MaxInt32*time.Millisecond {
		errs = append(errs, refused("MaxTimeout", c.MaxTimeout, "is more than 2^31-1 ms"))
	}
	notNegative("Expiration", int64(c.Expiration))
	notNegative("ExpiryInterval", int64(c.ExpiryInterval))
	notNegative("Topic.Partitions", int64(c.Topic.Partitions))
	notNegative("Topic.Replicas", int64(c.Topic.Replicas))
	notNegative("Topic.MinInSync", int64(c.Topic.MinInSync))
	notNegative("Topic.MaxBatchBytes", int64(c.Topic.MaxBatchBytes))
	if c.Topic.Replicas > 0 && c.Topic.MinInSync > c.Topic.Replicas {
		errs = append(errs, refused("Topic.MinInSync", c.Topic.MinInSync, fmt.Sprintf("is above Topic.Replicas, %d", c.Topic.Replicas)))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}
