package replication

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication/internal/image"
)

// A ReplicaSelector selects the replica of a partition that serves a reader. Kafka:
// replica.selector.class.
type ReplicaSelector uint8

const (
	// LeaderSelector selects the leader for every reader.
	LeaderSelector ReplicaSelector = iota
	// RackAwareSelector selects a replica in the reader's rack, if the reader has one and an
	// in-sync replica in that rack has the offset (KIP-392). It is the leader if the leader is in
	// the rack, else the follower with the largest log end offset. Records are visible at a
	// follower a little later than at its leader.
	RackAwareSelector
)

// selectorClasses are the names that Kafka has for the selectors.
var selectorClasses = map[ReplicaSelector]string{
	LeaderSelector:    "org.apache.kafka.common.replica.LeaderSelector",
	RackAwareSelector: "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}

// Class returns Kafka's class name of the selector, or "" for an unknown selector.
func (s ReplicaSelector) Class() string { return selectorClasses[s] }

// ParseReplicaSelector returns the selector with Kafka's class name, or an error for an unknown
// name.
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

// furthest returns the best of the brokers to serve a reader at an offset. Only brokers that have
// the offset by the leader's state are candidates. The one with the longest log is best, and then
// the most recently caught up. 0 means that none has it. Kafka:
// ReplicaManager.findPreferredReadReplica, ReplicaView.comparator.
// ReplicaView.comparator.
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
