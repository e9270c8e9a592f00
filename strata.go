// Package strata opens a complete cluster in one process: durable topics, consumer groups and
// transactions.
//
// Start here. Open combines a cluster of brokers (package replication) with the coordinators of
// consumer groups and of transactions (packages group and transaction). Pass the Cluster to
// producer.New and consumer.New:
//
//	c, err := strata.Open(strata.Config{Dir: "data"})
//	err = c.CreateTopic(ctx, "orders", topic.Config{Partitions: 6})
//	p, err := producer.New(c, producer.Config{})
//	g, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}})
//
// Functions of an application take the Cluster as a Client, the interface that does not depend on
// brokers in the same process.
//
// An application that needs fewer or other parts can combine the packages itself, in the same way
// as this one. For a single log without topics and groups, use package log. Package kafka serves a
// Cluster to Kafka clients.
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
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// Config describes a cluster. The zero Config is valid: one broker, with everything in memory.
type Config struct {
	Brokers     int                              // 0: the brokers in Dir, one in a new cluster; see replication.Config
	BrokerSpecs map[int32]replication.BrokerSpec // separate directories, and racks, by broker

	AcceptMetadataLoss bool // opens without half of the brokers; see replication.Config

	Dir      string       // directory of the cluster, created if needed; empty: in memory
	FS       vfs.FS       // nil: the operating system's if Dir is set, else memory
	Defaults topic.Config // defaults of the settings of topics
	Group    group.Config

	// Transactions configures the coordinator of transactions. Open sets OffsetsPartition.
	Transactions transaction.Config

	// Shares configures the coordinator of share groups.
	Shares share.Config

	// ReplicaSelector selects the replicas that serve readers. With RackAwareSelector, followers
	// serve readers in their rack (consumer.Config.Rack); see replication.Config. Kafka:
	// replica.selector.class.
	ReplicaSelector replication.ReplicaSelector

	MaxPartitions int // limit for all topics together; 0: 200,000. See replication.Config

	// Housekeeping, see replication.Config. Properties accepts all of it, and defaults of topics,
	// by Kafka's broker settings.
	RetentionCheckInterval time.Duration // 0: 5 minutes. Kafka: log.retention.check.interval.ms
	CompactionInterval     time.Duration // 0: 15 s; log.Unlimited: only Clean compacts. Kafka: log.cleaner.backoff.ms
	LeaderBalanceInterval  time.Duration // 0: 5 minutes; log.Unlimited: never. Kafka: leader.imbalance.check.interval.seconds
	CompactionMemory       int64         // 0: 128 MiB. Kafka: log.cleaner.dedupe.buffer.size
	ProducerIDExpiration   time.Duration // 0: 24 hours. Kafka: producer.id.expiration.ms
	MaxOpenFiles           int           // 0: 512
	Properties             map[string]string

	Logger *slog.Logger // nil discards everything
}

// Values for the argument of Offsets, besides a time (At).
const (
	Earliest     = partition.Earliest     // the log start offset
	Latest       = partition.Latest       // the end: the offset of the next record
	MaxTimestamp = partition.MaxTimestamp // the first record with the largest timestamp
)

// At selects the first record with timestamp t or later.
func At(t time.Time) partition.OffsetSpec { return partition.At(t) }

// Errors that callers often match. Errors of other packages are returned unchanged.
var (
	ErrTopicExists  = replication.ErrTopicExists
	ErrTopicDiffers = replication.ErrTopicDiffers
	ErrUnknownTopic = replication.ErrUnknownTopic
)

// closeTimeout bounds Close.
const closeTimeout = 30 * time.Second

// A Cluster is a set of brokers and coordinators in one process. It is the argument of
// producer.New, consumer.New, consumer.Read and kafka.NewServer, and it implements Client and
// group.Admin. The methods listed here are for applications; Backend returns the methods that only
// servers and tests need. All methods are safe for concurrent use.
type Cluster struct {
	clients // methods for producers and consumers

	brokers      *replication.Cluster
	coordinator  *group.Coordinator
	transactions *transaction.Coordinator
	shares       shares
	close        sync.Once
	closed       chan struct{} // created by close; closed when all parts are closed
	closeErr     error         // set before closed is closed
}

// clients has the methods of Cluster that only the packages producer and consumer call. It is
// embedded, so that the documentation of Cluster does not list them.
type clients interface {
	producer.TxnBackend
	consumer.Backend
	MetadataVersion() int64 // producers call it before each send
}

// A Backend has all methods of the parts of a cluster, for servers and tests.
type Backend struct {
	*replication.Cluster // topics, produce, fetch
	*group.Coordinator   // groups and their offsets
	transactions         *transaction.Coordinator
	shares               func() (*share.Coordinator, error)
}

