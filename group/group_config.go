package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/sharing"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// A configKey is a key of the configuration of single groups: a number, or a text. Kafka:
// GroupConfig.
type configKey struct {
	topic.Key
	least            int64 // lowest value with any bounds
	static, min, max func(*Config) int64
	session          string // for a heartbeat interval: the key of the timeout that must be longer
	most             string // the broker's name of max; "": the key's name with "max" in it

	check func(value string) error // of a text; the fields above are not set then
}

func groupKey(name, def, doc string) topic.Key {
	return topic.Key{Name: name, Type: topic.TypeInt, Default: def, Synonyms: []string{"group." + name}, Doc: doc}
}

// textKey returns a key for which brokers have no setting.
func textKey(name string, t topic.ValueType, def, doc string) topic.Key {
	return topic.Key{Name: name, Type: t, Default: def, Synonyms: []string{name}, Doc: doc}
}

func number(n int64) func(*Config) int64 { return func(*Config) int64 { return n } }

// The keys whose values are looked up by name.
const (
	consumerAssignmentKey = "consumer.assignment.interval.ms"
	consumerHeartbeatKey  = "consumer.heartbeat.interval.ms"
	consumerSessionKey    = "consumer.session.timeout.ms"
	shareAssignmentKey    = "share.assignment.interval.ms"
	shareDeliveriesKey    = "share.delivery.count.limit"
	shareHeartbeatKey     = "share.heartbeat.interval.ms"
	shareIsolationKey     = "share.isolation.level"
	shareLocksKey         = "share.partition.max.record.locks"
	shareLockKey          = "share.record.lock.duration.ms"
	shareRenewKey         = "share.renew.acknowledge.enable"
	shareResetKey         = "share.auto.offset.reset"
	shareSessionKey       = "share.session.timeout.ms"
	streamsAssignmentKey  = "streams.assignment.interval.ms"
	streamsDelayKey       = "streams.initial.rebalance.delay.ms"
	streamsHeartbeatKey   = "streams.heartbeat.interval.ms"
	streamsSessionKey     = "streams.session.timeout.ms"
	streamsStandbysKey    = "streams.num.standby.replicas"
)

