// Package progress tracks the replicas of a partition in its leader. From their positions it
// computes the high watermark, changes of the in-sync set, and whether an append is acknowledged.
// It has no clock, lock or I/O.
//
// # The safe end
//
// A replica's position has two ends: of its written and of its durable records. Under a
// sync policy that acknowledges only durable records, the safe end of every replica is the durable
// one. Otherwise it is the written one.
//
// # The high watermark
//
// It is the smallest safe end of the leader and of these followers:
//
//   - members of the committed in-sync set, and of a proposed one: a joining replica counts at
//     once, a leaving one until the controller has agreed;
//   - replicas about to join: caught up and alive. Under steady load a follower would otherwise
//     never reach a high watermark that moves with the leader alone.
//
// It moves only while the committed set has its minimum size (KIP-966), and never back. An in-sync
// follower whose position is unknown, after an election or its restart, holds it.
//
// # Caught up
//
// A follower is caught up if its safe end has reached the leader's end of some instant within the
// last MaxLag. The leader keeps one such mark, and sets the next when the follower has reached it.
// A hung disk therefore delays the high watermark by at most MaxLag if durable ends count. Kafka:
// Replica.isCaughtUp, which compares written ends only.
//
// # Why no acknowledged record is lost
//
// A record is acknowledged (acks=all) when the high watermark has passed it. Let S be any set that
// is committed from then on. If a member was in the set at that time, its safe end was above the
// record. If it joined later, it was proposed when its safe end had reached the high watermark,
// which had passed the record. Either way it has the record, durably where that counts, and only
// members lead. A member truncates records only to agree with a leader, which has this record too.
package progress

import (
	"math"
	"slices"
	"time"
)

// A Position is the end of a replica's log: Durable <= End. Both are -1 while unknown.
type Position struct {
	End     int64 // end of the written records
	Durable int64 // end of the records on stable storage
}

var unknown = Position{End: -1, Durable: -1}

// A Set is the state of a partition that the controller has committed. Its slices are never
// changed.
type Set struct {
	Epoch    int32 // of the partition: grows with every change
	Replicas []int32
	InSync   []int32 // includes the leader
	// Unsynced is set while the controller has no confirmation that all in-sync replicas have the
	// acknowledged records on stable storage.
	Unsynced bool
}

// Config describes the beginning of a leader's epoch.
type Config struct {
	Self  int32
	Start int64    // offset where the leader epoch begins
	Own   Position // of the leader's log
	// HighWatermark is its value from the time as a follower.
	HighWatermark int64
	Set           Set
	Rules         Rules
	Now           time.Duration // since any fixed instant, like all times here
}

// Rules are the topic's configuration.
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
	proposed  []int32       // the in-sync set that is proposed; nil if none is pending
	refusals  int           // of consecutive proposals
	askAt     time.Duration // no proposal before this time
	now       time.Duration // the latest time that was passed in
	followers []follower    // in the order of the replicas, without the leader
}

// A follower is the leader's view of one.
type follower struct {
	broker      int32
	incarnation int64 // broker epoch that position belongs to
	alive       bool  // neither fenced nor leaving, by the metadata, in that incarnation
	position    Position
	logStart    int64

	// caughtUp is the latest known instant whose log end the follower has reached by now, or never.
	caughtUp time.Duration
	// mark is the leader's end at markAt. The follower had not reached it when it last reported.
	mark   int64
	markAt time.Duration

	grewAt time.Duration // time of its end's last advance, or never
}

const never = time.Duration(-1 << 62)

// New begins a leader epoch. Positions of followers are unknown: their logs may have been truncated
// since an earlier epoch.
func New(cfg Config) *Leader {
	l := &Leader{self: cfg.Self, start: cfg.Start, own: cfg.Own, hw: cfg.HighWatermark, rules: cfg.Rules}
	l.adopt(cfg.Set, cfg.Now)
	l.advance(cfg.Now)
	return l
}

// adopt takes over a committed set, and keeps the state of replicas that stay.
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
			f.caughtUp = now // as of the last check, by an earlier leader
		}
		l.followers = append(l.followers, f)
	}
}

// HighWatermark returns the offset below which records are safe and visible.
func (l *Leader) HighWatermark() int64 { return l.hw }

// Complete reports whether the high watermark has reached the start of the leader epoch. Until then
// it may be below an earlier leader's, and end offsets must not be returned to clients.
// Kafka: OFFSET_NOT_AVAILABLE.
func (l *Leader) Complete() bool { return l.hw >= l.start }

// InSync returns the committed in-sync set.
func (l *Leader) InSync() []int32 { return l.set.InSync }

// minInSync returns the minimum in-sync size, capped by the number of replicas.
func (l *Leader) minInSync() int { return min(l.rules.MinInSync, len(l.set.Replicas)) }

// MayAppend reports whether an append with acks=all may begin.
func (l *Leader) MayAppend() bool { return len(l.set.InSync) >= l.minInSync() }

// safe returns the safe end of p.
func (l *Leader) safe(p Position) int64 {
	if l.rules.SyncOnAck {
		return p.Durable
	}
	return p.End
}

// Moved applies the leader's own position after an append or a sync. Lower ends than the present
// ones are ignored. It is called for every append, so it takes no time argument: followers count as
// caught up as of the latest time that another call passed in.
func (l *Leader) Moved(own Position) {
	l.own = Position{End: max(l.own.End, own.End), Durable: max(l.own.Durable, own.Durable)}
	l.advance(l.now)
}

// Configure applies changed rules. The high watermark stays: records acknowledged under other rules
// remain so.
func (l *Leader) Configure(rules Rules, now time.Duration) {
	l.rules = rules
	l.advance(now)
}

// Tick passes the time: the high watermark no longer waits for a joining replica that has fallen
// behind.
func (l *Leader) Tick(now time.Duration) { l.advance(now) }

// LowWatermark returns the smallest log start of the leader, which is given, and of the followers
// that are alive; -1 if one is unknown. Kafka: DeleteRecords.
func (l *Leader) LowWatermark(logStart int64) int64 {
	for i := range l.followers {
		if f := &l.followers[i]; f.alive {
			logStart = min(logStart, f.logStart)
		}
	}
	return logStart
}

// advance moves the high watermark as far as the followers allow.
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

// CopiedBelow returns the smallest end of the live followers whose end advanced within the last
// MaxLag; MaxInt64 if there are none. They are about to copy the log from there on.
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
// to join.
func (l *Leader) AwaitsFollower(broker int32, now time.Duration) bool {
	f := l.follower(broker)
	return f != nil && l.counts(f, now)
}

func (l *Leader) isCaughtUp(f *follower, now time.Duration) bool {
	return l.safe(f.position) >= l.own.End || now-f.caughtUp <= l.rules.MaxLag
}

// Durable reports whether all members of the in-sync set, and of a proposed one, have the
// acknowledged records on stable storage. After the policy has changed to SyncOnAck it becomes true
// some time later, and stays so. Only then may a replica stay in the set after an unclean stop.
func (l *Leader) Durable() bool { return l.synced(l.set.InSync) && l.synced(l.proposed) }

// synced reports whether the leader and the members of a set have the acknowledged records on
// stable storage, those of earlier leaders too. Until the high watermark has reached the start of
// the epoch, their number is unknown.
func (l *Leader) synced(set []int32) bool {
	for i := range l.followers {
		if f := &l.followers[i]; slices.Contains(set, f.broker) && f.position.Durable < l.hw {
			return false
		}
	}
	return l.rules.SyncOnAck && l.Complete() && l.own.Durable >= l.hw
}
