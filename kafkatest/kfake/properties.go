package kfake

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/stratalog/strata/kafkatest"
)

// setProperties moves BrokerConfigs to the fields of s. The brokers read, or reject, settings that
// are not in the tables below.
func (c *Cluster) setProperties(s *kafkatest.Config) error {
	numbers := map[string]*int{
		"group.share.delivery.count.limit":       &s.Shares.MaxDeliveryCount,
		"group.share.partition.max.record.locks": &s.Shares.MaxInFlight,
		"group.share.max.size":                   &s.Group.ShareMaxSize,
		"group.streams.max.size":                 &s.Group.Streams.MaxSize,
		"group.consumer.max.size":                &s.Group.ConsumerMaxSize,
		"group.max.size":                         &s.Group.MaxSize,
		"offset.metadata.max.bytes":              &s.Group.OffsetMetadataMax,
		"default.replication.factor":             &s.Replicas,
	}
	durations := map[string]struct {
		field *time.Duration
		unit  time.Duration
	}{
		"group.consumer.heartbeat.interval.ms":            {&s.Group.ConsumerHeartbeatInterval, time.Millisecond},
		"group.consumer.session.timeout.ms":               {&s.Group.ConsumerSessionTimeout, time.Millisecond},
		"group.share.heartbeat.interval.ms":               {&s.Group.ShareHeartbeatInterval, time.Millisecond},
		"group.share.session.timeout.ms":                  {&s.Group.ShareSessionTimeout, time.Millisecond},
		"group.share.record.lock.duration.ms":             {&s.Shares.LockDuration, time.Millisecond},
		"group.streams.heartbeat.interval.ms":             {&s.Group.Streams.HeartbeatInterval, time.Millisecond},
		"group.streams.session.timeout.ms":                {&s.Group.Streams.SessionTimeout, time.Millisecond},
		"group.initial.rebalance.delay.ms":                {&s.Group.InitialRebalanceDelay, time.Millisecond},
		"group.min.session.timeout.ms":                    {&s.Group.MinSessionTimeout, time.Millisecond},
		"group.max.session.timeout.ms":                    {&s.Group.MaxSessionTimeout, time.Millisecond},
		"group.consumer.assignment.interval.ms":           {&s.Group.ConsumerAssignmentInterval, time.Millisecond},
		"group.share.assignment.interval.ms":              {&s.Group.ShareAssignmentInterval, time.Millisecond},
		"offset.retention.ms":                             {&s.Group.OffsetsRetention, time.Millisecond}, // as kfake calls it
		"offsets.retention.minutes":                       {&s.Group.OffsetsRetention, time.Minute},
		"offsets.retention.check.interval.ms":             {&s.Group.ExpiryInterval, time.Millisecond},
		"transaction.max.timeout.ms":                      {&s.Transactions.MaxTimeout, time.Millisecond},
		"transactional.id.expiration.ms":                  {&s.Transactions.Expiration, time.Millisecond},
		"share.coordinator.state.topic.prune.interval.ms": {&s.Shares.PruneInterval, time.Millisecond},
	}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.properties)) {
		value := c.cfg.properties[name]
		if value == "" {
			continue
		}
		number, isNumber := numbers[name]
		duration, isDuration := durations[name]
		switch {
		case isNumber:
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return fmt.Errorf("BrokerConfigs: %s=%s: must be a number from 1", name, value)
			}
			*number = n
		case isDuration:
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 || n > math.MaxInt64/int64(duration.unit) {
				return fmt.Errorf("BrokerConfigs: %s=%s: must be a number from 0", name, value)
			}
			*duration.field = time.Duration(n) * duration.unit
		case name == lockSweep: // no effect: locks expire at their time
		default:
			s.Properties[name] = value
		}
	}
	for timeout, interval := range map[*time.Duration]*time.Duration{
		&s.Group.ShareSessionTimeout:    &s.Group.ShareHeartbeatInterval,
		&s.Group.ConsumerSessionTimeout: &s.Group.ConsumerHeartbeatInterval,
		&s.Group.Streams.SessionTimeout: &s.Group.Streams.HeartbeatInterval,
	} {
		if *interval == 0 && *timeout > 0 { // short sessions need short intervals
			*interval = min(*timeout/3, defaultHeartbeat)
		}
	}
	return nil
}

// defaultHeartbeat is the default heartbeat interval of members of groups other than classic ones.
const defaultHeartbeat = 5 * time.Second

// lockSweep is kfake's setting for the interval of its checks for expired locks.
const lockSweep = "share.record.lock.sweep.interval.ms"
