package replication

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/topic"
)

// brokerProperties set fields from Kafka's settings of a broker. They return why the value is
// invalid, or "".
var brokerProperties = map[string]func(c *Config, value string) (reason string){
	"log.cleaner.backoff.ms":                        interval(func(c *Config) *time.Duration { return &c.CompactionInterval }, time.Millisecond),
	"log.retention.check.interval.ms":               interval(func(c *Config) *time.Duration { return &c.RetentionCheckInterval }, time.Millisecond),
	"producer.id.expiration.ms":                     interval(func(c *Config) *time.Duration { return &c.ProducerIDExpiration }, time.Millisecond),
	"broker.session.timeout.ms":                     interval(func(c *Config) *time.Duration { return &c.SessionTimeout }, time.Millisecond),
	"replica.high.watermark.checkpoint.interval.ms": interval(func(c *Config) *time.Duration { return &c.HighWatermarkInterval }, time.Millisecond),
	"replica.lag.time.max.ms":                       interval(func(c *Config) *time.Duration { return &c.ReplicaMaxLag }, time.Millisecond),
	"leader.imbalance.check.interval.seconds":       interval(func(c *Config) *time.Duration { return &c.LeaderBalanceInterval }, time.Second),

	"replica.selector.class": func(c *Config, v string) string {
		s, err := ParseReplicaSelector(v)
		if err != nil {
			return err.Error()
		}
		if c.ReplicaSelector != s && c.ReplicaSelector != LeaderSelector {
			return otherwise
		}
		c.ReplicaSelector = s
		return ""
	},

	"log.cleaner.dedupe.buffer.size": func(c *Config, v string) string {
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil || n < leastCompactionMemory {
			return "must be a number of bytes from " + strconv.Itoa(leastCompactionMemory)
		}
		return setField(&c.CompactionMemory, n)
	},
}

// leastCompactionMemory is enough for a thousand keys.
const leastCompactionMemory = 24 << 10

const otherwise = "differs from the field of Config that says the same"

// readProperties moves Properties into the fields, and the defaults of topics into Defaults.
func (c *Config) readProperties() error {
	var errs []error
	defaults := maps.Clone(c.Defaults.Properties)
	for _, name := range slices.Sorted(maps.Keys(c.Properties)) {
		v, reason := c.Properties[name], ""
		if read, ok := brokerProperties[name]; ok {
			reason = read(c, v)
		} else if k, ok := topic.LookupBrokerKey(name); ok {
			if had, ok := defaults[k.Name]; ok && had != v {
				reason = otherwise
			}
			if defaults == nil {
				defaults = map[string]string{}
			}
			defaults[k.Name] = v
		} else if _, ok := switches[name]; !ok {
			reason = "no such setting here"
		}
		if reason != "" {
			errs = append(errs, &topic.ConfigError{Key: name, Value: v, Reason: reason})
		}
	}
	c.Defaults.Properties = defaults
	// After their intervals, which do not matter if they are off.
	for _, name := range slices.Sorted(maps.Keys(switches)) {
		v, ok := c.Properties[name]
		if !ok {
			continue
		}
		on, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(v)))
		switch field := switches[name](c); {
		case err != nil:
			errs = append(errs, &topic.ConfigError{Key: name, Value: v, Reason: "must be true or false"})
		case !on:
			*field = log.Unlimited
		case *field == log.Unlimited:
			errs = append(errs, &topic.ConfigError{Key: name, Value: v, Reason: otherwise})
		}
	}
	return errors.Join(errs...)
}

// switches turn something off whose interval is a field.
var switches = map[string]func(*Config) *time.Duration{
	"auto.leader.rebalance.enable": func(c *Config) *time.Duration { return &c.LeaderBalanceInterval },
	"log.cleaner.enable":           func(c *Config) *time.Duration { return &c.CompactionInterval },
}

// interval reads a positive number of milliseconds, or of seconds.
func interval(field func(*Config) *time.Duration, unit time.Duration) func(*Config, string) string {
	name := map[time.Duration]string{time.Millisecond: "milliseconds", time.Second: "seconds"}[unit]
	return func(c *Config, v string) string {
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil || n < 1 || n > math.MaxInt64/int64(unit) {
			return "must be a number of " + name + " from 1"
		}
		return setField(field(c), time.Duration(n)*unit)
	}
}

// setField sets a field that is unset or equal.
func setField[T comparable](field *T, v T) (reason string) {
	var zero T
	if *field != zero && *field != v {
		return otherwise
	}
	*field = v
	return ""
}
