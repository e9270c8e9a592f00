package group

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/group/internal/streaming"
)

// StreamsConfig says how streams groups (KIP-1071) are run. The zero value is valid. What a single
// group is configured to counts before it, see Coordinator.AlterGroupConfig.
type StreamsConfig struct {
	// SessionTimeout is how long a member lives without a heartbeat, HeartbeatInterval how often it
	// is told to send one. 0: 45 s and 5 s. Kafka: group.streams.session.timeout.ms,
	// group.streams.heartbeat.interval.ms.
	SessionTimeout, HeartbeatInterval time.Duration

	// AssignmentInterval is how long after a target assignment the next one of a group is computed
	// at the earliest. 0: 1 s; Unlimited: at once. Kafka: group.streams.assignment.interval.ms.
	AssignmentInterval time.Duration

	// InitialRebalanceDelay is how long a group that had no members waits for more of them before
	// tasks are assigned. 0: 3 s; Unlimited: not at all. Kafka:
	// group.streams.initial.rebalance.delay.ms.
	InitialRebalanceDelay time.Duration

	// StandbyReplicas is how many other instances of the application keep a copy of the state of
	// each task. 0: none does. Kafka: group.streams.num.standby.replicas.
	StandbyReplicas int

	// MaxSize is the most members a group can have. 0: no limit. Kafka: group.streams.max.size.
	MaxSize int

	// What a single group may be configured to. 0: 45 s to 60 s, 5 s to 15 s, 0 to 15 s and up to 2
	// copies, or as far as what all groups go by, the fields above, if that lies outside. Kafka:
	// group.streams.min.session.timeout.ms, group.streams.max.session.timeout.ms,
	// group.streams.min.heartbeat.interval.ms, group.streams.max.heartbeat.interval.ms,
	// group.streams.min.assignment.interval.ms, group.streams.max.assignment.interval.ms,
	// group.streams.max.standby.replicas.
	MinSessionTimeout, MaxSessionTimeout         time.Duration
	MinHeartbeatInterval, MaxHeartbeatInterval   time.Duration
	MinAssignmentInterval, MaxAssignmentInterval time.Duration
	MaxStandbyReplicas                           int
}

// withDefaults replaces what is 0, and returns what is wrong with the rest.
func (c *StreamsConfig) withDefaults() (errs []error) {
	if c.AssignmentInterval == Unlimited {
		c.AssignmentInterval = 1 // shorter than what the log can tell
	}
	if c.InitialRebalanceDelay == Unlimited {
		c.InitialRebalanceDelay = 1 // shorter than what a configuration can tell
	}
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 45*time.Second)
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, 5*time.Second)
	c.AssignmentInterval = cmp.Or(c.AssignmentInterval, time.Second)
	c.InitialRebalanceDelay = cmp.Or(c.InitialRebalanceDelay, 3*time.Second)
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"SessionTimeout", int64(c.SessionTimeout)}, {"HeartbeatInterval", int64(c.HeartbeatInterval)}, {"AssignmentInterval", int64(c.AssignmentInterval)},
		{"InitialRebalanceDelay", int64(c.InitialRebalanceDelay)}, {"StandbyReplicas", int64(c.StandbyReplicas)}, {"MaxSize", int64(c.MaxSize)}, {"MaxStandbyReplicas", int64(c.MaxStandbyReplicas)},
	} {
		if f.v < 0 {
			errs = append(errs, refused("Streams."+f.name, f.v, "is negative"))
		}
	}
	if c.HeartbeatInterval >= c.SessionTimeout {
		errs = append(errs, refused("Streams.HeartbeatInterval", c.HeartbeatInterval, fmt.Sprintf("is not below Streams.SessionTimeout, %v", c.SessionTimeout)))
	}
	if len(errs) > 0 {
		return errs
	}
	return c.bound()
}

// bound fills in the bounds of what single groups may be configured to.
func (c *StreamsConfig) bound() []error {
	c.MaxStandbyReplicas = cmp.Or(c.MaxStandbyReplicas, max(2, c.StandbyReplicas))
	var copies error
	if c.StandbyReplicas > c.MaxStandbyReplicas {
		copies = refused("Streams.StandbyReplicas", c.StandbyReplicas, fmt.Sprintf("is above Streams.MaxStandbyReplicas, %d", c.MaxStandbyReplicas))
	}
	return slices.DeleteFunc(slices.Concat([]error{copies},
		bound("Streams.MinSessionTimeout", "Streams.MaxSessionTimeout", &c.MinSessionTimeout, &c.MaxSessionTimeout, c.SessionTimeout, 45*time.Second, time.Minute),
		bound("Streams.MinHeartbeatInterval", "Streams.MaxHeartbeatInterval", &c.MinHeartbeatInterval, &c.MaxHeartbeatInterval, c.HeartbeatInterval, 5*time.Second, 15*time.Second),
		bound("Streams.MinAssignmentInterval", "Streams.MaxAssignmentInterval", &c.MinAssignmentInterval, &c.MaxAssignmentInterval, c.AssignmentInterval, 0, 15*time.Second),
	), func(err error) bool { return err == nil })
}

// streamsSettings returns what a streams group goes by.
func (g *groups) streamsSettings(id string) streaming.Settings {
	of := g.values(id)
	return streaming.Settings{Session: of.millis(streamsSessionKey), Heartbeat: of.millis(streamsHeartbeatKey), Assignment: of.millis(streamsAssignmentKey),
		Delay: of.millis(streamsDelayKey), Standbys: int(of(streamsStandbysKey))}
}
