package partition

import "time"

// A FollowerState is a leader's state of one follower. The follower itself may have advanced since.
type FollowerState struct {
	Broker int32
	// End is the end of the follower's log, and Durable the end of its part on stable storage. Both
	// are -1 if the follower has not reported them in this leader epoch.
	End, Durable int64
	LogStart     int64 // its first readable offset, or -1 likewise
	// CaughtUp is the latest known instant at which the leader had nothing that the follower lacks
	// now. Under SyncOnAck only durable records count. It is zero if no such instant is known in
	// this leader epoch.
	CaughtUp time.Time
}

// Followers returns a leader's state of its followers. It does not block.
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
