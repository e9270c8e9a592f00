package partition

import "time"

// A FollowerState is what a leader knows of one follower. The follower itself may be further by
// now.
type FollowerState struct {
	Broker int32
	// End and Durable are where its log ends, and up to where that is on stable storage. -1: it has
	// not told yet in this leader epoch.
	End, Durable int64
	LogStart     int64 // its first readable offset, -1 likewise
	// CaughtUp is the latest instant known at which the leader had nothing that the follower has
	// not got by now, on stable storage under SyncOnAck. Zero: none is known in this leader epoch.
	CaughtUp time.Time
}

// Followers returns what this replica, if it leads, knows of the others. It does not block.
func (p *Partition) Followers() []FollowerState {
	now := time.Since(p.opened)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress == nil {
		return nil
	}
	var all []FollowerState
	for _, s := range p.progress.FollowerStates(now) {
		f := FollowerState{Broker: s.Broker, End: s.Position.End, Durable: s.Position.Durable, LogStart: s.LogStart}
		if s.Known {
			f.CaughtUp = p.opened.Add(s.CaughtUp)
		}
		all = append(all, f)
	}
	return all
}
