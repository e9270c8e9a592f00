// Package progress is what the leader of a partition knows of its replicas, and what follows from
// it: the high watermark, changes of the in-sync set, and whether an append is acknowledged. It
// only computes.
//
// # What counts
//
// A replica's position has two ends: what it has written, and what it has on stable storage. Under
// a sync policy that promises stable storage with the acknowledgement the second one counts, of the
// leader and of every follower; otherwise the first. Below it is called the safe end.
//
// # The high watermark
//
// It is the smallest safe end of the replicas that must have a record before anyone sees it:
//
//   - those of the in-sync set that is committed, and of the one that is asked for: who is to join
//     counts at once, who is to leave counts until the controller has agreed;
//   - those that are about to join: caught up, and alive. A follower under steady load would
//     otherwise never reach a high watermark that moves with the leader alone.
//
// It moves only while the committed set has its minimum (KIP-966), and never back. A follower of
// which nothing is known yet, after an election or after its restart, holds it where it is.
//
// # Caught up
//
// A follower is caught up if it has all that the leader had at some instant of the last MaxLag. The
// leader remembers one such instant, its end at that time, and takes the next one when the follower
// has got that far. With stable storage it is the durable end that has to: a disk that hangs holds
// up everybody for MaxLag, and not for ever. Kafka: Replica.isCaughtUp, where only written counts.
//
// # Why no acknowledged record is lost
//
// A record is acknowledged (acks=all) when the high watermark has passed it. Let S be any set that
// is committed from then on. If a member was in the set at that time, its safe end was above the
// record. If it joined later, it was asked for when its safe end had reached the high watermark,
// which had passed the record. Either way it has the record, on stable storage where that counts,
// and only members lead. A member gives records up only to agree with a leader, which has them too.
package progress

import (
	"math"
	"slices"
	"time"
)

// A Position is how far a replica's log goes: Durable <= End. Both are -1 while nothing is known.
type Position struct {
	End     int64 // what is written
	Durable int64 // what is on stable storage
}

var unknown = Position{End: -1, Durable: -1}

// A Set is what the controller has committed about a partition. Its slices are not changed by
// anyone.
type Set struct {
	Epoch    int32 // of the partition: grows with every change
	Replicas []int32
	InSync   []int32 // has the leader
	// Unsynced: the controller does not know that all who are in sync have what was acknowledged on
	// stable storage, and is to be told when they have.
	Unsynced bool
}

// Config describes the beginning of a leader's epoch.
type Config struct {
	Self  int32
	Start int64    // offset where the leader epoch begins
	Own   Position // of the leader's log
	// HighWatermark that the leader knew as a follower.
	HighWatermark int64
	Set           Set
	Rules         Rules
	Now           time.Duration // since any fixed instant, like all times here
}

// Rules are what the topic's configuration says.
type Rules struct {
	MinInSync int // capped by the number of replicas
	SyncOnAck bool
	MaxLag    time.Duration
}

// A Leader is the leader's view of all replicas in one leader epoch. Not safe for concurrent use.
type Leader struct {
	self      int32
	start     int64
	own       Position
	hw        int64
	rules     Rules
	set       Set
	proposed  []int32       // the in-sync set that is asked for; nil: none
	refusals  int           // in a row, of what was asked for
	askAt     time.Duration // nothing is asked for before that
	now       time.Duration // the latest that was told
	followers []follower    // by broker, one for each replica but the leader
}

// A follower is what the leader knows of one.
type follower struct {
	broker      int32
	incarnation int64 // broker epoch of the one whose position this is
	alive       bool  // neither fenced nor leaving, by the metadata, in that incarnation
	position    Position
	logStart    int64

	// caughtUp is the latest instant known at which the leader had nothing that the follower has
	// not got by now; never: there is none.
	caughtUp time.Duration
	// The mark is the leader's end at an instant, which the follower has not been seen to reach.
	mark   int64
	markAt time.Duration

	grewAt time.Duration // when its end was last seen to move; never: it was not
}

const never = time.Duration(-1 << 62)

// New begins a leader epoch. Positions of followers are not known: what was known in an earlier
// epoch may have been cut off since.
func New(cfg Config) *Leader {
	l := &Leader{self: cfg.Self, start: cfg.Start, own: cfg.Own, hw: cfg.HighWatermark, rules: cfg.Rules}
	l.adopt(cfg.Set, cfg.Now)
	l.advance(cfg.Now)
	return l
}

// adopt takes the committed set over, with what is known of those that stay replicas.
func (l *Leader) adopt(set Set, now time.Duration) {
	l.set, l.proposed, l.refusals, l.askAt = set, nil, 0, 0
	known := l.followers
	l.followers = make([]follower, 0, len(set.Replicas))
	for _, broker := range set.Replicas {
		if broker == l.self {
			continue
		}
		f := follower{broker: broker, incarnation: -1, position: unknown, logStart: -1, caughtUp: never, mark: l.own.End, markAt: now, grewAt: never}
		if i := slices.IndexFunc(known, func(f follower) bool { return f.broker == broker }); i >= 0 {
			f = known[i]
		} else if slices.Contains(set.InSync, broker) {
			f.caughtUp = now // it was, when it was last looked at
		}
		l.followers = append(l.followers, f)
	}
}