// configKeys are sorted by name.
var configKeys = []configKey{
	{
		Key:    groupKey(consumerAssignmentKey, "1000", "How long after a target assignment the next one is computed at the earliest."),
		static: func(c *Config) int64 { return c.ConsumerAssignmentInterval.Milliseconds() },
		min:    number(0),
		max:    func(c *Config) int64 { return c.ConsumerMaxAssignmentInterval.Milliseconds() },
	},
	{
		Key:     groupKey(consumerHeartbeatKey, "5000", "How often members are told to send a heartbeat."),
		least:   1,
		static:  func(c *Config) int64 { return c.ConsumerHeartbeatInterval.Milliseconds() },
		min:     func(c *Config) int64 { return c.ConsumerMinHeartbeatInterval.Milliseconds() },
		max:     func(c *Config) int64 { return c.ConsumerMaxHeartbeatInterval.Milliseconds() },
		session: consumerSessionKey,
	},
	{
		Key:    groupKey(consumerSessionKey, "45000", "How long a member lives without a heartbeat."),
		least:  1,
		static: func(c *Config) int64 { return c.ConsumerSessionTimeout.Milliseconds() },
		min:    func(c *Config) int64 { return c.ConsumerMinSessionTimeout.Milliseconds() },
		max:    func(c *Config) int64 { return c.ConsumerMaxSessionTimeout.Milliseconds() },
	},
	{
		Key:    groupKey(shareAssignmentKey, "1000", "How long after a target assignment of a share group the next one is computed at the earliest."),
		static: func(c *Config) int64 { return c.ShareAssignmentInterval.Milliseconds() },
		min:    number(0),
		max:    func(c *Config) int64 { return c.ShareMaxAssignmentInterval.Milliseconds() },
	},
	{
		Key:   textKey(shareResetKey, topic.TypeString, "latest", "Where a share group begins in a partition that is new to it: latest, earliest or by_duration:PnDTnHnMn.nS."),
		check: checkShareReset,
	},
	{
		Key:    groupKey(shareDeliveriesKey, "5", "How often a record is handed out to a share group."),
		least:  2,
		static: func(c *Config) int64 { return int64(c.ShareRecords.MaxDeliveryCount) },
		min:    func(c *Config) int64 { return min(2, int64(c.ShareRecords.MaxDeliveryCount)) },
		max:    func(c *Config) int64 { return max(10, int64(c.ShareRecords.MaxDeliveryCount)) },
	},
	{
		Key:     groupKey(shareHeartbeatKey, "5000", "How often members of a share group are told to send a heartbeat."),
		least:   1,
		static:  func(c *Config) int64 { return c.ShareHeartbeatInterval.Milliseconds() },
		min:     func(c *Config) int64 { return c.ShareMinHeartbeatInterval.Milliseconds() },
		max:     func(c *Config) int64 { return c.ShareMaxHeartbeatInterval.Milliseconds() },
		session: shareSessionKey,
	},
	{
		Key:   textKey(shareIsolationKey, topic.TypeString, readUncommitted, "What of transactions a share group is handed: read_committed or read_uncommitted."),
		check: checkIsolation,
	},
	{
		Key:    groupKey(shareLocksKey, "2000", "How far behind the first record of a partition that is not done with a share group is handed others."),
		least:  100,
		static: func(c *Config) int64 { return int64(c.ShareRecords.MaxInFlight) },
		min:    func(c *Config) int64 { return min(100, int64(c.ShareRecords.MaxInFlight)) },
		max:    func(c *Config) int64 { return max(4000, int64(c.ShareRecords.MaxInFlight)) },
	},
	{
		Key:    groupKey(shareLockKey, "30000", "How long a record is a member's that was handed it."),
		least:  1000,
		static: func(c *Config) int64 { return c.ShareRecords.LockDuration.Milliseconds() },
		min:    func(c *Config) int64 { return min(15000, c.ShareRecords.LockDuration.Milliseconds()) },
		max:    func(c *Config) int64 { return max(60000, c.ShareRecords.LockDuration.Milliseconds()) },
	},
	{
		Key:   textKey(shareRenewKey, topic.TypeBoolean, "true", "Whether a member may lock records that it has for longer."),
		check: checkBool,
	},
	{
		Key:    groupKey(shareSessionKey, "45000", "How long a member of a share group lives without a heartbeat."),
		least:  1,
		static: func(c *Config) int64 { return c.ShareSessionTimeout.Milliseconds() },
		min:    func(c *Config) int64 { return c.ShareMinSessionTimeout.Milliseconds() },
		max:    func(c *Config) int64 { return c.ShareMaxSessionTimeout.Milliseconds() },
	},
	{
		Key:    groupKey(streamsAssignmentKey, "1000", "How long after a target assignment of a streams group the next one is computed at the earliest."),
		static: func(c *Config) int64 { return c.Streams.AssignmentInterval.Milliseconds() },
		min:    func(c *Config) int64 { return c.Streams.MinAssignmentInterval.Milliseconds() },
		max:    func(c *Config) int64 { return c.Streams.MaxAssignmentInterval.Milliseconds() },
	},
	{
		Key:     groupKey(streamsHeartbeatKey, "5000", "How often members of a streams group are told to send a heartbeat."),
		least:   1,
		static:  func(c *Config) int64 { return c.Streams.HeartbeatInterval.Milliseconds() },
		min:     func(c *Config) int64 { return c.Streams.MinHeartbeatInterval.Milliseconds() },
		max:     func(c *Config) int64 { return c.Streams.MaxHeartbeatInterval.Milliseconds() },
		session: streamsSessionKey,
	},
	{
		Key:    groupKey(streamsDelayKey, "3000", "How long a streams group that had no members waits for more before tasks are assigned."),
		static: func(c *Config) int64 { return c.Streams.InitialRebalanceDelay.Milliseconds() },
		min:    number(0),
		max:    number(math.MaxInt32),
	},
	{
		Key:    groupKey(streamsStandbysKey, "0", "How many standby tasks each task of a streams group has."),
		static: func(c *Config) int64 { return int64(c.Streams.StandbyReplicas) },
		min:    number(0),
		max:    func(c *Config) int64 { return int64(c.Streams.MaxStandbyReplicas) },
		most:   "group.streams.max.standby.replicas",
	},
	{
		Key:    groupKey(streamsSessionKey, "45000", "How long a member of a streams group lives without a heartbeat."),
		least:  1,
		static: func(c *Config) int64 { return c.Streams.SessionTimeout.Milliseconds() },
		min:    func(c *Config) int64 { return c.Streams.MinSessionTimeout.Milliseconds() },
		max:    func(c *Config) int64 { return c.Streams.MaxSessionTimeout.Milliseconds() },
	},
}

