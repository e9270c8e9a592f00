package partition

import (
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/progress"
)

// A Leadership is a decision of the controller about a partition, for its leader.
type Leadership struct {
	Epoch          int32 // leader epoch, above any earlier one
	Broker         int32 // the broker of this replica
	PartitionEpoch int32 // grows with every change of the partition
	// Replicas and InSync include Broker. They are immutable. If they are empty, Broker has the
	// only replica.
	Replicas, InSync []int32
	// Unsynced requests a proposal with Synced when all of InSync have all acknowledged records on
	// stable storage.
	Unsynced bool
	// Followers has the brokers of the other replicas, as in the metadata.
	Followers []Follower
	// Ask is called with an ISR that the leader requests. There is at most one request at a time,
	// until Reassure or Declined responds to it. Wake is called when a fetch of a follower may
	// return something new. Both are called without locks, must not block, and may be nil with one
	// replica.
	Ask  func(InSyncProposal)
	Wake func()
}

// A Follower is the broker of a follower replica.
type Follower struct {
	Broker      int32
	Incarnation int64 // broker epoch
	Alive       bool  // neither fenced nor shutting down
}

// An InSyncProposal is an ISR that a leader requests from the controller. Kafka: AlterPartition.
type InSyncProposal = progress.Proposal

func (l *Leadership) set() progress.Set {
	if len(l.Replicas) == 0 {
		alone := []int32{l.Broker}
		return progress.Set{Epoch: l.PartitionEpoch, Replicas: alone, InSync: alone}
	}
	return progress.Set{Epoch: l.PartitionEpoch, Replicas: l.Replicas, InSync: l.InSync, Unsynced: l.Unsynced}
}

// leading is the additional state of a leader. Guarded by mu.
type leading struct {
	progress *progress.Leader // nil: this replica does not lead
	broker   int32
	ask      func(InSyncProposal)
	wake     func()
	looked   looked // of the last Ailing
	// closed when a log start or the leader has changed; nil if no goroutine waits
	lowMoved chan struct{}
}

// BecomeLeader makes this replica, the only one, the leader in the given leader epoch. See Lead.
func (p *Partition) BecomeLeader(epoch int32) error { return p.Lead(Leadership{Epoch: epoch}) }

// Lead makes this replica the leader, in an epoch above any earlier one. The epoch's start is
// recorded before the first append. Without followers the high watermark is set at once to the
// bound of the sync policy; otherwise it is set when the in-sync followers have reported their
// ends. Lead may block for the disk.
func (p *Partition) Lead(l Leadership) error {
	defer p.takeRole()()
	p.mu.Lock()
	stale := p.stale && !p.closed && !p.resigned.Load()
	p.mu.Unlock()
	if stale { // a truncation failed: the producer state is as of an earlier end
		if err := p.truncateTo(p.log.EndOffset()); err != nil {
			return p.wrap("become leader", err)
		}
	}
	if err := p.log.LeadInEpoch(l.Epoch); err != nil {
		p.met(err)
		return p.wrap("become leader", err)
	}
	if p.syncOnAck.Load() && p.log.DurableOffset() < p.log.EndOffset() {
		// Written before a kill, and not known to be on stable storage.
		if err := p.log.Sync(); err != nil {
			return p.wrap("become leader", err)
		}
	}
	p.mu.Lock()
	if p.closed || p.resigned.Load() {
		p.mu.Unlock()
		return p.wrap("become leader", p.notLeading())
	}
	now := time.Since(p.opened)
	own := p.position()
	p.lowMovedLocked()
	readers := due{watches: p.allWatchesLocked()} // of a follower: it is the leader that they read from now
	p.leading = leading{broker: l.Broker, ask: l.Ask, wake: l.Wake, progress: progress.New(progress.Config{
		Self: l.Broker, Start: own.End, Own: own, HighWatermark: p.hw.Load(), Set: l.set(), Rules: p.progressRules(), Now: now,
	})}
	p.followersLocked(l.Followers, now)
	p.epoch = l.Epoch
	p.leaderEpoch.Store(l.Epoch)
	d := p.progressedLocked()
	waiting := p.state.takeWaiting() // guards do not outlive a leadership: others may have led since
	p.mu.Unlock()
	readers.run()
	d.run()
	p.publish()
	releaseGuards(waiting, ErrNotLeader)
	return nil
}

