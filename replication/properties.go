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

// brokerProperties read Kafka's settings of a broker into their fields. They return what is wrong
// with the value, "" for nothing.
var brokerProperties = map[string]func(c *Config, value string) (reason string){
	"log.cleaner.backoff.ms":          interval(func(c *Config) *time.Duration { return &c.CompactionInterval }),
	"log.retention.check.interval.ms": interval(func(c *Config) *time.Duration { return &c.RetentionCheckInterval }),
	"producer.id.expiration.ms":       interval(func(c *Config) *time.Duration { return &c.ProducerIDExpiration }),
	"replica.lag.time.max.ms":         interval(func(c *Config) *time.Duration { return &c.ReplicaMaxLag }),
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
		} else if name != "log.cleaner.enable" {
			reason = "no such setting here"
		}
		if reason != "" {
			errs = append(errs, &topic.ConfigError{Key: name, Value: v, Reason: reason})
		}
	}
	c.Defaults.Properties = defaults
	// After log.cleaner.backoff.ms, which then does not matter.
	if v, ok := c.Properties["log.cleaner.enable"]; ok {
		on, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(v)))
		switch {
		case err != nil:
			errs = append(errs, &topic.ConfigError{Key: "log.cleaner.enable", Value: v, Reason: "must be true or false"})
		case !on:
			c.CompactionInterval = log.Unlimited
		case c.CompactionInterval == log.Unlimited:
			errs = append(errs, &topic.ConfigError{Key: "log.cleaner.enable", Value: v, Reason: otherwise})
		}
	}
	return errors.Join(errs...)
}

// interval reads a positive number of milliseconds.
func interval(field func(*Config) *time.Duration) func(*Config, string) string {
	return func(c *Config, v string) string {
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil || n < 1 || n > math.MaxInt64/int64(time.Millisecond) {
			return "must be a number of milliseconds from 1"
		}
		return setField(field(c), time.Duration(n)*time.Millisecond)
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
