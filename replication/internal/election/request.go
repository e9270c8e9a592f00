package election

import (
	"errors"
	"slices"
)

// Errors of Check, with the names of Kafka's errors of AlterPartition.
var (
	ErrNotController      = errors.New("the leader has newer metadata than this controller")
	ErrFencedLeaderEpoch  = errors.New("a later leader epoch has begun")
	ErrNotLeader          = errors.New("requested by a broker other than the leader")
	ErrUpdateVersion      = errors.New("the partition has changed meanwhile")
	ErrInvalidInSync      = errors.New("no valid in-sync set")
	ErrIneligibleReplica  = errors.New("a member is fenced, leaves, or was started again")
	ErrLeaderStartedAgain = errors.New("requested by an earlier incarnation of the leader")
)

// A Request is a leader's request for another ISR.
type Request struct {
	Leader       int32
	Incarnation  int64 // broker epoch of the leader
	LeaderEpoch  int32
	Epoch        int32 // of the partition
	InSync       []int32
	Incarnations []int64 // broker epochs of InSync; -1 if the leader does not have one
}

// Check reports whether the controller may commit the request as Change.InSync. incarnation returns
// the broker epoch of a broker; ok is false if it is fenced, shutting down or unknown. The order of
// the checks is Kafka's. A request for the ISR in force is no error, and no change.
func Check(p Partition, r Request, incarnation func(broker int32) (epoch int64, ok bool)) error {
	switch current, _ := incarnation(r.Leader); {
	case r.Incarnation != current:
		return ErrLeaderStartedAgain
	case r.LeaderEpoch > p.LeaderEpoch || r.Epoch > p.Epoch:
		return ErrNotController
	case r.LeaderEpoch < p.LeaderEpoch:
		return ErrFencedLeaderEpoch
	case r.Leader != p.Leader:
		return ErrNotLeader
	case r.Epoch < p.Epoch:
		return ErrUpdateVersion
	case !slices.Contains(r.InSync, r.Leader) || len(r.Incarnations) != len(r.InSync):
		return ErrInvalidInSync
	}
	for i, broker := range r.InSync {
		if !slices.Contains(p.Replicas, broker) || slices.Contains(r.InSync[:i], broker) {
			return ErrInvalidInSync
		}
		if current, ok := incarnation(broker); !ok || r.Incarnations[i] >= 0 && r.Incarnations[i] != current {
			return ErrIneligibleReplica
		}
	}
	return nil
}
