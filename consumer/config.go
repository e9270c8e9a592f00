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

// CommitMode says when a group's offsets are committed.
type CommitMode uint8

const (
	// CommitProcessed is at-least-once, and the default: a record is committed only after the loop
	// has come back for the next one, every CommitInterval, before a partition is given up and on
	// Close. It holds as long as the work is done in the loop body.
	CommitProcessed CommitMode = iota
	// CommitManual leaves it to the application to call Commit, or never to do so.
	CommitManual
	// CommitBeforeDelivery is at-most-once: what is handed out was committed before, so a crash
	// loses what was being worked on.
	CommitBeforeDelivery
)

// Isolation says what of transactions is read.
type Isolation = partition.Isolation

const (
	// ReadCommitted shows nothing of open or aborted transactions (the default).
	ReadCommitted   = partition.ReadCommitted
	ReadUncommitted = partition.ReadUncommitted // everything below the high watermark
)

// Starting points for Config.Assign, beside real offsets.
const (
	StartLatest   int64 = -1 // the end, as it is when the partition is first read
	StartEarliest int64 = -2 // the first record held
	StartReset    int64 = -3 // what Config.Reset says
)

// A Reset says where to start in a partition for which there is no offset, or whose offset is no
// longer held. The zero Reset is Earliest. Kafka: auto.offset.reset, whose default is latest.
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

// Earliest starts at the first record held.
func Earliest() Reset { return Reset{} }

// Latest starts at the end: only what comes later is read. Partitions that come while the consumer
// is at work, added to a topic or of one created (again), are read from their first record; a group
// goes on there. What came while the whole group was away, or before this consumer and nobody in
// the group has had yet, begins at its end, as in Kafka: a group that must miss nothing takes
// Earliest.
func Latest() Reset { return Reset{kind: resetLatest} }

// At starts at the first record with timestamp t or later, at the end if there is none.
func At(t time.Time) Reset { return Reset{kind: resetAt, at: t} }

// Fail yields ErrNoOffset instead of jumping.
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