func lookupConfigKey(name string) *configKey {
	i := slices.IndexFunc(configKeys, func(k configKey) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return &configKeys[i]
}

// bound returns the broker's name of a bound of the key, for "min" or "max".
func (k *configKey) bound(which string) string {
	if which == "max" && k.most != "" {
		return k.most
	}
	kind, rest, _ := strings.Cut(k.Name, ".")
	return "group." + kind + "." + which + "." + rest
}

// read parses a value and checks it against the bounds of cfg.
func (k *configKey) read(cfg *Config, value string) (int64, error) {
	bad := func(reason string) error { return &topic.ConfigError{Key: k.Name, Value: value, Reason: reason} }
	if k.check != nil {
		if err := k.check(value); err != nil {
			return 0, bad(err.Error())
		}
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	switch {
	case err != nil:
		return 0, bad("is no number of 32 bits")
	case n < k.least:
		return 0, bad(fmt.Sprintf("must be at least %d", k.least))
	case n < k.min(cfg):
		return 0, bad(fmt.Sprintf("must be greater than or equal to %s, %d", k.bound("min"), k.min(cfg)))
	case n > k.max(cfg):
		return 0, bad(fmt.Sprintf("must be less than or equal to %s, %d", k.bound("max"), k.max(cfg)))
	}
	return n, nil
}

// effective returns the value in effect for a group with props. A value from the time of other
// bounds is moved within the present ones; a malformed one is ignored. Kafka: GroupConfig.evaluate.
func (k *configKey) effective(cfg *Config, props map[string]string) int64 {
	value, set := props[k.Name]
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	if !set || err != nil {
		return k.static(cfg)
	}
	return max(k.min(cfg), min(n, k.max(cfg)))
}

// A ConfigEntry is one key of a group's configuration.
type ConfigEntry struct {
	Key    topic.Key // Synonyms has the broker's name of the key
	Static string    // effective value if nothing is set on the group
	Set    string    // value set on the group
	IsSet  bool
}

// ConfigEntries returns all configuration keys of a group, sorted by name, whether or not the group
// exists.
func (c *Coordinator) ConfigEntries(id string) []ConfigEntry {
	props := c.properties(id)
	entries := make([]ConfigEntry, len(configKeys))
	for i := range configKeys {
		k := &configKeys[i]
		entries[i] = ConfigEntry{Key: k.Key, Static: k.Default}
		if k.check == nil {
			entries[i].Static = strconv.FormatInt(k.static(&c.cfg), 10)
		}
		entries[i].Set, entries[i].IsSet = props[k.Name]
	}
	return entries
}

// A ConfigAlteration changes the configuration of one group: all changes apply, or none.
type ConfigAlteration struct {
	Group   string
	Changes []replication.ConfigChange
	Replace bool // resets keys that Changes does not name to the broker's value
	DryRun  bool // only checks the changes
}

// AlterGroupConfig changes the configuration of a group, whether or not the group exists. The keys
// are Kafka's. They take precedence over the Config of the Coordinator:
//
//   - consumer.heartbeat.interval.ms, within ConsumerMinHeartbeatInterval and
//     ConsumerMaxHeartbeatInterval, is sent with each heartbeat response.
//   - consumer.session.timeout.ms, within ConsumerMinSessionTimeout and ConsumerMaxSessionTimeout
//     and above the heartbeat interval, applies to a member from its next heartbeat.
//   - consumer.assignment.interval.ms, from 0 to ConsumerMaxAssignmentInterval.
//   - share.heartbeat.interval.ms, share.session.timeout.ms and share.assignment.interval.ms are
//     the same for share groups, within the bounds of their Config.
//   - share.record.lock.duration.ms, 15 s to 60 s, share.delivery.count.limit, 2 to 10, and
//     share.partition.max.record.locks, 100 to 4000, replace ShareRecords. The values of
//     ShareRecords are within the bounds, too. They apply to records that are handed out or given
//     back from then on.
//   - share.renew.acknowledge.enable permits members to extend the locks of their records.
//   - share.auto.offset.reset is the start of a share group in a partition that is new to it:
//     latest, earliest, or by_duration: followed by an ISO 8601 duration before the time of the
//     start.
//   - share.isolation.level selects the records of transactions that a share group gets:
//     read_committed or read_uncommitted.
//   - streams.heartbeat.interval.ms, streams.session.timeout.ms, streams.assignment.interval.ms,
//     streams.initial.rebalance.delay.ms and streams.num.standby.replicas are the fields of
//     StreamsConfig for a streams group, within its bounds. A change of the number of standby
//     replicas reassigns the tasks.
//
// When it returns nil the change is on stable storage. Errors: ErrInvalidGroupID for an empty or
// invalid id, *topic.ConfigError, errors.ErrUnsupported if the Store has no configurations, and
// those of replication.Cluster.AlterGroupProperties. Kafka: IncrementalAlterConfigs of a resource
// of type GROUP.
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

// apply returns the properties after the alteration.
func (a *ConfigAlteration) apply(cfg *Config, before map[string]string) (map[string]string, error) {
	after := make(map[string]string, len(before)+len(a.Changes))
	if !a.Replace {
		maps.Copy(after, before)
	}
	for _, ch := range a.Changes {
		bad := func(reason string) error { return &topic.ConfigError{Key: ch.Key, Value: ch.Value, Reason: reason} }
		switch {
		case ch.Op == replication.UnsetConfig: // an unknown key is no error: it is not set
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

// checkProperties rejects invalid values, and a session timeout not above its heartbeat interval.
// It ignores unknown keys, which a later version may have set.
func checkProperties(cfg *Config, props map[string]string) error {
	for i := range configKeys {
		k := &configKeys[i]
		if value, set := props[k.Name]; set {
			if _, err := k.read(cfg, value); err != nil {
				return err
			}
		}
	}
	for i := range configKeys {
		heartbeat := &configKeys[i]
		if heartbeat.session == "" {
			continue
		}
		session := lookupConfigKey(heartbeat.session)
		if s, h := session.effective(cfg, props), heartbeat.effective(cfg, props); s <= h {
			return &topic.ConfigError{Key: session.Name, Value: strconv.FormatInt(s, 10), Reason: fmt.Sprintf("must be greater than %s, %d", heartbeat.Name, h)}
		}
	}
	return nil
}

// configStore is a Store that keeps configurations of groups.
type configStore interface {
	GroupProperties(id string) map[string]string
	AlterGroupProperties(ctx context.Context, id string, edit func(map[string]string) (map[string]string, error)) error
	DryRun() replication.DryRun
}

// properties returns the properties of a group.
func (g *groups) properties(id string) map[string]string {
	if g.configs == nil {
		return nil
	}
	return g.configs.GroupProperties(id)
}

// A valueOf returns a group's value in effect of a numeric key.
type valueOf func(key string) int64

// values returns the values in effect for a group. It takes no lock.
func (g *groups) values(id string) valueOf {
	props := g.properties(id)
	return func(key string) int64 { return lookupConfigKey(key).effective(&g.cfg, props) }
}

// millis returns a value in milliseconds.
func (of valueOf) millis(key string) time.Duration { return time.Duration(of(key)) * time.Millisecond }

// timeouts returns the timeouts of a consumer group.
func (g *groups) timeouts(id string) modern.Timeouts {
	of := g.values(id)
	return modern.Timeouts{Session: of.millis(consumerSessionKey), Heartbeat: of.millis(consumerHeartbeatKey), Assignment: of.millis(consumerAssignmentKey)}
}

// shareTimeouts returns the timeouts of a share group.
func (g *groups) shareTimeouts(id string) sharing.Timeouts {
	of := g.values(id)
	return sharing.Timeouts{Session: of.millis(shareSessionKey), Heartbeat: of.millis(shareHeartbeatKey), Assignment: of.millis(shareAssignmentKey)}
}
