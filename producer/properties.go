package producer

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata/record"
)

// A property parses one Kafka setting into its field of a Config. It returns the reason why the
// value is invalid, "" if it is valid.
type property func(c *Config, value string) (reason string)

var properties = map[string]property{
	"acks": func(c *Config, v string) string {
		a, ok := map[string]record.Acks{"all": record.AcksAll, "-1": record.AcksAll, "1": record.AcksLeader, "0": record.AcksNone}[v]
		if !ok {
			return "must be all, -1, 1 or 0"
		}
		return assign(&c.Acks, a)
	},
	"client.id": func(c *Config, v string) string { return assign(&c.ClientID, v) },
	"enable.idempotence": func(c *Config, v string) string {
		on, err := strconv.ParseBool(strings.ToLower(v))
		switch {
		case err != nil:
			return "must be true or false"
		case on && c.NoIdempotence:
			return conflict
		}
		c.NoIdempotence = !on
		return ""
	},
	"transactional.id": func(c *Config, v string) string {
		if v == "" {
			return "must not be empty"
		}
		return assign(&c.TransactionalID, v)
	},
	"transaction.timeout.ms": duration(func(c *Config) *time.Duration { return &c.TransactionTimeout }, 1),
	"compression.type": func(c *Config, v string) string {
		codec, err := record.ParseCodec(v)
		if err != nil {
			return "must be none, gzip, snappy, lz4 or zstd"
		}
		return assign(&c.Compression, codec)
	},
	// 0: one record per batch
	"batch.size": number(func(c *Config) *int { return &c.BatchBytes }, 0, func(n int) int { return max(n, 1) }),
	"retries": number(func(c *Config) *int { return &c.Retries }, 0, func(n int) int {
		switch n {
		case 0:
			return NoRetries
		case math.MaxInt32:
			return 0
		}
		return n
	}),
	"buffer.memory":                         number(func(c *Config) *int { return &c.MaxBufferedBytes }, 1, asIs),
	"max.request.size":                      number(func(c *Config) *int { return &c.MaxRequestBytes }, 1, asIs),
	"max.in.flight.requests.per.connection": number(func(c *Config) *int { return &c.MaxInFlight }, 1, asIs),
	"linger.ms":                             duration(func(c *Config) *time.Duration { return &c.Linger }, 0),
	"delivery.timeout.ms":                   duration(func(c *Config) *time.Duration { return &c.DeliveryTimeout }, 1),
	"request.timeout.ms":                    duration(func(c *Config) *time.Duration { return &c.RequestTimeout }, 1),
	"retry.backoff.ms":                      duration(func(c *Config) *time.Duration { return &c.RetryBackoff }, 1),
	"retry.backoff.max.ms":                  duration(func(c *Config) *time.Duration { return &c.RetryBackoffMax }, 1),
	"max.block.ms": func(c *Config, v string) string {
		if strings.TrimSpace(v) == "0" {
			return assign(&c.MaxBlock, NoWait)
		}
		return duration(func(c *Config) *time.Duration { return &c.MaxBlock }, 1)(c, v)
	},
}

const conflict = "differs from the field of Config that says the same"

func asIs(n int) int { return n }

// assign sets a field that is unset or equal.
func assign[T comparable](field *T, v T) (reason string) {
	var zero T
	if *field != zero && *field != v {
		return conflict
	}
	*field = v
	return ""
}

func number(field func(*Config) *int, least int, meaning func(int) int) property {
	return func(c *Config, v string) string {
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 32)
		if err != nil || n < int64(least) {
			return "must be a number from " + strconv.Itoa(least) + " to 2147483647"
		}
		return assign(field(c), meaning(int(n)))
	}
}

func duration(field func(*Config) *time.Duration, least int64) property {
	return func(c *Config, v string) string {
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil || n < least || n > math.MaxInt64/int64(time.Millisecond) {
			return "must be a number of milliseconds from " + strconv.FormatInt(least, 10)
		}
		return assign(field(c), time.Duration(n)*time.Millisecond)
	}
}

// readProperties moves Properties into the fields; idempotent is true if idempotence was requested
// explicitly.
func (c *Config) readProperties() (idempotent bool, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Properties)) {
		v := c.Properties[name]
		read, ok := properties[name]
		if !ok {
			errs = append(errs, &ConfigError{Key: name, Value: v, Reason: "no such setting here"})
			continue
		}
		if reason := read(c, v); reason != "" {
			errs = append(errs, &ConfigError{Key: name, Value: v, Reason: reason})
		} else if name == "enable.idempotence" {
			idempotent = !c.NoIdempotence
		}
	}
	return idempotent, errors.Join(errs...)
}