// Config describes a consumer. Either Group with Topics, or (a free consumer) Assign, or Topics
// alone, which is all of their partitions.
type Config struct {
	// Group is the group's id; empty makes a free consumer: no membership, no commits. Kafka:
	// group.id.
	Group string
	// InstanceID makes the member static: it comes back under that name without a rebalance, and
	// Close does not leave the group (with ProtocolConsumer it says that it will be back). Only if
	// what the group has assigned does not fit any more, since topics, partitions or this member's
	// Topics have changed, it asks for a rebalance then, within a HeartbeatInterval; Kafka's
	// clients do not. So it does for partitions that an assignor leaves to nobody; the coordinator
	// of ProtocolConsumer does both by itself. Kafka: group.instance.id (KIP-345).
	InstanceID string
	// ClientID names the consumer in descriptions of the group. Empty: "strata". Kafka: client.id.
	ClientID string
	// Topics are the topics subscribed to; Subscribe changes them.
	Topics []string
	// TopicPattern subscribes to all topics whose whole name it matches, but for internal ones;
	// those that come later join by themselves. With ProtocolConsumer the coordinator matches, and
	// takes no very large one: see group.ConsumerHeartbeatRequest.
	TopicPattern *regexp.Regexp
	// AllowUnknownTopics says that topics may come later. Without it a topic that does not exist is
	// an error of New.
	AllowUnknownTopics bool
	// Assign names the partitions of a free consumer and the offset to start at in each, or
	// StartEarliest, StartLatest, StartReset.
	Assign record.Offsets
	Reset  Reset

	// Protocol is that of the group. Kafka: group.protocol.
	Protocol Protocol
	// RemoteAssignor names the assignor that the coordinator shares partitions out by, with
	// ProtocolConsumer: "uniform", "range" or another one of group.Config.ConsumerAssignors, by
	// which most members of the group count. Empty: the first one there. Kafka:
	// group.remote.assignor.
	RemoteAssignor string

	Commit CommitMode
	// CommitInterval is how often processed offsets are committed with CommitProcessed. 0: 1 s.
	// Kafka: auto.commit.interval.ms.
	CommitInterval time.Duration
	Isolation      Isolation // Kafka: isolation.level

	// Assignors in order of preference. nil: CooperativeSticky alone, so that a rebalance stops
	// nobody who keeps its partitions. Incremental hand-over needs every assignor of the list to be
	// capable of it, and all members of a group need one in common: to join members that use Range
	// (Kafka's default lists both), name CooperativeSticky and Range, which is handed over eagerly;
	// when all members have both, take Range away again in a second rolling restart. Kafka:
	// partition.assignment.strategy.
	Assignors []assignor.Assignor

	// SessionTimeout is after how long without a heartbeat the group takes a member for dead and
	// gives its partitions to others: until then nobody reads them. Too long detects a death late,
	// too short takes every pause for one and rebalances; below 10 s and above 2 min New warns. 0:
	// 45 s. Kafka: session.timeout.ms.
	SessionTimeout time.Duration
	// HeartbeatInterval should be a third to a quarter of the session timeout, so that one lost
	// heartbeat costs nothing; above a third and below a hundredth New warns. 0: 3 s, or a third of
	// the session timeout if that is less. Kafka: heartbeat.interval.ms.
	HeartbeatInterval time.Duration
	// MaxPollInterval is how long the application may stay away between two polls; then the member
	// leaves and its partitions move on. 0: 5 min. It is checked with every heartbeat. Kafka:
	// max.poll.interval.ms.
	MaxPollInterval time.Duration
	// RebalanceTimeout is how long the group waits for this member to come to a rebalance. 0:
	// MaxPollInterval, as in Kafka.
	RebalanceTimeout time.Duration

	// MinBytes is how many bytes a fetch waits for, up to MaxWait. 0: 1. Kafka: fetch.min.bytes
	MinBytes int
	// MaxBytes bounds one fetch; the first batch may exceed it. 0: 50 MiB. Kafka: fetch.max.bytes
	MaxBytes int
	// PartitionBytes bounds one partition in one fetch; likewise. 0: 1 MiB. Kafka:
	// max.partition.fetch.bytes
	PartitionBytes int
	MaxPollRecords int           // of one Poll. 0: 500. Kafka: max.poll.records
	MaxWait        time.Duration // 0: 500 ms. Kafka: fetch.max.wait.ms
	// Rack is where the consumer is. If the cluster selects replicas by racks
	// (strata.Config.ReplicaSelector) it reads from in-sync followers there, and from the leaders
	// what these cannot serve; records come a little later from a follower. Kafka: client.rack
	Rack string

	// StartAt is an offset store of the application's own: asked before the first fetch of newly
	// assigned partitions; what it returns wins over committed offsets, for partitions that it
	// leaves out these and Reset apply. Offsets as in Assign.
	StartAt func(context.Context, []record.TopicPartition) (record.Offsets, error)
	// The callbacks run on the goroutine that polls, never between a record and the end of its loop
	// body. OnRevoked runs while the partitions are still owned (commit there), OnLost when they
	// are gone already. They may call the consumer, but not poll it.
	OnAssigned, OnRevoked, OnLost func(context.Context, []record.TopicPartition)

	// Properties are settings by their Kafka names. One that is also set as a field, to another
	// value, is an error; unknown ones are too.
	Properties map[string]string

	Logger *slog.Logger // nil discards everything
}

// ConfigError describes one bad setting.
type ConfigError struct {
	Name   string // field or Kafka key
	Reason string
}

func (e *ConfigError) Error() string { return "consumer: config " + e.Name + ": " + e.Reason }

// withDefaults returns c with everything filled in, or all that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	errs := slices.Concat(c.applyProperties(), c.outOfRange(), c.whatIsRead(), c.groupOnly(), c.ofProtocol())
	if len(errs) > 0 {
		return Config{}, errors.Join(errs...)
	}
	c.fillDefaults()
	return c, nil
}

// outOfRange checks each setting by itself.
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

// whatIsRead checks that Group, Topics, TopicPattern and Assign say one thing.
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

// ofProtocol checks that no setting is one of the other protocol.
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
	setDefault(&c.ClientID, "strata")
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
