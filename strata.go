// Package strata is Kafka's log as Go packages: durable partitions, an idempotent producer and
// consumer groups in one process.
//
// Open wires the usual pieces together: a cluster of brokers (package replication) and the
// coordinators of consumer groups and of transactions (packages group and transaction). A Cluster
// is what producers and consumers are made from:
//
//	c, err := strata.Open(strata.Config{Dir: "data"})
//	err = c.CreateTopic(ctx, "orders", topic.Config{Partitions: 6})
//	p, err := producer.New(c, producer.Config{})
//	g, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}})
//
// Read this package as the recipe: an application that needs less, or other parts, wires them by
// hand in the same way.
package strata

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// Config describes a cluster. The zero Config is valid: one broker, everything in memory.
type Config struct {
	Brokers     int                              // 0: those that are in Dir, one in a new cluster; see replication.Config
	BrokerSpecs map[int32]replication.BrokerSpec // directories of their own, and racks, by broker

	AcceptMetadataLoss bool // opens without half of the brokers; see replication.Config

	Dir      string       // directory of the cluster, created if needed; empty: in memory
	FS       vfs.FS       // nil: the operating system's if there is a Dir, else memory
	Defaults topic.Config // for topics that say nothing else
	Group    group.Config

	// Transactions say how the coordinator of transactions works. OffsetsPartition is set by Open.
	Transactions transaction.Config

	// Shares say how records are handed out to share groups.
	Shares share.Config

	// ReplicaSelector: RackAwareSelector has followers serve readers in their rack
	// (consumer.Config.Rack); see replication.Config. Kafka: replica.selector.class
	ReplicaSelector replication.ReplicaSelector

	MaxPartitions int // of all topics together; 0: 200,000. See replication.Config

	// Housekeeping, see replication.Config. Properties takes all of it, and defaults of topics,
	// under Kafka's names for brokers.
	RetentionCheckInterval time.Duration // 0: 5 minutes. Kafka: log.retention.check.interval.ms
	CompactionInterval     time.Duration // 0: 15 s; log.Unlimited: only Clean compacts. Kafka: log.cleaner.backoff.ms
	LeaderBalanceInterval  time.Duration // 0: 5 minutes; log.Unlimited: never. Kafka: leader.imbalance.check.interval.seconds
	CompactionMemory       int64         // 0: 128 MiB. Kafka: log.cleaner.dedupe.buffer.size
	ProducerIDExpiration   time.Duration // 0: 24 hours. Kafka: producer.id.expiration.ms
	MaxOpenFiles           int           // 0: 512
	Properties             map[string]string

	Logger *slog.Logger // nil discards everything
}

// What Offsets can be asked for, beside a time (At).
const (
	Earliest     = partition.Earliest     // the first record held
	Latest       = partition.Latest       // the end: the next record gets that offset
	MaxTimestamp = partition.MaxTimestamp // the first record that has the largest timestamp
)

// At asks for the first record with timestamp t or later.
func At(t time.Time) partition.OffsetSpec { return partition.At(t) }

// Errors that callers often match; those of the packages below are returned as they are.
var (
	ErrTopicExists  = replication.ErrTopicExists
	ErrUnknownTopic = replication.ErrUnknownTopic
)

// closeTimeout bounds Close.
const closeTimeout = 30 * time.Second

// A Cluster is brokers and coordinators in one process. It is what producer.New, consumer.New,
// consumer.Read and kafka.NewServer take, and a group.Admin. The methods listed here are for
// applications; what its parts can do besides, and what only servers and tests need, is behind
// Backend. All methods are safe for concurrent use.
type Cluster struct {
	clients // what producers and consumers call

	brokers      *replication.Cluster
	coordinator  *group.Coordinator
	transactions *transaction.Coordinator
	shares       shares
	close        sync.Once
	closed       chan struct{} // made by close; closed when all is
	closeErr     error         // set before closed is
}

