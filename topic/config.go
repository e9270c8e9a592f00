package topic

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/stratalog/strata/log"
)

// Config describes a topic to be created, or the defaults of all topics of a cluster. The zero
// Config stands for the defaults.
type Config struct {
	// Partitions is the number of partitions; 0 means the cluster's default, which is 1 unless set.
	// Kafka: num.partitions.
	Partitions int

	// ReplicationFactor is the number of replicas of each partition; 0 means the cluster's default,
	// which is 1 unless set. Kafka: default.replication.factor.
	ReplicationFactor int

	// Assignment lists the brokers with replicas of each partition, the preferred leader first.
	// With an Assignment, Partitions and ReplicationFactor may be 0. nil: the cluster places the
	// replicas. It is only for the creation of a topic, not for defaults.
	Assignment [][]int32

	// ID is the id of the new topic; zero: the cluster chooses one. A caller that sets it, with
	// NewID, may retry a creation whose outcome is unknown: if a topic with this id has the same
	// name, partitions and settings, the creation succeeds. It is only for the creation of a topic,
	// not for defaults.
	ID ID

	// MinInSyncReplicas is the number of in-sync replicas that an acks=all write needs; 0 means the
	// cluster's default, which is 1 unless set. Kafka: min.insync.replicas.
	MinInSyncReplicas int

	// Log holds the settings that have a Kafka key, under Go names; a zero field is not set.
	// Settings of a broker rather than a topic (file system, logger, hooks and the like) must be
	// zero.
	Log log.Config

	// Properties are settings by their Kafka keys. A setting that is also set in a field above must
	// have the same value.
	Properties map[string]string
}

// Explicit returns the canonical form of the configuration: a map of all keys that are set, in a
// field or in Properties. The caller owns it; it is not nil. The error joins a *ConfigError for
// each rejected field or key.
func (c Config) Explicit() (map[string]string, error) {
	fields, err := c.fields()
	if err != nil {
		return nil, err
	}
	if len(fields)+len(c.Properties) == 0 {
		return map[string]string{}, nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		k := lookup(name)
		if _, err := k.read(fields[name]); err != nil {
			errs = append(errs, err)
			continue
		}
		text, both := c.Properties[name]
		if !both {
			continue
		}
		set, err := k.read(text)
		if want, _ := k.read(fields[name]); err == nil && !set.equal(want) {
			errs = append(errs, &ConfigError{Key: name, Value: text, Reason: "the struct says " + fields[name]})
		}
	}
	all := make(map[string]string, len(fields)+len(c.Properties))
	maps.Copy(all, fields)
	maps.Copy(all, c.Properties)
	if _, err := Parse(all, nil); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return all, nil
}

// fields returns the keys that are set by fields.
func (c Config) fields() (map[string]string, error) {
	f := fieldKeys{}
	l := c.Log
	f.num("min.insync.replicas", int64(c.MinInSyncReplicas))
	if l.SegmentBytes > 0 && l.SegmentBytes < MinSegmentBytes {
		f.num("internal.segment.bytes", l.SegmentBytes)
	} else {
		f.num("segment.bytes", l.SegmentBytes)
	}
	f.millis("segment.ms", l.SegmentAge)
	f.millis("segment.jitter.ms", l.SegmentJitter)
	f.num("segment.index.bytes", int64(l.IndexBytes))
	f.num("index.interval.bytes", int64(l.IndexIntervalBytes))
	f.num("retention.bytes", l.RetentionBytes)
	f.millis("retention.ms", l.RetentionAge)
	f.num("max.message.bytes", int64(l.MaxBatchBytes))
	f.millis("min.compaction.lag.ms", l.MinCompactionLag)
	f.millis("max.compaction.lag.ms", l.MaxCompactionLag)
	f.millis("delete.retention.ms", l.DeleteRetention)
	if l.MinDirtyRatio != 0 {
		f.set("min.cleanable.dirty.ratio", strconv.FormatFloat(l.MinDirtyRatio, 'g', -1, 64))
	}
	f.millis("file.delete.delay.ms", l.DeleteDelay)
	f.cleanup(l.Cleanup)
	f.sync(l.Sync)
	return f.keys, errors.Join(append(f.errs, brokerFields(l))...)
}

// brokerFields rejects fields that are settings of a broker and not of a topic.
func brokerFields(l log.Config) error {
	l.SegmentBytes, l.SegmentAge, l.SegmentJitter = 0, 0, 0
	l.IndexBytes, l.IndexIntervalBytes = 0, 0
	l.RetentionBytes, l.RetentionAge, l.MaxBatchBytes = 0, 0, 0
	l.MinCompactionLag, l.MaxCompactionLag, l.DeleteRetention, l.DeleteDelay, l.MinDirtyRatio = 0, 0, 0, 0, 0
	l.Cleanup, l.Sync = 0, log.SyncOnAck // the zero values
	var errs []error
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			errs = append(errs, &ConfigError{Key: "Log." + v.Type().Field(i).Name, Value: fmt.Sprint(v.Field(i).Type()), Reason: "it belongs to a broker, not to a topic"})
		}
	}
	return errors.Join(errs...)
}

// fieldKeys collects keys from fields; zero values are not set.
type fieldKeys struct {
	keys map[string]string
	errs []error
}

func (f *fieldKeys) set(key, value string) {
	if f.keys == nil {
		f.keys = map[string]string{}
	}
	f.keys[key] = value
}

func (f *fieldKeys) num(key string, n int64) {
	if n != 0 {
		f.set(key, strconv.FormatInt(n, 10))
	}
}

// millis takes a duration; log.Unlimited is -1, and anything else must be whole milliseconds to
// mean the same in both forms.
func (f *fieldKeys) millis(key string, d time.Duration) {
	switch {
	case d == log.Unlimited:
		f.set(key, unlimited(key))
	case d%time.Millisecond != 0 && d != math.MaxInt64:
		f.errs = append(f.errs, &ConfigError{Key: key, Value: d.String(), Reason: "must be whole milliseconds"})
	default:
		f.num(key, d.Milliseconds())
	}
}

// unlimited is how Kafka spells no bound.
func unlimited(key string) string {
	if key == "max.compaction.lag.ms" {
		return maxLong
	}
	return "-1"
}

// cleanup takes the cleanup policy.
func (f *fieldKeys) cleanup(p log.CleanupPolicy) {
	switch p {
	case 0:
	case log.CleanupNone:
		f.set("cleanup.policy", "")
	case log.CleanupDelete:
		f.set("cleanup.policy", "delete")
	case log.CleanupCompact:
		f.set("cleanup.policy", "compact")
	case log.CleanupCompact | log.CleanupDelete:
		f.set("cleanup.policy", "compact,delete")
	default:
		f.errs = append(f.errs, &ConfigError{Key: "cleanup.policy", Value: fmt.Sprint(p), Reason: "unknown policy"})
	}
}

// sync takes the sync policy in Kafka's words. The zero policy, SyncOnAck, is the default and not
// set.
func (f *fieldKeys) sync(p log.SyncPolicy) {
	switch {
	case p == log.SyncOnAck:
	case p == log.SyncNever:
		f.set("flush.messages", maxLong)
	default:
		f.millis("flush.ms", p.Interval())
	}
}