// Backend returns the parts of the cluster. The caller must not close them.
func (c *Cluster) Backend() Backend {
	return Backend{c.brokers, c.coordinator, c.transactions, c.shares.coordinator}
}

// Shares returns the coordinator of share groups. The first call creates it; its topic is created
// when a record is first acquired. The caller must not close it. The errors are those of
// Cluster.JoinShare, except ErrUnknownTopic.
func (b Backend) Shares() (*share.Coordinator, error) { return b.shares() }

// Open returns a running cluster, recovered from its directory. The caller must close it, after its
// producers and consumers.
//
// Open returns a typed error for a directory that is locked, damaged, from a newer version or not
// Strata's, and for an invalid field of cfg (usually *topic.ConfigError). In these cases nothing
// was changed, with one exception: a Group.OffsetsReplicas or Transactions.Topic.Replicas above the
// number of brokers is found only when the brokers are open. A new cluster may be on stable storage
// only when its first topic is created; see replication.Open.
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
	c := &Cluster{brokers: brokers, shares: shares{brokers: brokers, cfg: cfg.Shares}}
	if c.shares.cfg.Logger == nil {
		c.shares.cfg.Logger = cfg.Logger
	}
	if err := c.coordinate(cfg, &verifier); err != nil {
		return nil, errors.Join(fmt.Errorf("strata: open: %w", err), c.closeParts())
	}
	c.clients = c.Backend()
	if cfg.Logger != nil {
		cfg.Logger.Info("cluster opened", "cluster", brokers.ClusterID(), "directory", cfg.Dir, "brokers", brokers.Brokers(), "controller", brokers.Controller())
	}
	return c, nil
}

// coordinate creates the coordinators. The coordinator of groups comes first. The coordinator of
// transactions at once continues transactions with a decided outcome, and the groups apply the
// outcome to their offsets.
func (c *Cluster) coordinate(cfg Config, leaders *transaction.Verifier) (err error) {
	groups, transactions := cfg.Group, cfg.Transactions
	if groups.Logger == nil {
		groups.Logger = cfg.Logger
	}
	if transactions.Logger == nil {
		transactions.Logger = cfg.Logger
	}
	groups.ShareStates = &c.shares
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

// closeParts closes the existing parts in the reverse order of their creation. The coordinator of
// transactions closes before the groups: as long as these run, they write its markers to the
// offsets topic. Until the brokers close, it returns ErrClosed at once to leaders and groups. The
// markers that it still owes are in its log.
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

// Close is Shutdown with a timeout of 30 s.
func (c *Cluster) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return c.Shutdown(ctx)
}

// Shutdown closes the cluster. Active calls end with the ErrClosed of their package, written
// records are made durable, and all files are closed. It returns when the last goroutine has ended.
// It is idempotent: all callers wait for the same shutdown and get its result. When ctx ends,
// Shutdown returns immediately with ctx's error; the shutdown continues, and ends when the disks
// respond.
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

// knownOffsets is ListOffsets, repeated while an offset is not available or a disk does not
// respond.
func (c *Cluster) knownOffsets(ctx context.Context, ask map[record.TopicPartition]partition.OffsetSpec) (got map[record.TopicPartition]partition.OffsetResult, err error) {
	const longest = 100 * time.Millisecond
	for wait := time.Millisecond; ; wait = min(2*wait, longest) {
		got, err = c.ListOffsets(ctx, ask, partition.ReadUncommitted)
		notAvailable := func(r partition.OffsetResult) bool {
			return errors.Is(r.Err, partition.ErrOffsetNotAvailable) || errors.Is(r.Err, partition.ErrTimeout)
		}
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

// Offsets returns an offset for every partition of a topic: at is Earliest, Latest, MaxTimestamp or
// At(time). Partitions without such a record are left out. It returns ErrUnknownTopic. It waits
// while a new leader does not yet have the high watermark of its predecessor.
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

// Healthy returns nil if all brokers run, their disks can be written and read, and every partition
// has a serving leader, in whose log no operation has met damage. Otherwise errors.Is finds the
// causes, such as replication.ErrBrokerDown, partition.ErrCorrupt, ErrClosed, or syscall.ENOSPC for
// a full disk. A hanging disk is reported when ctx ends. Each call writes and syncs at most one file
// of 64 KiB per broker, and none within a second after another call. It is safe for concurrent use.
func (c *Cluster) Healthy(ctx context.Context) error { return c.brokers.Healthy(ctx) }

// Stats returns the counters of all parts.
func (c *Cluster) Stats() Stats {
	return Stats{Brokers: c.brokers.Stats(), Groups: c.coordinator.Stats(), Transactions: c.transactions.Stats()}
}
