package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// CommitMode selects when a group's offsets are committed.
type CommitMode uint8

const (
	// CommitProcessed is at-least-once delivery and the default. A record is committed only after
	// the loop has requested the next one. Commits happen every CommitInterval, before a partition
	// is revoked, and on Close. It holds as long as the work is done in the loop body.
	CommitProcessed CommitMode = iota
	// CommitManual commits only when the application calls Commit.
	CommitManual
	// CommitBeforeDelivery is at-most-once delivery. Records are committed before they are handed
	// out, so that a crash loses those in progress. Every CommitInterval it also commits offsets
	// without a record for the application: the starting offset, and the ends of control batches
	// and aborted transactions that it has passed.
	CommitBeforeDelivery
)

// Isolation selects which transactional records are read.
type Isolation = partition.Isolation

const (
	// ReadCommitted hides records of open and aborted transactions. It is the default.
	ReadCommitted   = partition.ReadCommitted
	ReadUncommitted = partition.ReadUncommitted // everything below the high watermark
)

// Special values for offsets in Config.Assign.
const (
	StartLatest   int64 = -1 // the end of the partition when it is first read
	StartEarliest int64 = -2 // the log start offset
	StartReset    int64 = -3 // Config.Reset applies
)

// A Reset selects the starting offset of a partition that has no committed offset, or whose offset
// is no longer in the log. If an unclean election has truncated the log below the position, every
// Reset except Fail continues where the log diverges: see ErrTruncated. The zero Reset is Earliest. Kafka: auto.offset.reset, whose default is
// latest.
type Reset struct {
	kind resetKind
	at   time.Time
}

type resetKind uint8

const (
	resetEarliest resetKind = iota
	resetLatest
	resetAt
	resetFail
)

// Earliest starts at the first record in the log.
func Earliest() Reset { return Reset{} }

// Latest starts at the end of the partition, so that only later records are read. Two cases differ:
//
//   - Partitions that appear while the consumer runs are read from their first record: new
//     partitions of a topic, and partitions of a topic that was created, or created again. A group
//     continues there.
//   - A partition is read from its end if it was created while the whole group was away, or before
//     this consumer started and no member of the group has had it. This is Kafka's behaviour. A
//     group that must not miss records takes Earliest.
func Latest() Reset { return Reset{kind: resetLatest} }

// At starts at the first record with timestamp t or later, at the end if there is none.
func At(t time.Time) Reset { return Reset{kind: resetAt, at: t} }

// Fail returns ErrNoOffset instead of choosing an offset, and ErrTruncated after a truncation.
func Fail() Reset { return Reset{kind: resetFail} }

// Defaults of Config.
const (
	DefaultCommitInterval    = time.Second
	DefaultSessionTimeout    = 45 * time.Second
	DefaultHeartbeatInterval = 3 * time.Second
	DefaultMaxPollInterval   = 5 * time.Minute
	DefaultMaxPollRecords    = 500
	DefaultMaxBytes          = 50 << 20
	DefaultPartitionBytes    = 1 << 20
	DefaultMaxWait           = 500 * time.Millisecond
	DefaultCloseTimeout      = 30 * time.Second
)

