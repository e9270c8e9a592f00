package consumer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// applyProperties moves Kafka-named settings into their fields.
func (c *Config) applyProperties() (errs []error) {
	for key, value := range c.Properties {
		set, known := properties[key]
		if !known {
			errs = append(errs, &ConfigError{key, "unknown, or not supported here"})
			continue
		}
		if reason := set(c, value); reason != "" {
			errs = append(errs, &ConfigError{key, reason})
		}
	}
	return errs
}

var properties = map[string]func(c *Config, v string) (reason string){
	"group.id":                  func(c *Config, v string) string { return setString(&c.Group, v) },
	"group.instance.id":         func(c *Config, v string) string { return setString(&c.InstanceID, v) },
	"group.remote.assignor":     func(c *Config, v string) string { return setString(&c.RemoteAssignor, v) },
	"client.id":                 func(c *Config, v string) string { return setString(&c.ClientID, v) },
	"client.rack":               func(c *Config, v string) string { return setString(&c.Rack, v) },
	"auto.commit.interval.ms":   func(c *Config, v string) string { return setMillis(&c.CommitInterval, v) },
	"session.timeout.ms":        func(c *Config, v string) string { return setMillis(&c.SessionTimeout, v) },
	"heartbeat.interval.ms":     func(c *Config, v string) string { return setMillis(&c.HeartbeatInterval, v) },
	"max.poll.interval.ms":      func(c *Config, v string) string { return setMillis(&c.MaxPollInterval, v) },
	"fetch.max.wait.ms":         func(c *Config, v string) string { return setMillis(&c.MaxWait, v) },
	"fetch.min.bytes":           func(c *Config, v string) string { return setInt(&c.MinBytes, v) },
	"fetch.max.bytes":           func(c *Config, v string) string { return setInt(&c.MaxBytes, v) },
	"max.partition.fetch.bytes": func(c *Config, v string) string { return setInt(&c.PartitionBytes, v) },
	"max.poll.records":          func(c *Config, v string) string { return setInt(&c.MaxPollRecords, v) },
	"enable.auto.commit": func(c *Config, v string) string {
		on, err := strconv.ParseBool(v)
		switch {
		case err != nil:
			return fmt.Sprintf("%q is no boolean", v)
		case on && c.Commit == CommitManual, !on && c.Commit == CommitBeforeDelivery:
			return "contradicts Commit"
		case !on:
			c.Commit = CommitManual
		}
		return ""
	},
	"auto.offset.reset": func(c *Config, v string) string {
		want, known := map[string]Reset{"earliest": Earliest(), "latest": Latest(), "none": Fail()}[v]
		switch {
		case !known:
			return fmt.Sprintf("%q is none of earliest, latest, none", v)
		case c.Reset != (Reset{}) && c.Reset != want:
			return "contradicts Reset"
		}
		c.Reset = want
		return ""
	},
	"group.protocol": func(c *Config, v string) string {
		i := slices.IndexFunc(protocolNames[:], func(name string) bool { return strings.EqualFold(name, v) })
		switch {
		case i < 0:
			return fmt.Sprintf("%q is neither classic nor consumer", v)
		case c.Protocol != ProtocolClassic && c.Protocol != Protocol(i):
			return "contradicts Protocol"
		}
		c.Protocol = Protocol(i)
		return ""
	},
	"isolation.level": func(c *Config, v string) string {
		switch {
		case v == "read_committed" && c.Isolation != ReadCommitted:
			return "contradicts Isolation"
		case v == "read_uncommitted":
			c.Isolation = ReadUncommitted
		case v != "read_committed":
			return fmt.Sprintf("%q is neither read_committed nor read_uncommitted", v)
		}
		return ""
	},
}

func setString(field *string, v string) string {
	if *field != "" && *field != v {
		return fmt.Sprintf("%q contradicts the field's %q", v, *field)
	}
	*field = v
	return ""
}

func setMillis(field *time.Duration, v string) string {
	ms, err := strconv.ParseInt(v, 10, 32)
	d := time.Duration(ms) * time.Millisecond
	switch {
	case err != nil || ms <= 0:
		return fmt.Sprintf("%q is no positive number of milliseconds", v)
	case *field != 0 && *field != d:
		return fmt.Sprintf("%s contradicts the field's %s", d, *field)
	}
	*field = d
	return ""
}

func setInt(field *int, v string) string {
	n, err := strconv.ParseInt(v, 10, 32)
	switch {
	case err != nil || n <= 0:
		return fmt.Sprintf("%q is no positive number", v)
	case *field != 0 && *field != int(n):
		return fmt.Sprintf("%d contradicts the field's %d", n, *field)
	}
	*field = int(n)
	return ""
}
