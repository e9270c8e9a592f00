package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// A configKey is a key of the configuration of single groups: a number of milliseconds, or a text.
// Kafka: GroupConfig.
type configKey struct {
	topic.Key
	least            int64 // whatever the bounds are
	static, min, max func(*Config) time.Duration

	check func(value string) error // in the place of all that: it is a text
}

func groupKey(name, def, doc string) topic.Key {
	return topic.Key{Name: name, Type: topic.TypeInt, Default: def, Synonyms: []string{"group." + name}, Doc: doc}
}

// configKeys are sorted by name.
var configKeys = []configKey{
	{
		Key:    groupKey("consumer.assignment.interval.ms", "1000", "How long after a target assignment the next one is computed at the earliest."),
		static: func(c *Config) time.Duration { return c.ConsumerAssignmentInterval },
		min:    func(*Config) time.Duration { return 0 },
		max:    func(c *Config) time.Duration { return c.ConsumerMaxAssignmentInterval },
	},
	{
		Key:    groupKey("consumer.heartbeat.interval.ms", "5000", "How often members are told to send a heartbeat."),
		least:  1,
		static: func(c *Config) time.Duration { return c.ConsumerHeartbeatInterval },
		min:    func(c *Config) time.Duration { return c.ConsumerMinHeartbeatInterval },
		max:    func(c *Config) time.Duration { return c.ConsumerMaxHeartbeatInterval },
	},
	{
		Key:    groupKey("consumer.session.timeout.ms", "45000", "How long a member lives without a heartbeat."),
		least:  1,
		static: func(c *Config) time.Duration { return c.ConsumerSessionTimeout },
		min:    func(c *Config) time.Duration { return c.ConsumerMinSessionTimeout },
		max:    func(c *Config) time.Duration { return c.ConsumerMaxSessionTimeout },
	},
	{
		Key: topic.Key{Name: "share.auto.offset.reset", Type: topic.TypeString, Default: "latest", Synonyms: []string{"share.auto.offset.reset"}, Doc: "Where a share group begins in a partition that is new to it: latest, earliest or by_duration:PnDTnHnMn.nS."},
		check: func(value string) error {
			_, err := parseShareReset(value, time.Time{})
			return err
		},
	},
	{
		Key:   topic.Key{Name: shareIsolationKey, Type: topic.TypeString, Default: readUncommitted, Synonyms: []string{shareIsolationKey}, Doc: "What of transactions a share group is handed: read_committed or read_uncommitted."},
		check: checkIsolation,
	},
}

const (
	assignmentIntervalKey = 0 // in configKeys
	heartbeatIntervalKey  = 1
	sessionTimeoutKey     = 2
)