// clients is promoted to Cluster without a place in its documentation: nobody but the packages
// producer and consumer calls these methods.
type clients interface {
	producer.TxnBackend
	consumer.Backend
	MetadataVersion() int64 // asked by producers before each send
}

// A Backend is everything that the parts of a cluster can do: the inside of servers and tests.
type Backend struct {
	*replication.Cluster // topics, produce, fetch
	*group.Coordinator   // groups and their offsets
	transactions         *transaction.Coordinator
	shares               func() (*share.Coordinator, error)
}

// Backend returns the parts of the cluster. They must not be closed.
func (c *Cluster) Backend() Backend {
	return Backend{c.brokers, c.coordinator, c.transactions, c.ShareCoordinator}
}

// Open returns a serving cluster, recovered from its directory. A directory that is locked,
// damaged, from a newer version or not ours is a typed error of the layer that noticed, and so is a
// field of cfg that makes no sense (*topic.ConfigError, as a rule). Nothing was changed then, but
// for a Group.OffsetsReplicas or Transactions.Topic.Replicas above the number of brokers: that is
// known when these are there. A new cluster may be on stable storage only when its first topic is
// created; see replication.Open. The cluster must be closed, after its producers and consumers.
func Open(cfg Config) (*Cluster, error) {
	if err := errors.Join(cfg.Group.Validate(), cfg.Transactions.Validate(), cfg.Shares.Validate()); err != nil {
		return nil, fmt.Errorf("strata: open: %w", err)
	}
	var verifier transaction.Verifier
	brokers, err := replication.Open(replication.Config{
		Brokers: cfg.Brokers, BrokerSpecs: cfg.BrokerSpecs, AcceptMetadataLoss: cfg.AcceptMetadataLoss,
		Dir: cfg.Dir, FS: cfg.FS, Defaults: cfg.Defaults, MaxPartitions: cfg.MaxPartitions, Logger: cfg.Logger,
		RetentionCheckInterval: cfg.RetentionCheckInterval, CompactionInterval: cfg.CompactionInterval, LeaderBalanceInterval: cfg.LeaderBalanceInterval, CompactionMemory: cfg.CompactionMemory,
		ProducerIDExpiration: cfg.ProducerIDExpiration, MaxOpenFiles: cfg.MaxOpenFiles, Properties: cfg.Properties,
		ReplicaSelector: cfg.ReplicaSelector, Transactions: &verifier,
	})
	if err != nil {
		return nil, fmt.Errorf("strata: open: %w", err)
	}
	c := &Cluster{brokers: brokers}
	if c.shares.cfg = cfg.Shares; c.shares.cfg.Logger == nil {
		c.shares.cfg.Logger = cfg.Logger
	}
	if err := c.coordinate(cfg, &verifier); err != nil {
		return nil, errors.Join(fmt.Errorf("strata: open: %w", err), c.closeParts())
	}
	c.clients = c.Backend()
	return c, nil
}

// coordinate makes the coordinators. Groups come first: the other one goes on at once with the
// transactions whose outcome was decided, and their offsets are written by the groups.
func (c *Cluster) coordinate(cfg Config, leaders *transaction.Verifier) (err error) {
	groups, transactions := cfg.Group, cfg.Transactions
	if groups.Logger == nil {
		groups.Logger = cfg.Logger
	}
	if transactions.Logger == nil {
		transactions.Logger = cfg.Logger
	}
	groups.ShareStates = shareStates{c}
	s := cfg.Shares
	groups.ShareRecords = group.ShareRecords{LockDuration: s.LockDuration, MaxDeliveryCount: s.MaxDeliveryCount, MaxInFlight: s.MaxInFlight, NoRenewal: s.NoRenewal}
	if c.coordinator, err = group.NewCoordinator(group.ClusterStore(c.brokers), groups); err != nil {
		return err
	}
	c.shares.cfg.OfGroup = func(id string) share.Limits { return share.Limits(c.coordinator.ShareRecords(id)) }
	transactions.OffsetsPartition = func(ctx context.Context, group string) (record.TopicPartition, error) {
		p, err := c.coordinator.OffsetsPartition(ctx, group, true)
		return record.TopicPartition{Topic: offsets.Topic, Partition: p}, err
	}
	if c.transactions, err = transaction.NewCoordinator(c.brokers, transactions); err != nil {
		return err
	}
	leaders.Use(c.transactions)
	return nil
}

