package progress

import (
	"errors"
	"slices"
	"time"
)

// ErrStaleIncarnation is returned for what an earlier incarnation of a broker has sent.
var ErrStaleIncarnation = errors.New("an earlier incarnation of the broker")

// ErrNotReplica is returned for a broker that has no replica of the partition.
var ErrNotReplica = errors.New("no replica")

// A Report is what a follower says of itself with a fetch, or when a sync of it has ended.
type Report struct {
	Broker      int32
	Incarnation int64    // broker epoch
	Position    Position // of a log that agrees with the leader's: a diverging one is not reported
	LogStart    int64
}

// Reported takes in a follower's word.
func (l *Leader) Reported(r Report, now time.Duration) error {
	f := l.follower(r.Broker)
	switch {
	case f == nil:
		return ErrNotReplica
	case r.Incarnation < f.incarnation:
		return ErrStaleIncarnation
	case r.Incarnation > f.incarnation:
		// The metadata will tell whether it is alive; till then it is not.
		f.begin(r.Incarnation, false)
	}
	if r.Position.End > f.position.End {
		f.grewAt = now
	}
	// Reports may come in any order; but for Restarts, only in an incarnation of its own does a log
	// get shorter.
	f.position = Position{End: max(f.position.End, r.Position.End), Durable: max(f.position.Durable, r.Position.Durable)}
	f.logStart = max(f.logStart, r.LogStart)
	l.track(f, now)
	l.advance(now)
	return nil
}

// track notes the time if f has got as far as its mark, and takes the next one.
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

// begin forgets what an earlier incarnation had.
func (f *follower) begin(incarnation int64, alive bool) {
	f.incarnation, f.alive = incarnation, alive
	f.position, f.logStart = unknown, -1
	f.grewAt = never
}

// Restarts says that a follower has to begin its log anew: what it has told of it is void. It is
// not in sync: its end is below the high watermark.
func (l *Leader) Restarts(broker int32, incarnation int64) {
	if f := l.follower(broker); f != nil && f.incarnation == incarnation {
		f.begin(incarnation, f.alive)
		f.caughtUp = never
	}
}

// Broker takes in what the metadata says of a follower's broker: its incarnation, and whether it is
// neither fenced nor leaving.
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
