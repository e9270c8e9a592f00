package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Config describes a cluster. The zero Config is a cluster of one broker in memory. An invalid
// field is reported as a *topic.ConfigError that names it, unless the field's comment names another
// error.
type Config struct {
	// Brokers is the number of brokers, which have the ids 1 to Brokers; at most 1,000, else
	// ErrTooManyBrokers. If it exceeds the present number, empty brokers are added. Existing
	// brokers with larger ids are not started: they stay members, and their partitions have no
	// leader until they run again. 0 means the brokers that have a directory in Dir or a
	// BrokerSpec; in a new cluster it means one.
	Brokers int

	// BrokerSpecs has, by broker id, the directory of a broker if it is not Dir/broker-<id>, and
	// the broker's rack. Each id must be one of Brokers.
	BrokerSpecs map[int32]BrokerSpec

	// AcceptMetadataLoss opens the cluster even if half or more of the brokers that keep its
	// metadata are missing; otherwise Open returns ErrMissing. The newest available copy is used.
	// Changes that only the missing brokers have are lost, also when those brokers return.
	AcceptMetadataLoss bool

	// Dir is the cluster's directory; broker i keeps its data in Dir/broker-i. If it is empty, the
	// cluster is in memory, or in the directory "strata" of FS if FS is set.
	Dir string

	// FS is the file system of Dir. nil means the operating system's if Dir is set, else memory.
	FS vfs.FS

	// ClusterID is the id of a new cluster: 16 bytes in base64url, 22 characters. Empty means a
	// random id. An existing cluster keeps its id. Kafka: cluster.id.
	ClusterID string

	// Defaults are the settings of topics that do not have their own, and the number of partitions
	// and replicas of topics created without them.
	Defaults topic.Config

	// MaxPartitions is the maximum number of partitions of all topics together; 0 means 200,000.
	// Beyond it, creation fails with ErrPolicyViolation. A partition without records takes about
	// 200 bytes of memory. Kafka has no such limit.
	MaxPartitions int

	// RetentionCheckInterval is the interval between searches for segments past their retention;
	// 0 means 5 minutes, log.Unlimited never. Kafka: log.retention.check.interval.ms.
	RetentionCheckInterval time.Duration

	// CompactionInterval is the interval between compactions of compacted topics; 0 means 15 s,
	// log.Unlimited never: then only Clean compacts. Kafka: log.cleaner.backoff.ms, and
	// log.cleaner.enable=false for never.
	CompactionInterval time.Duration

	// LeaderBalanceInterval is the time after which partitions move back to their preferred
	// leaders, if these are in sync again; 0 means 5 minutes, log.Unlimited never. Kafka:
	// leader.imbalance.check.interval.seconds, and auto.leader.rebalance.enable=false for never.
	LeaderBalanceInterval time.Duration

	// CompactionMemory is the maximum size in bytes of the table of keys of a compaction; 0 means
	// 128 MiB. Each broker runs one compaction at a time; see log.Config. Kafka:
	// log.cleaner.dedupe.buffer.size.
	CompactionMemory int64

	// MaxOpenFiles is the number of file descriptors of segments that each broker keeps open; 0
	// means 512. There may be more partitions and segments than that.
	MaxOpenFiles int

	// Properties are settings of the broker under their Kafka names. They are the settings of the
	// cleaner, of retention checks and of producer ids that are fields above, and the defaults of
	// topics (log.retention.ms, log.cleaner.min.cleanable.ratio, ...). It is an error to set a
	// property to another value than its field, or to set one without a meaning here.
	Properties map[string]string

	// ProducerIDExpiration is the time for which the state of an idempotent producer is kept after
	// its last batch; 0 means 24 hours. Kafka: producer.id.expiration.ms.
	ProducerIDExpiration time.Duration

	// ReplicaMaxLag is the time after which a follower leaves the ISR if it still lacks a record
	// that its leader had then; 0 means 30 s. It is checked every ReplicaMaxLag/2. Kafka:
	// replica.lag.time.max.ms.
	ReplicaMaxLag time.Duration

	// ReplicaSelector selects the replicas that serve readers with a rack. The zero value is
	// LeaderSelector; with RackAwareSelector, followers serve readers in their rack. Kafka:
	// replica.selector.class.
	ReplicaSelector ReplicaSelector

	// HighWatermarkInterval is the interval at which a broker saves the high watermarks of its
	// replicas if they have changed; 0 means 5 seconds. Kafka:
	// replica.high.watermark.checkpoint.interval.ms.
	HighWatermarkInterval time.Duration

	// SessionTimeout is the time after which a broker is fenced that the controller cannot reach,
	// because a path of Network is cut or paused. The broker serves again when the path is mended.
	// It is also the time after which a broker is cut off and fenced, as by KillBroker, if its disk
	// hangs while other disks have stored a change of the metadata. A broker is fenced only if the
	// others can continue without it. 0 means 9 s. Kafka: broker.session.timeout.ms.
	SessionTimeout time.Duration

	// Transactions is called by leaders before they accept the first write of a transaction. nil
	// means that leaders accept every such write; then the application must verify transactions.
	Transactions TxnVerifier

	// Logger receives log messages; nil discards them.
	Logger *slog.Logger

	inMemory  bool  // neither Dir nor FS was set
	metaPart  int64 // 0: metalog.MaxPartBytes
	metaSlack int64 // 0: that constant; negative: a snapshot of the metadata after every change
}