// closeParts closes what there is, in the order opposite to that in which it was made. The
// coordinator of transactions goes first: the groups write its markers for the offsets topic as
// long as they write there. Until the brokers close, leaders and groups that ask it are told at
// once that it is closed. What it owes is in its log.
func (c *Cluster) closeParts() error {
	errs := []error{c.shares.close()}
	if c.transactions != nil {
		errs = append(errs, c.transactions.Close())
	}
	if c.coordinator != nil {
		errs = append(errs, c.coordinator.Close())
	}
	return errors.Join(append(errs, c.brokers.Close())...)
}

// Close is Shutdown with a bound of 30 s.
func (c *Cluster) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return c.Shutdown(ctx)
}

// Shutdown ends every call under way with the ErrClosed of its package, makes what is written
// durable and closes all files. It returns when the last goroutine has ended. It is idempotent: all
// callers wait for the same closing and get its result. When ctx ends it returns at once with its
// error; the closing goes on then, and ends when the disks answer.
func (c *Cluster) Shutdown(ctx context.Context) error {
	c.close.Do(func() {
		c.closed = make(chan struct{})
		go func() {
			c.closeErr = c.closeParts()
			close(c.closed)
		}()
	})
	select {
	case <-c.closed:
		return c.closeErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// knownOffsets is ListOffsets that asks again while an offset is not available.
func (c *Cluster) knownOffsets(ctx context.Context, ask map[record.TopicPartition]partition.OffsetSpec) (got map[record.TopicPartition]partition.OffsetResult, err error) {
	const longest = 100 * time.Millisecond
	for wait := time.Millisecond; ; wait = min(2*wait, longest) {
		got, err = c.ListOffsets(ctx, ask, partition.ReadUncommitted)
		notAvailable := func(r partition.OffsetResult) bool { return errors.Is(r.Err, partition.ErrOffsetNotAvailable) }
		if err != nil || !slices.ContainsFunc(slices.Collect(maps.Values(got)), notAvailable) {
			return got, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Offsets returns an offset of every partition of a topic: at is Earliest, Latest, MaxTimestamp or
// At(time). Partitions that have no such record are left out. It returns ErrUnknownTopic. It waits
// as long as a new leader does not know how far its predecessor has acknowledged records.
func (c *Cluster) Offsets(ctx context.Context, name string, at partition.OffsetSpec) (record.Offsets, error) {
	md, err := c.Metadata(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("strata: offsets of %s: %w", name, err)
	}
	if err := md.Topics[name].Err; err != nil {
		return nil, fmt.Errorf("strata: offsets of %s: %w", name, err)
	}
	ask := map[record.TopicPartition]partition.OffsetSpec{}
	for p := range md.Topics[name].Partitions {
		ask[record.TopicPartition{Topic: name, Partition: int32(p)}] = at
	}
	got, err := c.knownOffsets(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("strata: offsets of %s: %w", name, err)
	}
	offsets := record.Offsets{}
	for tp, r := range got {
		if r.Err != nil {
			return nil, fmt.Errorf("strata: offset of %s-%d: %w", name, tp.Partition, r.Err)
		}
		if r.Offset >= 0 {
			offsets[tp] = r.Offset
		}
	}
	return offsets, nil
}

// Stats are the counters of a cluster.
type Stats struct {
	Brokers      replication.Stats
	Groups       group.Stats
	Transactions transaction.Stats
}

// Stats returns the counters of all parts.
func (c *Cluster) Stats() Stats {
	return Stats{Brokers: c.brokers.Stats(), Groups: c.coordinator.Stats(), Transactions: c.transactions.Stats()}
}