func lookupConfigKey(name string) *configKey {
	i := slices.IndexFunc(configKeys, func(k configKey) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return &configKeys[i]
}

// bound returns the broker's name of a bound of the key, for "min" or "max".
func (k *configKey) bound(which string) string {
	kind, rest, _ := strings.Cut(k.Name, ".")
	return "group." + kind + "." + which + "." + rest
}

// read parses a value and holds it against the bounds of cfg.
func (k *configKey) read(cfg *Config, value string) (time.Duration, error) {
	bad := func(reason string) error { return &topic.ConfigError{Key: k.Name, Value: value, Reason: reason} }
	if k.check != nil {
		if err := k.check(value); err != nil {
			return 0, bad(err.Error())
		}
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	d := time.Duration(n) * time.Millisecond
	switch {
	case err != nil:
		return 0, bad("is no number of 32 bits")
	case n < k.least:
		return 0, bad(fmt.Sprintf("must be at least %d", k.least))
	case d < k.min(cfg):
		return 0, bad(fmt.Sprintf("must be greater than or equal to %s, %v", k.bound("min"), k.min(cfg)))
	case d > k.max(cfg):
		return 0, bad(fmt.Sprintf("must be less than or equal to %s, %v", k.bound("max"), k.max(cfg)))
	}
	return d, nil
}

// effective returns what a group goes by on which props are set. A value that was set under other
// bounds counts as the nearest within them; one that cannot be read, as if it was not set. Kafka:
// GroupConfig.evaluate.
func (k *configKey) effective(cfg *Config, props map[string]string) time.Duration {
	value, set := props[k.Name]
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	if !set || err != nil {
		return k.static(cfg)
	}
	return max(k.min(cfg), min(time.Duration(n)*time.Millisecond, k.max(cfg)))
}

// A ConfigEntry is one key of a group's configuration.
type ConfigEntry struct {
	Key    topic.Key // Synonyms has the broker's name of the key
	Static string    // what groups go by on which nothing is set
	Set    string    // what is set on the group
	IsSet  bool
}

// ConfigEntries returns the configuration of one group, every key that there is, by name; whether
// there is such a group does not matter.
func (c *Coordinator) ConfigEntries(id string) []ConfigEntry {
	props := c.properties(id)
	entries := make([]ConfigEntry, len(configKeys))
	for i := range configKeys {
		k := &configKeys[i]
		entries[i] = ConfigEntry{Key: k.Key, Static: k.Default}
		if k.check == nil {
			entries[i].Static = strconv.FormatInt(k.static(&c.cfg).Milliseconds(), 10)
		}
		entries[i].Set, entries[i].IsSet = props[k.Name]
	}
	return entries
}

// A ConfigAlteration changes the configuration of one group, all of it or nothing.
type ConfigAlteration struct {
	Group   string
	Changes []replication.ConfigChange
	Replace bool // keys that Changes do not name return to what the broker says
	DryRun  bool // only says whether it would be done
}

// AlterGroupConfig changes the configuration of a group, whether there is such a group or not. The
// keys are Kafka's, and what is set counts before the Config of the Coordinator:
//
//   - consumer.heartbeat.interval.ms, within ConsumerMinHeartbeatInterval and
//     ConsumerMaxHeartbeatInterval, is told with each answer to a heartbeat.
//   - consumer.session.timeout.ms, within ConsumerMinSessionTimeout and ConsumerMaxSessionTimeout and
//     above the interval of heartbeats, counts for a member from its next heartbeat on.
//   - consumer.assignment.interval.ms, from 0 to ConsumerMaxAssignmentInterval.
//   - share.auto.offset.reset, where a share group begins in a partition that is new to it: latest,
//     earliest, or by_duration: and an ISO 8601 duration before the moment at which it begins.
//   - share.isolation.level, what of transactions a share group is handed: read_committed, or
//     read_uncommitted.
//
// When it returns nil the change is on stable storage. Errors: ErrInvalidGroupID for an empty id,
// or one that no group can have, *topic.ConfigError, errors.ErrUnsupported if the Store keeps no
// configurations, those of replication.Cluster.AlterGroupProperties. Kafka: IncrementalAlterConfigs
// of a resource of type GROUP.
func (c *Coordinator) AlterGroupConfig(ctx context.Context, a ConfigAlteration) error {
	if err := checkID(a.Group, true); err != nil {
		return err
	}
	if c.configs == nil {
		return fmt.Errorf("group: configuration of a group: %w", errors.ErrUnsupported)
	}
	edit := func(before map[string]string) (map[string]string, error) { return a.apply(&c.cfg, before) }
	if a.DryRun {
		return c.configs.DryRun().AlterGroupProperties(ctx, a.Group, edit)
	}
	return c.configs.AlterGroupProperties(ctx, a.Group, edit)
}

// apply returns what is set after the alteration of what was set before.
func (a *ConfigAlteration) apply(cfg *Config, before map[string]string) (map[string]string, error) {
	after := make(map[string]string, len(before)+len(a.Changes))
	if !a.Replace {
		maps.Copy(after, before)
	}
	for _, ch := range a.Changes {
		bad := func(reason string) error { return &topic.ConfigError{Key: ch.Key, Value: ch.Value, Reason: reason} }
		switch {
		case ch.Op == replication.UnsetConfig: // whatever it is: there is nothing to delete
			delete(after, ch.Key)
		case ch.Op != replication.SetConfig:
			return nil, bad("it is not a list")
		case lookupConfigKey(ch.Key) == nil:
			return nil, bad("there is no such configuration of groups")
		default:
			after[ch.Key] = strings.TrimSpace(ch.Value)
		}
	}
	return after, checkProperties(cfg, after)
}

// checkProperties refuses values that no group can go by. Keys of a later version stay as they are.
func checkProperties(cfg *Config, props map[string]string) error {
	for i := range configKeys {
		k := &configKeys[i]
		if value, set := props[k.Name]; set {
			if _, err := k.read(cfg, value); err != nil {
				return err
			}
		}
	}
	session, heartbeat := &configKeys[sessionTimeoutKey], &configKeys[heartbeatIntervalKey]
	if s, h := session.effective(cfg, props), heartbeat.effective(cfg, props); s <= h {
		return &topic.ConfigError{Key: session.Name, Value: s.String(), Reason: fmt.Sprintf("must be greater than %s, %v", heartbeat.Name, h)}
	}
	return nil
}

// configStore is a Store that keeps configurations of groups.
type configStore interface {
	GroupProperties(id string) map[string]string
	AlterGroupProperties(ctx context.Context, id string, edit func(map[string]string) (map[string]string, error)) error
	DryRun() replication.DryRun
}

// properties returns what is set on a group.
func (g *groups) properties(id string) map[string]string {
	if g.configs == nil {
		return nil
	}
	return g.configs.GroupProperties(id)
}

// timeouts returns what a group goes by. It takes no lock.
func (g *groups) timeouts(id string) modern.Timeouts {
	props := g.properties(id)
	of := func(key int) time.Duration { return configKeys[key].effective(&g.cfg, props) }
	return modern.Timeouts{Session: of(sessionTimeoutKey), Heartbeat: of(heartbeatIntervalKey), Assignment: of(assignmentIntervalKey)}
}