// HighWatermark returns the offset below which records are safe and may be shown.
func (l *Leader) HighWatermark() int64 { return l.hw }

// Complete reports whether the high watermark has reached the start of the leader epoch: until then
// it may be behind what an earlier leader has acknowledged, and the end that clients are told of
// must wait. Kafka: OFFSET_NOT_AVAILABLE.
func (l *Leader) Complete() bool { return l.hw >= l.start }

// InSync returns the committed in-sync set.
func (l *Leader) InSync() []int32 { return l.set.InSync }

// minInSync returns the minimum that can be asked of this partition.
func (l *Leader) minInSync() int { return min(l.rules.MinInSync, len(l.set.Replicas)) }

// MayAppend reports whether an append that wants all acknowledgements may begin.
func (l *Leader) MayAppend() bool { return len(l.set.InSync) >= l.minInSync() }

// safe returns the end that counts.
func (l *Leader) safe(p Position) int64 {
	if l.rules.SyncOnAck {
		return p.Durable
	}
	return p.End
}

// Moved takes in the leader's own position, after an append or a sync. An older durable end than
// one that was told before is ignored. It is called for every append, so it takes no time: as long
// as nobody tells a later one the high watermark waits for who was caught up.
func (l *Leader) Moved(own Position) {
	l.own = Position{End: max(l.own.End, own.End), Durable: max(l.own.Durable, own.Durable)}
	l.advance(l.now)
}

// Configure takes changed rules over. The high watermark stays where it is: what was acknowledged
// by other rules is not called back.
func (l *Leader) Configure(rules Rules, now time.Duration) {
	l.rules = rules
	l.advance(now)
}

// Tick lets time pass: the high watermark waits no longer for who was about to join and has fallen
// behind.
func (l *Leader) Tick(now time.Duration) { l.advance(now) }

// LowWatermark returns the smallest log start of the leader, which is given, and of the followers
// that are alive; -1 if one of them is not known. Kafka: DeleteRecords.
func (l *Leader) LowWatermark(logStart int64) int64 {
	for i := range l.followers {
		if f := &l.followers[i]; f.alive {
			logStart = min(logStart, f.logStart)
		}
	}
	return logStart
}

// advance moves the high watermark as far as it may go.
func (l *Leader) advance(now time.Duration) {
	l.now = max(l.now, now)
	if len(l.set.InSync) < l.minInSync() {
		return
	}
	to := l.safe(l.own)
	for i := range l.followers {
		if f := &l.followers[i]; l.counts(f, now) {
			to = min(to, l.safe(f.position))
		}
	}
	l.hw = max(l.hw, to)
}

// CopiedBelow returns the smallest end of those followers that live and have got on within the last
// MaxLag; MaxInt64 if there are none. What they need of the log they are about to copy.
func (l *Leader) CopiedBelow(now time.Duration) int64 {
	below := int64(math.MaxInt64)
	for i := range l.followers {
		if f := &l.followers[i]; f.alive && f.position != unknown && f.grewAt != never && now-f.grewAt <= l.rules.MaxLag {
			below = min(below, f.position.End)
		}
	}
	return below
}

// counts reports whether the high watermark waits for f.
func (l *Leader) counts(f *follower, now time.Duration) bool {
	return slices.Contains(l.set.InSync, f.broker) || slices.Contains(l.proposed, f.broker) ||
		f.alive && l.isCaughtUp(f, now)
}

// AwaitsFollower reports whether the high watermark waits for a follower: it is in sync, or about
// to be.
func (l *Leader) AwaitsFollower(broker int32, now time.Duration) bool {
	f := l.follower(broker)
	return f != nil && l.counts(f, now)
}

func (l *Leader) isCaughtUp(f *follower, now time.Duration) bool {
	return l.safe(f.position) >= l.own.End || now-f.caughtUp <= l.rules.MaxLag
}

// Durable reports whether all who are in sync, or about to be, have on stable storage what was
// acknowledged. Under SyncOnAck it is so from some time after the policy has changed to it, and
// stays so. Only then may a replica that was not stopped in order keep its place.
func (l *Leader) Durable() bool { return l.synced(l.set.InSync) && l.synced(l.proposed) }

// synced reports whether the leader and the members of a set have on stable storage what was
// acknowledged, also by earlier leaders: as long as the high watermark has not reached the start
// of the epoch nobody knows how much that is.
func (l *Leader) synced(set []int32) bool {
	for i := range l.followers {
		if f := &l.followers[i]; slices.Contains(set, f.broker) && f.position.Durable < l.hw {
			return false
		}
	}
	return l.rules.SyncOnAck && l.Complete() && l.own.Durable >= l.hw
}