// Config describes a consumer. Set one of: Group with Topics or TopicPattern, for a group member;
// Assign, for a free consumer; or only Topics, for a free consumer of all their partitions.
type Config struct {
	// Group is the group's id. An empty Group makes a free consumer, which has no membership and
	// commits no offsets. Kafka: group.id.
	Group string
	// InstanceID makes the member static: it returns under this name without a rebalance, and Close
	// does not leave the group. With ProtocolConsumer, Close reports a temporary leave.
	//
	// A static member that returns checks the group's assignment. It requests a rebalance within a
	// HeartbeatInterval if the assignment no longer fits, because topics, partitions or this
	// member's Topics have changed. It does the same for partitions that an assignor left
	// unassigned. Kafka's clients do not. With ProtocolConsumer the coordinator does both. Kafka:
	// group.instance.id (KIP-345).
	InstanceID string
	// ClientID names the consumer in descriptions of the group. Empty means the id of a backend that
	// has one, else "strata". Kafka: client.id.
	ClientID string
	// Topics are the subscribed topics. Subscribe replaces them.
	Topics []string
	// TopicPattern subscribes to all topics whose whole name it matches, except internal ones. New
	// topics are added automatically. With ProtocolConsumer the coordinator does the matching and
	// rejects very large patterns: see group.ConsumerHeartbeatRequest.
	TopicPattern *regexp.Regexp
	// AllowUnknownTopics permits topics that do not exist yet. Without it New returns an error for
	// them.
	AllowUnknownTopics bool
	// Assign maps the partitions of a free consumer to their starting offsets: an offset,
	// StartEarliest, StartLatest or StartReset.
	Assign record.Offsets
	Reset  Reset

	// Protocol is the group's protocol. Kafka: group.protocol.
	Protocol Protocol
	// RemoteAssignor names the assignor that the coordinator uses with ProtocolConsumer: "uniform",
	// "range" or another one of group.Config.ConsumerAssignors. The coordinator uses the one that
	// most members name. Empty means no preference; with no preference at all, the first of the
	// list is used. Kafka: group.remote.assignor.
	RemoteAssignor string

	Commit CommitMode
	// CommitInterval is the interval between commits, unless Commit is CommitManual. 0 means 1 s.
	// Kafka: auto.commit.interval.ms.
	CommitInterval time.Duration
	Isolation      Isolation // Kafka: isolation.level

	// Assignors lists assignors in order of preference. nil means only CooperativeSticky, so that
	// members keep reading the partitions they keep in a rebalance.
	//
	// Partitions are handed over incrementally only if every assignor in the list supports it, and
	// all members of a group need one in common. To join members that use Range (Kafka's default
	// lists both), name CooperativeSticky and Range; hand-over is then eager. When all members list
	// both, remove Range in a second rolling restart. Kafka: partition.assignment.strategy.
	Assignors []assignor.Assignor

	// SessionTimeout is the time without a heartbeat after which the group removes a member and
	// reassigns its partitions. Until then its partitions are not read. A long timeout detects
	// failures late; a short one causes rebalances on mere pauses. New logs a warning below 10 s
	// and above 2 min. 0 means 45 s. Kafka: session.timeout.ms.
	SessionTimeout time.Duration
	// HeartbeatInterval is the time between heartbeats. It should be a third to a quarter of
	// SessionTimeout, so that one lost heartbeat is harmless. New logs a warning above a third and
	// below a hundredth. 0 means 3 s, or a third of SessionTimeout if that is less. Kafka:
	// heartbeat.interval.ms.
	HeartbeatInterval time.Duration
	// MaxPollInterval bounds the time between two polls. After it the member leaves the group, and
	// its partitions go to other members; later commits of their records return ErrRebalanced. It is
	// checked with every heartbeat. 0 means 5 min. Kafka: max.poll.interval.ms.
	MaxPollInterval time.Duration
	// RebalanceTimeout bounds the time that the group waits for this member to join a rebalance. 0
	// means MaxPollInterval, as in Kafka.
	RebalanceTimeout time.Duration

	// MinBytes is the number of bytes that a fetch waits for, up to MaxWait. Over a network it is
	// per broker. 0 means 1. Kafka: fetch.min.bytes.
	MinBytes int
	// MaxBytes bounds the size of one fetch; the first batch may exceed it. 0 means 50 MiB. Kafka:
	// fetch.max.bytes.
	MaxBytes int
	// PartitionBytes bounds the size of one partition in one fetch; the first batch may exceed it.
	// 0 means 1 MiB. Kafka: max.partition.fetch.bytes.
	PartitionBytes int
	MaxPollRecords int           // records returned by one Poll. 0: 500. Kafka: max.poll.records
	MaxWait        time.Duration // longest wait of a fetch. 0: 500 ms. Kafka: fetch.max.wait.ms
	// Rack is the location of the consumer. If the cluster selects replicas by rack
	// (strata.Config.ReplicaSelector), the consumer reads from in-sync followers in its rack, and
	// from the leader where they cannot serve it. Records arrive slightly later from a follower.
	// Kafka: client.rack.
	Rack string

	// StartAt reads starting offsets from a store of the application. It is called before the first
	// fetch of newly assigned partitions. The offsets it returns take precedence over committed
	// offsets. For partitions it leaves out, committed offsets and Reset apply. Values are as in
	// Assign.
	StartAt func(context.Context, []record.TopicPartition) (record.Offsets, error)
	// OnAssigned, OnRevoked and OnLost are called on the goroutine that polls, never between a
	// record and the end of its loop body. OnRevoked is called while the member still owns the
	// partitions, and may commit. OnLost is called when it no longer owns them. They may call the
	// consumer, but not poll it.
	OnAssigned, OnRevoked, OnLost func(context.Context, []record.TopicPartition)

	// Properties are settings by their Kafka names. New returns an error for an unknown name, and
	// for a setting that is also set as a field to another value.
	Properties map[string]string

	Logger *slog.Logger // nil discards everything
}

// ConfigError describes one bad setting.
type ConfigError struct {
	Name   string // field or Kafka key
	Reason string
}

func (e *ConfigError) Error() string { return "consumer: config " + e.Name + ": " + e.Reason }

// withDefaults returns c with defaults filled in, or all its errors.
func (c Config) withDefaults() (Config, error) {
	errs := slices.Concat(c.applyProperties(), c.outOfRange(), c.whatIsRead(), c.groupOnly(), c.ofProtocol())
	if len(errs) > 0 {
		return Config{}, errors.Join(errs...)
	}
	c.fillDefaults()
	return c, nil
}

