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

// Config describes a cluster. The zero Config is a cluster of one broker in memory. A field that
// makes no sense is a *topic.ConfigError that names it, unless it says otherwise.
type Config struct {
	// Brokers is the number of brokers, which have the ids 1 to Brokers; at most 1,000, else
	// ErrTooManyBrokers. More than there were are added, empty. Those that there were and that are
	// not among them are down: they are members still, and their partitions have no leader until
	// they are back. 0 means those that have a directory in Dir or a BrokerSpec, and one in a new
	// cluster.
	Brokers int

	// BrokerSpecs say, by id, where brokers keep their data if that is not Dir/broker-<id>, and in
	// which rack they are. The id must be one of Brokers.
	BrokerSpecs map[int32]BrokerSpec

	// AcceptMetadataLoss opens the cluster although half or more of the brokers that keep its
	// metadata are missing, which is ErrMissing otherwise. The newest of the copies that are there
	// counts: changes that only the missing ones have are lost, also when they come back.
	AcceptMetadataLoss bool

	// Dir is the cluster's directory; broker i keeps its data in Dir/broker-i. Empty: everything is
	// kept in memory, unless FS is set, and then in the directory "strata" of that file system.
	Dir string

	// FS is the file system that Dir is in. nil: the operating system's if Dir is set, else memory.
	FS vfs.FS

	// ClusterID is the id that a new cluster gets: 16 bytes in base64url, 22 characters. Empty: one
	// is drawn. A cluster that is there keeps its own. Kafka: cluster.id.
	ClusterID string

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

	// LeaderBalanceInterval is after what time partitions go back to their preferred leaders, if
	// these are in sync again; 0 means 5 minutes, log.Unlimited never. Kafka:
	// leader.imbalance.check.interval.seconds, and auto.leader.rebalance.enable=false for never.
	LeaderBalanceInterval time.Duration

	// CompactionMemory bounds the table of keys of a compaction, of which each broker runs one, see
	// log.Config; 0 means 128 MiB. Kafka: log.cleaner.dedupe.buffer.size.
	CompactionMemory int64

	// MaxOpenFiles is how many file descriptors of segments each broker keeps open; 0 means 512.
	// More partitions and segments than that are fine.
	MaxOpenFiles int

	// Properties are settings of the broker under their Kafka names: those of the cleaner, of
	// retention checks and of producer ids that are fields above, and the defaults of topics
	// (log.retention.ms, log.cleaner.min.cleanable.ratio, ...). One that is also set in a field, to
	// something else, is an error, and so is one that has no meaning here.
	Properties map[string]string

	// ProducerIDExpiration is how long the state of an idempotent producer is kept after its last
	// batch; 0 means 24 hours. Kafka: producer.id.expiration.ms.
	ProducerIDExpiration time.Duration

	// ReplicaMaxLag is how long a follower may lack what its leader had before it is out of sync; 0
	// means 30 s. It is looked at every half of that. Kafka: replica.lag.time.max.ms.
	ReplicaMaxLag time.Duration

	// ReplicaSelector says which replicas serve readers that tell their rack: RackAwareSelector has
	// followers serve those in their rack. The zero value has the leaders serve everybody. Kafka:
	// replica.selector.class.
	ReplicaSelector ReplicaSelector

	// HighWatermarkInterval is how often a broker saves the high watermarks of its replicas, if
	// they have changed; 0 means 5 seconds. Kafka: replica.high.watermark.checkpoint.interval.ms.
	HighWatermarkInterval time.Duration

	// SessionTimeout is how long a broker is waited for that the controller does not reach, because
	// a path of Network is cut: then it is fenced, and serves again when the path is mended. It is
	// also how long one is waited for whose disk does not answer when a change of the metadata is
	// on the disks of others: then it is cut off and fenced, as by KillBroker. Both if the others
	// may go on without it. 0 means 9 s. Kafka: broker.session.timeout.ms.
	SessionTimeout time.Duration

	// Transactions is asked before leaders take the first write of a transaction. nil: they take
	// what comes, and who writes in transactions must know what he does.
	Transactions TxnVerifier

	// Logger: nil discards.
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

// withDefaults fills in what is zero and joins every complaint.
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
