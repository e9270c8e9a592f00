package partition

import (
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/progress"
)

// A Leadership is what the controller has decided about a partition, as its leader is told.
type Leadership struct {
	Epoch          int32 // leader epoch, above any earlier one
	Broker         int32 // whose replica leads
	PartitionEpoch int32 // grows with every change of the partition
	// Replicas and InSync hold Broker. Neither is changed by anyone. None: Broker alone.
	Replicas, InSync []int32
	// Unsynced: the controller is to be told when all of InSync have on stable storage what was
	// acknowledged.
	Unsynced bool
	// Followers are the brokers of the other replicas, as the metadata has them.
	Followers []Follower
	// Ask is called with an in-sync set that the leader would have, at most one at a time: until
	// Reassure or Declined answers it. Wake is called when followers may find something new. Both
	// are called without locks held, must not block, and may be nil with one replica.
	Ask  func(InSyncProposal)
	Wake func()
}

// A Follower is the broker of a replica that does not lead.
type Follower struct {
	Broker      int32
	Incarnation int64 // broker epoch
	Alive       bool  // neither fenced nor leaving
}

// An InSyncProposal is an in-sync set that a leader asks the controller for. Kafka: AlterPartition.
type InSyncProposal = progress.Proposal

func (l *Leadership) set() progress.Set {
	if len(l.Replicas) == 0 {
		alone := []int32{l.Broker}
		return progress.Set{Epoch: l.PartitionEpoch, Replicas: alone, InSync: alone}
	}
	return progress.Set{Epoch: l.PartitionEpoch, Replicas: l.Replicas, InSync: l.InSync, Unsynced: l.Unsynced}
}

// leading is what only a leader has. Guarded by mu.
type leading struct {
	progress *progress.Leader // nil: this replica does not lead
	broker   int32
	ask      func(InSyncProposal)
	wake     func()
	looked   looked        // of the last Ailing
	lowMoved chan struct{} // closed when a log start or who leads has changed; nil: nobody waits
}

// BecomeLeader makes this replica, the only one, the leader in the given epoch. See Lead.
func (p *Partition) BecomeLeader(epoch int32) error { return p.Lead(Leadership{Epoch: epoch}) }

// Lead makes this replica the leader, in an epoch above any earlier one: the epoch's start is
// recorded before the first append. Without followers its high watermark is at once what its sync
// policy allows; else when those in sync have told how far they are. It may block for the disk.
func (p *Partition) Lead(l Leadership) error {
	defer p.takeRole()()
	if err := p.log.LeadInEpoch(l.Epoch); err != nil {
		return p.wrap("become leader", err)
	}
	if p.syncOnAck.Load() && p.log.DurableOffset() < p.log.EndOffset() {
		// Written before a kill, and not known to be on stable storage.
		if err := p.log.Sync(); err != nil {
			return p.wrap("become leader", err)
		}
	}
	p.mu.Lock()
	if p.closed || p.stale || p.resigned.Load() {
		closed := p.closed
		p.mu.Unlock()
		if closed || p.resigned.Load() {
			return p.wrap("become leader", p.notLeading())
		}
		return p.wrap("become leader", errors.New("a truncation has failed: open the partition again"))
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

// Reassure tells the leader what the controller has committed since, in the same leader epoch; an
// older word than the last one is ignored. What it had asked for is answered by that.
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

// Declined tells the leader that the controller does not make the in-sync set of that partition
// epoch which it has asked for. It returns when AskAgain is due: after a pause that grows with
// every refusal in a row, 0 if the leader does not wait for that answer any more.
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

// CheckLag has the leader look for followers that were not caught up at any time of the last
// Config.MaxLag, and ask for an in-sync set without them. Kafka does so every half
// replica.lag.time.max.ms.
func (p *Partition) CheckLag() { p.look((*progress.Leader).Shrink) }

// AskAgain has the leader ask for what the controller has declined, if it still wants it: for a set
// without those that CheckLag looks for, else for one with those that may join.
func (p *Partition) AskAgain() {
	p.look(func(l *progress.Leader, now time.Duration) (InSyncProposal, bool) {
		if proposal, ok := l.Shrink(now); ok {
			return proposal, ok
		}
		return l.Expand()
	})
}

// look lets time pass for the leader, and asks for what it wants then.
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

// A want is a question to the controller, asked without locks.
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

// proveLocked returns what tells the controller that all who are in sync have on stable storage
// what was acknowledged, if it is to be told and they have.
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

// position returns how far this replica's log goes.
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
	return fmt.Errorf("%w: %d are asked for", ErrNotEnoughReplicas, p.rules.Load().minInSync)
}
