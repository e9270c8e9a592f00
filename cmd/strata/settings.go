package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

// A brokerKey is a broker setting that is no default of a topic setting, by Kafka's name.
type brokerKey struct {
	name string
	set  func(c *strata.Config, k *kafka.Config, value string) error
}

var brokerKeys = []brokerKey{
	{"auto.create.topics.enable", func(_ *strata.Config, k *kafka.Config, v string) error {
		on, err := strconv.ParseBool(v)
		k.NoAutoCreate = !on
		return err
	}},
	{"num.partitions", func(c *strata.Config, _ *kafka.Config, v string) error { return number(&c.Defaults.Partitions, v, 1) }},
	{"default.replication.factor", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Defaults.ReplicationFactor, v, 1)
	}},
	{"offsets.topic.num.partitions", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Group.OffsetsPartitions, v, 1)
	}},
	{"group.max.size", func(c *strata.Config, _ *kafka.Config, v string) error { return number(&c.Group.MaxSize, v, 1) }},
	{"group.initial.rebalance.delay.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.InitialRebalanceDelay, v, time.Millisecond)
	}},
	{"group.min.session.timeout.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.MinSessionTimeout, v, time.Millisecond)
	}},
	{"group.max.session.timeout.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.MaxSessionTimeout, v, time.Millisecond)
	}},
	{"group.consumer.session.timeout.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.ConsumerSessionTimeout, v, time.Millisecond)
	}},
	{"group.consumer.heartbeat.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.ConsumerHeartbeatInterval, v, time.Millisecond)
	}},
	{"group.consumer.min.session.timeout.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.ConsumerMinSessionTimeout, v, time.Millisecond)
	}},
	{"group.consumer.max.session.timeout.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.ConsumerMaxSessionTimeout, v, time.Millisecond)
	}},
	{"group.consumer.min.heartbeat.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.ConsumerMinHeartbeatInterval, v, time.Millisecond)
	}},
	{"group.consumer.max.heartbeat.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.ConsumerMaxHeartbeatInterval, v, time.Millisecond)
	}},
	{"group.consumer.migration.policy", func(c *strata.Config, _ *kafka.Config, v string) (err error) {
		c.Group.ConsumerMigration, err = group.ParseMigrationPolicy(v)
		return err
	}},
	{"group.consumer.max.size", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Group.ConsumerMaxSize, v, 1)
	}},
	{"group.consumer.assignment.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return interval(&c.Group.ConsumerAssignmentInterval, v)
	}},
	{"group.share.session.timeout.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.ShareSessionTimeout, v, time.Millisecond)
	}},
	{"group.share.heartbeat.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.ShareHeartbeatInterval, v, time.Millisecond)
	}},
	{"group.share.min.session.timeout.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.ShareMinSessionTimeout, v, time.Millisecond)
	}},
	{"group.share.max.session.timeout.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.ShareMaxSessionTimeout, v, time.Millisecond)
	}},
	{"group.share.min.heartbeat.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.ShareMinHeartbeatInterval, v, time.Millisecond)
	}},
	{"group.share.max.heartbeat.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.ShareMaxHeartbeatInterval, v, time.Millisecond)
	}},
	{"group.share.max.size", func(c *strata.Config, _ *kafka.Config, v string) error { return number(&c.Group.ShareMaxSize, v, 1) }},
	{"group.share.assignment.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return interval(&c.Group.ShareAssignmentInterval, v)
	}},
	{"group.share.record.lock.duration.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Shares.LockDuration, v, time.Millisecond)
	}},
	{"group.share.delivery.count.limit", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Shares.MaxDeliveryCount, v, 2)
	}},
	{"group.share.partition.max.record.locks", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Shares.MaxInFlight, v, 1)
	}},
	{"group.streams.session.timeout.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.Streams.SessionTimeout, v, time.Millisecond)
	}},
	{"group.streams.heartbeat.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.Streams.HeartbeatInterval, v, time.Millisecond)
	}},
	{"group.streams.min.session.timeout.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.Streams.MinSessionTimeout, v, time.Millisecond)
	}},
	{"group.streams.max.session.timeout.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.Streams.MaxSessionTimeout, v, time.Millisecond)
	}},
	{"group.streams.min.heartbeat.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.Streams.MinHeartbeatInterval, v, time.Millisecond)
	}},
	{"group.streams.max.heartbeat.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.Streams.MaxHeartbeatInterval, v, time.Millisecond)
	}},
	{"group.streams.min.assignment.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.Streams.MinAssignmentInterval, v, time.Millisecond)
	}},
	{"group.streams.max.assignment.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.Streams.MaxAssignmentInterval, v, time.Millisecond)
	}},
	{"group.streams.assignment.interval.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return interval(&c.Group.Streams.AssignmentInterval, v)
	}},
	{"group.streams.initial.rebalance.delay.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return interval(&c.Group.Streams.InitialRebalanceDelay, v)
	}},
	{"group.streams.max.size", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Group.Streams.MaxSize, v, 1)
	}},
	{"group.streams.num.standby.replicas", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Group.Streams.StandbyReplicas, v, 0)
	}},
	{"group.streams.max.standby.replicas", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Group.Streams.MaxStandbyReplicas, v, 1)
	}},
	{"share.coordinator.state.topic.num.partitions", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Shares.Topic.Partitions, v, 1)
	}},
	{"share.coordinator.state.topic.replication.factor", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Shares.Topic.Replicas, v, 1)
	}},
	{"share.coordinator.state.topic.min.isr", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Shares.Topic.MinInSync, v, 1)
	}},
	{"offsets.topic.replication.factor", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Group.OffsetsReplicas, v, 1)
	}},
	{"offsets.retention.minutes", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Group.OffsetsRetention, v, time.Minute)
	}},
	{"transaction.version", func(c *strata.Config, _ *kafka.Config, v string) error {
		level, err := strconv.ParseInt(v, 10, 8)
		if c.Transactions.Version = int16(level); level == 0 {
			c.Transactions.Version = transaction.LevelZero
		} else if level < 0 {
			err = errors.New("is negative")
		}
		return err
	}},
	{"transaction.max.timeout.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Transactions.MaxTimeout, v, time.Millisecond)
	}},
	{"transactional.id.expiration.ms", func(c *strata.Config, _ *kafka.Config, v string) error {
		return span(&c.Transactions.Expiration, v, time.Millisecond)
	}},
	{"transaction.state.log.num.partitions", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Transactions.Topic.Partitions, v, 1)
	}},
	{"transaction.state.log.replication.factor", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Transactions.Topic.Replicas, v, 1)
	}},
	{"transaction.state.log.min.isr", func(c *strata.Config, _ *kafka.Config, v string) error {
		return number(&c.Transactions.Topic.MinInSync, v, 1)
	}},
	{"replica.selector.class", func(c *strata.Config, _ *kafka.Config, v string) (err error) {
		c.ReplicaSelector, err = replication.ParseReplicaSelector(v)
		return err
	}},
	{"socket.request.max.bytes", func(_ *strata.Config, k *kafka.Config, v string) error { return number(&k.Limits.RequestBytes, v, 1) }},
	{"max.connections", func(_ *strata.Config, k *kafka.Config, v string) error { return number(&k.Limits.Connections, v, 1) }},
	{"connections.max.idle.ms", func(_ *strata.Config, k *kafka.Config, v string) error {
		return span(&k.Limits.Idle, v, time.Millisecond)
	}},
}

