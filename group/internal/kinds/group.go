package kinds

import (
	"errors"
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// A Group is a group of any kind as a machine.Machine. If it has no members, the first member's
// request selects its kind, as in Kafka: see mayBecome.
type Group struct {
	*classic.Committed
	cfg  *Config
	kind Kind
	next Kind // replaces kind if the open draft is accepted; nil: kind stays
}

var (
	_ machine.Machine[Event, offsets.Record] = (*Group)(nil)
	_ machine.Transactional[offsets.Record]  = (*Group)(nil)
	_ machine.Observed                       = (*Group)(nil)
	_ Kind                                   = classicKind{}
)

// New returns a group that does not exist yet. cfg is kept.
func New(id string, cfg *Config) *Group {
	c := classic.NewCommitted(id)
	c.History().Wanted = cfg.Wanted
	return &Group{Committed: c, cfg: cfg, kind: cfg.make(protocol.Classic, c)}
}

// Type returns the group's kind. A group that only has offsets is a classic group.
func (g *Group) Type() protocol.GroupType { return g.kind.Type() }

// State returns the group's state.
func (g *Group) State() protocol.State { return g.kind.State() }

// Size returns the number of members.
func (g *Group) Size() int { return g.kind.Size() }

// View describes the group.
func (g *Group) View() classic.View { return g.kind.View() }

// Vacant reports whether the group has no members.
func (g *Group) Vacant() bool { return g.kind.Vacant() }

// Kind returns the group as its present kind. It must not be changed.
func (g *Group) Kind() Kind { return g.kind }

// Step implements machine.Machine.
func (g *Group) Step(now time.Time, ev Event) classic.Effects {
	h := g.History()
	h.Begin(now)
	if _, ok := ev.(classic.EventLoaded); ok {
		h.Resume(g.kind.Phase())
	}
	eff := g.step(now, ev)
	g.noteRefused(ev, eff)
	return eff
}

// noteRefused records the rejection of a member's commit. Commits from outside the group, which
// have no generation, are not recorded.
func (g *Group) noteRefused(ev Event, eff classic.Effects) {
	var r *protocol.CommitRequest
	switch e := ev.(type) {
	case classic.EventCommit:
		r = e.CommitRequest
	case classic.EventTxnCommit:
		r = &e.CommitRequest
	}
	if r == nil || r.Generation < 0 || len(eff.Replies) == 0 || g.Forgotten() {
		return
	}
	reply := eff.Replies[len(eff.Replies)-1]
	err := reply.Err
	if per, ok := reply.Value.(map[record.TopicPartition]error); ok && g.Type() != protocol.Classic {
		for _, e := range per {
			if errors.Is(e, protocol.ErrStaleMemberEpoch) {
				err = e
			}
		}
	}
	if err != nil {
		g.History().Refused(r.MemberID, r.Generation, err)
	}
}

// step carries out an event.
func (g *Group) step(now time.Time, ev Event) classic.Effects {
	if t := wants(ev); t != "" && t != g.kind.Type() && mayBecome(g.kind, g.Forgotten(), t) {
		return g.become(now, g.cfg.make(t, g.Committed), g.kind.Tombstones(), ev)
	}
	if r, t := ofKind(ev); t != "" && g.kind.Type() != t {
		return classic.Effects{Replies: []machine.Reply{r.Refuse()}, WakeAt: g.wakeAt()}
	}
	if e, ok := ev.(modern.EventHeartbeat); ok && e.MemberEpoch == 0 {
		if from, ok := g.kind.(classicKind); ok && !from.Vacant() {
			return g.upgrade(now, from.Group, e)
		}
	}
	eff := g.kind.Step(now, ev)
	if k, ok := g.kind.(*modern.Group); ok && k.Downgrade() != nil {
		return g.downgrade(now, k.Downgrade(), eff)
	}
	return eff
}

// upgrade is a Step in which a member of the newer protocol joins a classic group that has members.
func (g *Group) upgrade(now time.Time, from *classic.Group, e modern.EventHeartbeat) classic.Effects {
	next, records, err := modern.Upgrade(g.Committed, &g.cfg.Modern, from, e.Topics, now)
	if err != nil {
		return classic.Effects{Replies: []machine.Reply{{To: e.To, Err: err}}, WakeAt: g.wakeAt()}
	}
	eff := g.become(now, next, records, e)
	if g.next != nil { // parked joins and syncs must be sent again, for another rebalance
		eff.Replies = append(from.Parked(protocol.ErrRebalanceInProgress), eff.Replies...)
	}
	return eff
}

// downgrade completes a Step after which a consumer group has only members of the classic protocol:
// the group becomes a classic group with these members.
func (g *Group) downgrade(now time.Time, d *classic.Downgrade, eff classic.Effects) classic.Effects {
	next, made := classic.NewFrom(g.Committed, &g.cfg.Classic, now, d)
	g.next = classicKind{next}
	eff.Records, eff.WakeAt = append(eff.Records, made), next.WakeAt()
	return eff
}

// become is a Step of next, which replaces the present kind if the step is accepted. records are
// written before the records of the step. If the step emits no record it was rejected, and the
// group keeps its kind.
func (g *Group) become(now time.Time, next Kind, records []offsets.Record, ev Event) classic.Effects {
	eff := next.Step(now, ev)
	if len(eff.Records) == 0 { // refused
		g.History().Discard()
		return classic.Effects{Replies: eff.Replies, WakeAt: g.wakeAt()}
	}
	eff.Records = append(records, eff.Records...)
	g.next = next
	return eff
}

// wakeAt returns when the next tick must come for the present kind; zero: there is no deadline.
func (g *Group) wakeAt() time.Time {
	if k, ok := g.kind.(interface{ WakeAt() time.Time }); ok {
		return k.WakeAt()
	}
	return time.Time{}
}

// Accept implements machine.Machine.
func (g *Group) Accept() {
	h := g.History()
	if h.Pending() {
		h.Hold(g.kind)
	}
	if g.next != nil {
		g.kind, g.next = g.next, nil
	}
	g.kind.Accept()
	h.Settle(g.kind)
}

// TakeEvents implements machine.Observed.
func (g *Group) TakeEvents() []any {
	events := g.History().Take()
	for _, e := range events {
		e.(*protocol.Event).Group = g.ID()
	}
	return events
}

// Discard implements machine.Machine.
func (g *Group) Discard() {
	g.next = nil
	g.History().Discard()
	g.kind.Discard() // the step may have been one of kind, as in downgrade
}

// Apply implements machine.Machine. A record of another kind makes the group one of that kind. A
// tombstone of another kind is ignored.
func (g *Group) Apply(r offsets.Record) {
	if !g.turn(r) {
		return
	}
	g.kind.Apply(r)
}

// turn makes the group one of the kind that r belongs to. It returns false if r is a tombstone of
// another kind.
func (g *Group) turn(r offsets.Record) bool {
	t := typeOf(r.Key.Type)
	if t == "" || t == g.kind.Type() {
		return true
	}
	if r.Tombstone() {
		return false
	}
	g.kind = g.cfg.make(t, g.Committed)
	return true
}

// ApplyPending implements machine.Transactional.
func (g *Group) ApplyPending(producerID int64, r offsets.Record) {
	if g.turn(r) {
		g.kind.ApplyPending(producerID, r)
	}
}

// ApplyEnd implements machine.Transactional.
func (g *Group) ApplyEnd(producerID int64, commit bool) { g.kind.ApplyEnd(producerID, commit) }

// Forgotten implements machine.Machine.
func (g *Group) Forgotten() bool { return g.kind.Forgotten() }
