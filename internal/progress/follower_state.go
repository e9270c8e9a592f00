package progress

import "time"

// A FollowerState is the leader's view of one follower.
type FollowerState struct {
	Broker   int32
	Position Position // -1 if unknown
	LogStart int64    // first readable offset; -1 if unknown
	// CaughtUp is the latest known instant whose log end the follower has reached by now. Known is
	// false if there is none.
	CaughtUp time.Duration
	Known    bool
}

// FollowerStates returns the state of all followers, in the order of the replicas.
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
