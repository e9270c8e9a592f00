package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Config describes a cluster. The zero Config is a cluster of one broker in memory.
type Config struct {
	// Brokers is the number of brokers; 0 means 1. This version runs one: more is
	// ErrTooManyBrokers.
	Brokers int

	// Dir is the cluster's directory; broker i keeps its data in Dir/broker-i. Empty: everything is
	// kept in memory, unless FS is set, and then in the directory "strata" of that file system.
	Dir string

	// FS is the file system that Dir is in. nil: the operating system's if Dir is set, else memory.
	FS vfs.FS

	// Defaults are the settings of topics that do not say otherwise, and the number of partitions
	// and replicas of topics created without one.
	Defaults topic.Config

	// MaxPartitions is how many partitions all topics together may have; 0 means 200,000. More are
	// ErrPolicyViolation. Each takes about 200 bytes of memory as long as nothing is written to it.
	// Kafka has no such bound.
	MaxPartitions int

	// RetentionCheckInterval is how often segments that have outlived their retention are looked
	// for; 0 means 5 minutes, log.Unlimited never. Kafka: log.retention.check.interval.ms.
	RetentionCheckInterval time.Duration

	// CompactionInterval is how often compacted topics are looked at; 0 means 15 s, log.Unlimited
	// never: then only Clean compacts. Kafka: log.cleaner.backoff.ms, and log.cleaner.enable=false
	// for never.
	CompactionInterval time.Duration

	// CompactionMemory bounds the table of keys of a compaction, see log.Config; 0 means 128 MiB.
	// Kafka: log.cleaner.dedupe.buffer.size.
	CompactionMemory int64

	// MaxOpenFiles is how many file descriptors of segments are kept open; 0 means 512. More
	// partitions and segments than that are fine.
	MaxOpenFiles int

	// Properties are settings of the broker under their Kafka names: those of the cleaner, of
	// retention checks and of producer ids that are fields above, and the defaults of topics
	// (log.retention.ms, log.cleaner.min.cleanable.ratio, ...). One that is also set in a field, to
	// something else, is an error, and so is one that has no meaning here.
	Properties map[string]string

	// ProducerIDExpiration is how long the state of an idempotent producer is kept after its last
	// batch; 0 means 24 hours. Kafka: producer.id.expiration.ms.
	ProducerIDExpiration time.Duration

	// Logger: nil discards.
	Logger *slog.Logger

	inMemory  bool  // neither Dir nor FS was set
	metaSlack int64 // 0: that constant; negative: a snapshot of the metadata after every change
}

const (
	defaultRetentionCheckInterval = 5 * time.Minute
	defaultCompactionInterval     = 15 * time.Second

	// maxNewPartitions bounds what one call may create. Kafka: a policy violation too.
	maxNewPartitions = 10000

	defaultMaxPartitions = 200000
)

// withDefaults fills in what is zero and joins every complaint.
func (c Config) withDefaults() (Config, error) {
	err := c.readProperties()
	brokers := c.Brokers
	c.Brokers = 1
	if c.FS == nil && c.Dir == "" {
		c.inMemory, c.FS = true, vfs.Mem()
	}
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Dir = orDefault(c.Dir, "strata")
	c.Defaults.Partitions = orDefault(c.Defaults.Partitions, 1)
	c.Defaults.ReplicationFactor = orDefault(c.Defaults.ReplicationFactor, 1)
	c.MaxPartitions = orDefault(c.MaxPartitions, defaultMaxPartitions)
	c.RetentionCheckInterval = orDefault(c.RetentionCheckInterval, defaultRetentionCheckInterval)
	c.CompactionInterval = orDefault(c.CompactionInterval, defaultCompactionInterval)
	c.metaSlack = orDefault(c.metaSlack, metaSlack)
	return c, errors.Join(err, checkBrokers(brokers), c.check())
}

func checkBrokers(n int) error {
	switch {
	case n < 0:
		return fmt.Errorf("replication: %d brokers", n)
	case n > 1:
		return fmt.Errorf("%w, not %d: set Brokers to 1", ErrTooManyBrokers, n)
	}
	return nil
}

// check joins the complaints about settings that are filled in.
func (c *Config) check() error {
	var errs []error
	if n := c.Defaults.Partitions; n < 1 || n > maxNewPartitions {
		errs = append(errs, fmt.Errorf("%w: %d by default", ErrInvalidPartitions, n))
	}
	if n := c.Defaults.ReplicationFactor; n < 1 || n > c.Brokers {
		errs = append(errs, fmt.Errorf("%w: %d by default, with %d brokers", ErrInvalidReplicationFactor, n, c.Brokers))
	}
	if c.MaxPartitions < 0 {
		errs = append(errs, fmt.Errorf("replication: at most %d partitions", c.MaxPartitions))
	}
	for _, d := range []time.Duration{c.RetentionCheckInterval, c.CompactionInterval} {
		if d < 0 && d != log.Unlimited {
			errs = append(errs, fmt.Errorf("replication: interval %v", d))
		}
	}
	if c.ProducerIDExpiration < 0 {
		errs = append(errs, fmt.Errorf("replication: producer id expiration %v", c.ProducerIDExpiration))
	}
	if c.CompactionMemory < 0 || c.MaxOpenFiles < 0 {
		errs = append(errs, fmt.Errorf("replication: compaction memory of %d bytes, %d open files", c.CompactionMemory, c.MaxOpenFiles))
	}
	return errors.Join(errs...)
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