const (
	defaultRetentionCheckInterval = 5 * time.Minute
	defaultCompactionInterval     = 15 * time.Second
	defaultLeaderBalanceInterval  = 5 * time.Minute

	defaultReplicaMaxLag = 30 * time.Second

	defaultHighWatermarkInterval = 5 * time.Second
	defaultSessionTimeout        = 9 * time.Second

	defaultMaxPartitions = 200000

	maxBrokers = 1000
)

// withDefaults sets zero fields to their defaults and joins all errors.
func (c Config) withDefaults() (Config, error) {
	err := c.readProperties()
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
	c.HighWatermarkInterval = orDefault(c.HighWatermarkInterval, defaultHighWatermarkInterval)
	c.ReplicaMaxLag = orDefault(c.ReplicaMaxLag, defaultReplicaMaxLag)
	c.LeaderBalanceInterval = orDefault(c.LeaderBalanceInterval, defaultLeaderBalanceInterval)
	c.SessionTimeout = orDefault(c.SessionTimeout, defaultSessionTimeout)
	c.metaSlack = orDefault(c.metaSlack, metalog.DefaultSlack)
	c.metaPart = orDefault(c.metaPart, metalog.MaxPartBytes)
	return c, errors.Join(err, c.checkBrokers(), c.check())
}

func (c *Config) checkBrokers() error {
	switch n := c.Brokers; {
	case n < 0:
		return notNegative("Brokers", n)
	case n > maxBrokers:
		return fmt.Errorf("%w: %d, at most %d", ErrTooManyBrokers, n, maxBrokers)
	}
	for id := range c.BrokerSpecs {
		if id < 1 || id > maxBrokers || c.Brokers > 0 && int(id) > c.Brokers {
			return fmt.Errorf("%w: BrokerSpecs have one for %d", ErrUnknownBroker, id)
		}
	}
	return nil
}

// check joins the complaints about settings that are filled in.
func (c *Config) check() error {
	var errs []error
	if n := c.Defaults.Partitions; n < 1 || n > image.MaxNewPartitions {
		errs = append(errs, fmt.Errorf("%w: %d by default", ErrInvalidPartitions, n))
	}
	if n := c.Defaults.ReplicationFactor; n < 1 || n > maxFactor {
		errs = append(errs, fmt.Errorf("%w: %d by default, a partition has at most %d replicas", ErrInvalidReplicationFactor, n, maxFactor))
	}
	if _, err := topic.ParseID(c.ClusterID); err != nil && c.ClusterID != "" {
		errs = append(errs, &topic.ConfigError{Key: "ClusterID", Value: c.ClusterID, Reason: "must be 22 characters of base64url"})
	}
	if c.Defaults.Assignment != nil {
		errs = append(errs, fmt.Errorf("%w: Defaults have one", ErrInvalidAssignment))
	}
	if c.Defaults.ID != (topic.ID{}) {
		errs = append(errs, fmt.Errorf("%w: Defaults have one", ErrTopicIDInUse))
	}
	if c.ReplicaSelector.Class() == "" {
		errs = append(errs, &topic.ConfigError{Key: "ReplicaSelector", Value: strconv.Itoa(int(c.ReplicaSelector)), Reason: fmt.Sprintf("unknown replica selector %d", c.ReplicaSelector)})
	}
	interval := func(field string, d time.Duration) error {
		if d == log.Unlimited {
			return nil
		}
		return notNegative(field, d)
	}
	errs = append(errs,
		interval("RetentionCheckInterval", c.RetentionCheckInterval), interval("CompactionInterval", c.CompactionInterval),
		interval("LeaderBalanceInterval", c.LeaderBalanceInterval),
		notNegative("MaxPartitions", c.MaxPartitions), notNegative("HighWatermarkInterval", c.HighWatermarkInterval),
		notNegative("ReplicaMaxLag", c.ReplicaMaxLag), notNegative("SessionTimeout", c.SessionTimeout),
		notNegative("ProducerIDExpiration", c.ProducerIDExpiration), notNegative("CompactionMemory", c.CompactionMemory),
		notNegative("MaxOpenFiles", c.MaxOpenFiles),
	)
	return errors.Join(errs...)
}

// notNegative refuses a field that is below 0.
func notNegative[T int | int64 | time.Duration](field string, v T) error {
	if v < 0 {
		return &topic.ConfigError{Key: field, Value: fmt.Sprint(v), Reason: "is negative"}
	}
	return nil
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
