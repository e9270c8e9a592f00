package progress

import (
	"errors"
	"slices"
	"time"
)

// ErrStaleIncarnation is returned for a report of an earlier incarnation of a broker.
var ErrStaleIncarnation = errors.New("an earlier incarnation of the broker")

// ErrNotReplica is returned for a broker that has no replica of the partition.
var ErrNotReplica = errors.New("no replica")

// A Report is a follower's state, sent with a fetch or after a sync.
type Report struct {
	Broker      int32
	Incarnation int64    // broker epoch
	Position    Position // of a log that agrees with the leader's; a diverging one is not reported
	LogStart    int64
}

// Reported applies a follower's report.
func (l *Leader) Reported(r Report, now time.Duration) error {
	f := l.follower(r.Broker)
	switch {
	case f == nil:
		return ErrNotReplica
	case r.Incarnation < f.incarnation:
		return ErrStaleIncarnation
	case r.Incarnation > f.incarnation:
		// It counts as dead until the metadata has this incarnation.
		f.begin(r.Incarnation, false)
	}
	if r.Position.End > f.position.End {
		f.grewAt = now
	}
	// Reports may come in any order. Within an incarnation a log only gets shorter by Restarts.
	f.position = Position{End: max(f.position.End, r.Position.End), Durable: max(f.position.Durable, r.Position.Durable)}
	f.logStart = max(f.logStart, r.LogStart)
	l.track(f, now)
	l.advance(now)
	return nil
}

// track records the time if f has reached its mark, and sets the next mark.
func (l *Leader) track(f *follower, now time.Duration) {
	switch safe := l.safe(f.position); {
	case safe >= l.own.End:
		f.caughtUp = now
	case safe >= f.mark:
		f.caughtUp = max(f.caughtUp, f.markAt)
	default:
		return
	}
	f.mark, f.markAt = l.own.End, now
}

func (l *Leader) follower(broker int32) *follower {
	if i := slices.IndexFunc(l.followers, func(f follower) bool { return f.broker == broker }); i >= 0 {
		return &l.followers[i]
	}
	return nil
}

// begin resets f for a new incarnation.
func (f *follower) begin(incarnation int64, alive bool) {
	f.incarnation, f.alive = incarnation, alive
	f.position, f.logStart = unknown, -1
	f.grewAt = never
}

// Restarts resets the state of a follower that has to start with an empty log. It is not in sync:
// its end is below the high watermark.
func (l *Leader) Restarts(broker int32, incarnation int64) {
	if f := l.follower(broker); f != nil && f.incarnation == incarnation {
		f.begin(incarnation, f.alive)
		f.caughtUp = never
	}
}

// Broker applies the metadata of a follower's broker. alive is false if it is fenced or shutting
// down.
func (l *Leader) Broker(broker int32, incarnation int64, alive bool, now time.Duration) {
	f := l.follower(broker)
	if f == nil || incarnation < f.incarnation {
		return
	}
	if incarnation > f.incarnation {
		f.begin(incarnation, alive)
	}
	f.alive = alive
	l.advance(now)
}
