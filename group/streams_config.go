package group

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/group/internal/streaming"
)

// StreamsConfig configures streams groups (KIP-1071). The zero value is valid. The configuration of
// a single group takes precedence, see Coordinator.AlterGroupConfig.
type StreamsConfig struct {
	// SessionTimeout is the time without a heartbeat after which a member is removed.
	// HeartbeatInterval is the interval of heartbeats in the coordinator's responses. 0 means 45 s
	// and 5 s. Kafka: group.streams.session.timeout.ms, group.streams.heartbeat.interval.ms.
	SessionTimeout, HeartbeatInterval time.Duration

	// AssignmentInterval is the minimum time between two target assignments of a group. 0 means 1
	// s, Unlimited means no minimum. Kafka: group.streams.assignment.interval.ms.
	AssignmentInterval time.Duration

	// InitialRebalanceDelay is the time that a group that had no members waits for more of them
	// before tasks are assigned. 0 means 3 s, Unlimited means no wait. Kafka:
	// group.streams.initial.rebalance.delay.ms.
	InitialRebalanceDelay time.Duration

	// StandbyReplicas is the number of other application instances that keep a copy of each task's
	// state. 0 means none. Kafka: group.streams.num.standby.replicas.
	StandbyReplicas int

	// MaxSize is the maximum number of members of a group. 0 means no limit. Kafka:
	// group.streams.max.size.
	MaxSize int

	// Bounds of a single group's configuration. 0 means 45 s to 60 s, 5 s to 15 s, 0 to 15 s and up
	// to 2 copies, extended to the fields above if these lie outside. Kafka:
	// group.streams.min.session.timeout.ms, group.streams.max.session.timeout.ms,
	// group.streams.min.heartbeat.interval.ms, group.streams.max.heartbeat.interval.ms,
	// group.streams.min.assignment.interval.ms, group.streams.max.assignment.interval.ms,
	// group.streams.max.standby.replicas.
	MinSessionTimeout, MaxSessionTimeout         time.Duration
	MinHeartbeatInterval, MaxHeartbeatInterval   time.Duration
	MinAssignmentInterval, MaxAssignmentInterval time.Duration
	MaxStandbyReplicas                           int
}

// withDefaults replaces zero fields, and returns errors for invalid ones.
func (c *StreamsConfig) withDefaults() (errs []error) {
	if c.AssignmentInterval == Unlimited {
		c.AssignmentInterval = 1 // shorter than the log's resolution
	}
	if c.InitialRebalanceDelay == Unlimited {
		c.InitialRebalanceDelay = 1 // shorter than the resolution of a configuration
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

// streamsSettings returns the settings of a streams group.
func (g *groups) streamsSettings(id string) streaming.Settings {
	of := g.values(id)
	return streaming.Settings{Session: of.millis(streamsSessionKey), Heartbeat: of.millis(streamsHeartbeatKey), Assignment: of.millis(streamsAssignmentKey),
		Delay: of.millis(streamsDelayKey), Standbys: int(of(streamsStandbysKey))}
}