// Reassure passes a later decision of the controller in the same leader epoch to the leader. A
// decision older than the last one is ignored. It also responds to the leader's outstanding
// request.
func (p *Partition) Reassure(l Leadership) {
	now := time.Since(p.opened)
	p.mu.Lock()
	if p.progress == nil || p.leaderEpoch.Load() != l.Epoch {
		p.mu.Unlock()
		return
	}
	p.progress.Committed(l.set(), now)
	p.followersLocked(l.Followers, now)
	d := p.progressedLocked()
	proves := p.proveLocked()
	p.mu.Unlock()
	d.run()
	p.publish()
	proves.run()
}

// Declined reports to the leader that the controller has rejected the requested ISR. It returns the
// pause after which the caller must call AskAgain. The pause grows with every rejection in a row,
// and is 0 if the leader does not wait for this response any more.
func (p *Partition) Declined(asked InSyncProposal) (pause time.Duration) {
	p.mu.Lock()
	var d due
	if p.progress != nil && p.progress.IsAsked(asked) {
		pause = p.progress.Refused(time.Since(p.opened))
		d = p.progressedLocked()
	}
	p.mu.Unlock()
	d.run()
	p.publish()
	return pause
}

// CheckLag makes the leader request an ISR without the followers that have not been caught up at
// any time during the last Config.MaxLag. Kafka checks that every replica.lag.time.max.ms / 2.
func (p *Partition) CheckLag() { p.look((*progress.Leader).Shrink) }

// AskAgain makes the leader repeat a rejected request if it is still valid: for an ISR without the
// followers that CheckLag finds, otherwise for one with the followers that may join.
func (p *Partition) AskAgain() {
	p.look(func(l *progress.Leader, now time.Duration) (InSyncProposal, bool) {
		if proposal, ok := l.Shrink(now); ok {
			return proposal, ok
		}
		return l.Expand()
	})
}

// look advances the leader's clock, and sends the request that it wants then.
func (p *Partition) look(want func(l *progress.Leader, now time.Duration) (InSyncProposal, bool)) {
	now := time.Since(p.opened)
	p.mu.Lock()
	if p.progress == nil {
		p.mu.Unlock()
		return
	}
	p.progress.Tick(now)
	d := p.progressedLocked()
	w := p.wantLocked(want(p.progress, now))
	p.mu.Unlock()
	d.run()
	p.publish()
	w.run()
}

// A want is a request to the controller, sent without locks.
type want struct {
	proposal InSyncProposal
	ask      func(InSyncProposal) // nil: there is none
}

func (w want) run() {
	if w.ask != nil {
		w.ask(w.proposal)
	}
}

// wantLocked returns the question that a proposal is, if there is one.
func (p *Partition) wantLocked(proposal InSyncProposal, ok bool) want {
	if !ok {
		return want{}
	}
	return want{proposal, p.ask}
}

// proveLocked returns the request that reports to the controller that all in-sync replicas have all
// acknowledged records on stable storage, if that is required and true.
func (p *Partition) proveLocked() want { return p.wantLocked(p.progress.Prove()) }

// complete reports whether the high watermark has reached the start of the leader's epoch.
func (p *Partition) complete() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress == nil || p.progress.Complete()
}

func (p *Partition) followersLocked(followers []Follower, now time.Duration) {
	for _, f := range followers {
		p.progress.Broker(f.Broker, f.Incarnation, f.Alive, now)
	}
}

// position returns the end and the durable offset of this replica's log.
func (p *Partition) position() progress.Position {
	durable := p.log.DurableOffset() // first: it may only be behind
	return progress.Position{End: p.log.EndOffset(), Durable: durable}
}

func (p *Partition) progressRules() progress.Rules {
	r := p.rules.Load()
	return progress.Rules{MinInSync: r.minInSync, MaxLag: r.maxLag, SyncOnAck: p.syncOnAck.Load()}
}

// progressedLocked moves the high watermark to where the leader's progress has it.
func (p *Partition) progressedLocked() due {
	p.enough.Store(p.progress.MayAppend())
	p.lowMovedLocked()
	return p.advanceLocked(p.progress.HighWatermark())
}

// mayAwaitAll returns ErrNotEnoughReplicas if an append that wants all acknowledgements cannot get
// them now.
func (p *Partition) mayAwaitAll() error {
	if p.enough.Load() {
		return nil
	}
	return fmt.Errorf("%w: %d are required", ErrNotEnoughReplicas, p.rules.Load().minInSync)
}