func brokerKeyNames() string {
	names := make([]string, 0, len(brokerKeys))
	for _, k := range brokerKeys {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}

// number sets p to v, an integer of at least least.
func number[N int | int32](p *N, v string, least int64) error {
	n, err := strconv.ParseInt(v, 10, 32)
	if err == nil && n < least {
		err = fmt.Errorf("must be at least %d", least)
	}
	*p = N(n)
	return err
}

// span sets p to v units. v is an integer of at least 0.
func span(p *time.Duration, v string, unit time.Duration) error {
	n, err := strconv.ParseInt(v, 10, 32)
	if err == nil && n < 0 {
		err = errors.New("must be at least 0")
	}
	*p = time.Duration(n) * unit
	return err
}

// interval sets p to v milliseconds, and to group.Unlimited if v is 0, which is Kafka's "no
// interval".
func interval(p *time.Duration, v string) error {
	err := span(p, v, time.Millisecond)
	if *p == 0 {
		*p = group.Unlimited
	}
	return err
}

// applySettings parses key=value settings into the configurations.
func applySettings(c *strata.Config, k *kafka.Config, settings []string) error {
	props := map[string]string{}
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return misuse("--set %s: must be key=value", s)
		}
		if i := slices.IndexFunc(brokerKeys, func(b brokerKey) bool { return b.name == name }); i >= 0 {
			if err := brokerKeys[i].set(c, k, value); err != nil {
				return misuse("--set %s: %v", s, err)
			}
			continue
		}
		key, value, err := topicSetting(name, value)
		if err != nil {
			return err
		}
		if _, twice := props[key]; twice {
			return misuse("--set %s: %s is set twice", s, key)
		}
		props[key] = value
	}
	c.Defaults.Properties = props
	if _, err := c.Defaults.Explicit(); err != nil {
		return misuse("--set: %v", err)
	}
	return nil
}

// topicSetting returns key and value of a topic setting. name is the topic's key, or the broker's
// key for the default.
func topicSetting(name, value string) (string, string, error) {
	for _, k := range topic.Keys() {
		if k.Name == name {
			return name, value, nil
		}
		if !slices.Contains(k.Synonyms, name) {
			continue
		}
		unit := int64(1)
		if strings.HasSuffix(k.Name, ".ms") && strings.HasSuffix(name, ".hours") {
			unit = time.Hour.Milliseconds()
		} else if strings.HasSuffix(k.Name, ".ms") && strings.HasSuffix(name, ".minutes") {
			unit = time.Minute.Milliseconds()
		}
		if unit == 1 {
			return k.Name, value, nil
		}
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return "", "", misuse("--set %s=%s: %v", name, value, err)
		}
		return k.Name, strconv.FormatInt(max(n*unit, -1), 10), nil
	}
	return "", "", misuse("--set %s: unknown setting; `strata serve --help` lists the settings", name)
}
