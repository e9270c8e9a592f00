package replication

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication/internal/image"
)

// A ReplicaSelector says which replica of a partition a reader is served by. Kafka:
// replica.selector.class.
type ReplicaSelector uint8

const (
	// LeaderSelector has every reader served by the leader.
	LeaderSelector ReplicaSelector = iota
	// RackAwareSelector has a reader whose rack is known served by a replica in that rack, if there
	// is one in sync that has the offset (KIP-392): the leader if it is in the rack, else the
	// follower that is furthest. A follower shows records a little later than its leader.
	RackAwareSelector
)

// selectorClasses are the names that Kafka has for the selectors.
var selectorClasses = map[ReplicaSelector]string{
	LeaderSelector:    "org.apache.kafka.common.replica.LeaderSelector",
	RackAwareSelector: "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}

// Class returns Kafka's name of the selector, "" if there is none.
func (s ReplicaSelector) Class() string { return selectorClasses[s] }

// ParseReplicaSelector returns the selector that has Kafka's name class.
func ParseReplicaSelector(class string) (ReplicaSelector, error) {
	for s, name := range selectorClasses {
		if name == strings.TrimSpace(class) {
			return s, nil
		}
	}
	return LeaderSelector, fmt.Errorf("it is %s or %s", LeaderSelector.Class(), RackAwareSelector.Class())
}

// inRack returns the in-sync followers of a partition that are in a rack, nil if its leader is.
// Kafka: RackAwareReplicaSelector.
func inRack(img *image.Image, p *image.Partition, rack string) (followers []int32) {
	if img.Members[p.Leader].Rack == rack {
		return nil
	}
	for _, id := range p.ISR {
		if id != p.Leader && img.Members[id].Rack == rack {
			followers = append(followers, id)
		}
	}
	return followers
}

// furthest returns the one of the brokers whose replica a reader at an offset is to be served by:
// of those that hold the offset, by what the leader knows, the one whose log goes furthest, and
// then the one that was caught up last. 0: none holds it. Kafka:
// ReplicaManager.findPreferredReadReplica, ReplicaView.comparator.
func furthest(brokers []int32, offset int64, known []partition.FollowerState) int32 {
	var best *partition.FollowerState
	for i := range known {
		f := &known[i]
		if !slices.Contains(brokers, f.Broker) || f.End < offset || f.LogStart > offset || f.LogStart < 0 {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(f.End, best.End), f.CaughtUp.Compare(best.CaughtUp), cmp.Compare(f.Broker, best.Broker)) > 0 {
			best = f
		}
	}
	if best == nil {
		return 0
	}
	return best.Broker
}
