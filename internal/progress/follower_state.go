package progress

import "time"

// A FollowerState is what a leader knows of one follower.
type FollowerState struct {
	Broker   int32
	Position Position // -1: nothing is known yet
	LogStart int64    // first readable offset; -1: not known
	// CaughtUp is the latest instant known at which the leader had nothing that the follower has
	// not got by now. Known is false if there is none.
	CaughtUp time.Duration
	Known    bool
}

// FollowerStates returns what is known of the followers, by the order of the replicas.
func (l *Leader) FollowerStates(now time.Duration) []FollowerState {
	all := make([]FollowerState, len(l.followers))
	for i := range l.followers {
		f := &l.followers[i]
		s := FollowerState{Broker: f.broker, Position: f.position, LogStart: f.logStart, CaughtUp: f.caughtUp, Known: f.caughtUp != never}
		if f.position != unknown && l.safe(f.position) >= l.own.End {
			s.CaughtUp, s.Known = now, true
		}
		all[i] = s
	}
	return all
}