// outOfRange checks each setting separately.
func (c *Config) outOfRange() (errs []error) {
	for name, d := range map[string]time.Duration{
		"CommitInterval": c.CommitInterval, "SessionTimeout": c.SessionTimeout, "HeartbeatInterval": c.HeartbeatInterval,
		"MaxPollInterval": c.MaxPollInterval, "RebalanceTimeout": c.RebalanceTimeout, "MaxWait": c.MaxWait,
	} {
		if d < 0 {
			errs = append(errs, &ConfigError{name, fmt.Sprintf("%s is negative", d)})
		}
	}
	for name, n := range map[string]int{"MinBytes": c.MinBytes, "MaxBytes": c.MaxBytes, "PartitionBytes": c.PartitionBytes, "MaxPollRecords": c.MaxPollRecords} {
		if n < 0 || n > math.MaxInt32 {
			errs = append(errs, &ConfigError{name, fmt.Sprintf("%d is out of range", n)})
		}
	}
	for tp, off := range c.Assign {
		if off < StartReset || tp.Partition < 0 {
			errs = append(errs, &ConfigError{"Assign", fmt.Sprintf("%s-%d: offset %d", tp.Topic, tp.Partition, off)})
		}
	}
	if c.Commit > CommitBeforeDelivery {
		errs = append(errs, &ConfigError{"Commit", fmt.Sprintf("unknown mode %d", c.Commit)})
	}
	return errs
}

// whatIsRead checks that Group, Topics, TopicPattern and Assign are consistent.
func (c *Config) whatIsRead() []error {
	bad := func(name, reason string) []error { return []error{&ConfigError{name, reason}} }
	subscribes := len(c.Topics) > 0 || c.TopicPattern != nil
	switch {
	case len(c.Topics) > 0 && c.TopicPattern != nil:
		return bad("TopicPattern", "set Topics or TopicPattern, not both")
	case c.Group != "" && len(c.Assign) > 0:
		return bad("Assign", "a group member gets its partitions from the group: set Group or Assign, not both")
	case c.Group != "" && !subscribes:
		return bad("Topics", "a group member needs topics")
	case c.Group == "" && !subscribes && len(c.Assign) == 0:
		return bad("Topics", "nothing to read: set Topics or Assign")
	case subscribes && len(c.Assign) > 0:
		return bad("Assign", "set Topics or Assign, not both")
	}
	return nil
}

// groupOnly checks that a free consumer has no settings of members.
func (c *Config) groupOnly() (errs []error) {
	if c.Group == "" && c.InstanceID != "" {
		errs = append(errs, &ConfigError{"InstanceID", "needs a Group"})
	}
	if c.Group == "" && c.Commit == CommitBeforeDelivery {
		errs = append(errs, &ConfigError{"Commit", "CommitBeforeDelivery needs a Group"})
	}
	return errs
}

// ofProtocol checks that no setting belongs to the other protocol.
func (c *Config) ofProtocol() (errs []error) {
	refuse := func(name string, set bool, reason string) {
		if set {
			errs = append(errs, &ConfigError{name, reason})
		}
	}
	switch c.Protocol {
	case ProtocolClassic:
		refuse("RemoteAssignor", c.RemoteAssignor != "", "needs ProtocolConsumer: members of the classic protocol have Assignors")
	case ProtocolConsumer:
		refuse("Protocol", c.Group == "", "needs a Group")
		refuse("Assignors", c.Assignors != nil, "the coordinator assigns with ProtocolConsumer: see RemoteAssignor")
		refuse("SessionTimeout", c.SessionTimeout != 0, "is the group's with ProtocolConsumer: see group.Config.ConsumerSessionTimeout")
		refuse("HeartbeatInterval", c.HeartbeatInterval != 0, "is the group's with ProtocolConsumer: see group.Config.ConsumerHeartbeatInterval")
	default:
		refuse("Protocol", true, fmt.Sprintf("unknown protocol %d", c.Protocol))
	}
	return errs
}

func (c *Config) fillDefaults() {
	setDefault(&c.CommitInterval, DefaultCommitInterval)
	setDefault(&c.SessionTimeout, DefaultSessionTimeout)
	setDefault(&c.HeartbeatInterval, min(DefaultHeartbeatInterval, c.SessionTimeout/3))
	setDefault(&c.MaxPollInterval, DefaultMaxPollInterval)
	setDefault(&c.RebalanceTimeout, c.MaxPollInterval)
	setDefault(&c.MinBytes, 1)
	setDefault(&c.MaxBytes, DefaultMaxBytes)
	setDefault(&c.PartitionBytes, DefaultPartitionBytes)
	setDefault(&c.MaxPollRecords, DefaultMaxPollRecords)
	setDefault(&c.MaxWait, DefaultMaxWait)
	if c.Assignors == nil {
		c.Assignors = []assignor.Assignor{assignor.CooperativeSticky()}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.warn()
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}
