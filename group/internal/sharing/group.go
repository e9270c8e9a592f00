package sharing

import (
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/history"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
)

// Config is the configuration of a Group.
type Config struct {
	MaxSize  int                         // number of members
	Timeouts func(group string) Timeouts // present timeouts of a group; must not block
	classic.Limits
}

// Timeouts can be configured for each group.
type Timeouts struct {
	Session    time.Duration // of members
	Heartbeat  time.Duration // sent to members
	Assignment time.Duration // between target assignments, at least
}

func (g *Group) timeouts() Timeouts { return g.cfg.Timeouts(g.ID()) }

// Effects are the results of a Step.
type Effects = classic.Effects

// A Group is one share group as a machine.Machine. See the package documentation.
type Group struct {
	*classic.Committed // stays empty: partition leaders keep the progress of share groups
	cfg                *Config

	// Durable: changed by Apply only.
	epoch           int32 // of the group; 0: there is none
	hash            int64 // of the topics that members subscribe to
	assignmentEpoch int32 // of target; 0: none was computed yet
	assignedMs      int64 // time of the last target assignment, Unix milliseconds
	members         map[string]*member
	target          map[string][]partition // by member, sorted
	states          states

	// Live.
	sessions map[string]time.Time // end of the session, by member
	topics   *modern.Topics       // latest snapshot of a heartbeat; nil: none yet
	compared *modern.Topics       // topics that hash was last compared with; nil: none
	checked  int64                // version of the topics that hash was last compared with; -1: none
	wakeAt   time.Time            // no deadline is before it; zero: none
	roster   history.Roster[member]

	eff   Effects  // of the Step under way, or whose draft is open
	after []func() // changes of live state that Accept makes
}

// A member is one member of a group. It is immutable: Apply replaces it.
type member struct {
	id string
	offsets.ShareMemberValue

	epoch, previous int32
	assigned        []partition // sorted
}

var (
	_ machine.Machine[any, offsets.Record]  = (*Group)(nil)
	_ machine.Transactional[offsets.Record] = (*Group)(nil)
)

// New returns a group that does not exist yet. on has no offsets. cfg is kept.
func New(on *classic.Committed, cfg *Config) *Group {
	return &Group{Committed: on, cfg: cfg, members: make(map[string]*member), target: make(map[string][]partition),
		states: states{}, sessions: make(map[string]time.Time), checked: -1}
}

// Type returns the kind of the group.
func (g *Group) Type() protocol.GroupType { return protocol.Share }

// Size returns the number of members.
func (g *Group) Size() int { return len(g.members) }

// Vacant reports whether the group may become one of another kind. A share group may not as long as
// it exists.
func (g *Group) Vacant() bool { return g.Forgotten() }

// State returns the group's state. Kafka: ShareGroupState.
func (g *Group) State() protocol.State {
	switch {
	case len(g.members) > 0:
		return protocol.Stable
	case g.epoch == 0:
		return protocol.Dead
	}
	return protocol.Empty
}

// Step implements machine.Machine.
func (g *Group) Step(now time.Time, ev any) Effects {
	switch e := ev.(type) {
	case EventHeartbeat:
		e.step(g, now)
	case EventInitialized:
		e.step(g)
	case EventForget:
		e.step(g)
	case classic.EventTick:
		g.tick(now)
	case classic.EventLoaded:
		for id := range g.members {
			g.alive(id, now)
		}
	case classic.EventDelete:
		g.delete(e)
	case classic.EventTopicDeleted:
		g.forget(e.ID)
	case interface{ Refuse() machine.Reply }:
		g.eff.Replies = append(g.eff.Replies, e.Refuse())
	case classic.Event:
		if r := classic.Refuse(e); r.To != 0 || r.Now {
			g.eff.Replies = append(g.eff.Replies, r)
		}
	}
	g.eff.WakeAt = g.wakeAt
	return g.eff
}

// Accept implements machine.Machine.
func (g *Group) Accept() {
	records, after := g.eff.Records, g.after
	g.eff, g.after = Effects{}, nil
	for _, r := range records {
		g.Apply(r)
	}
	for _, f := range after {
		f()
	}
}

// Discard implements machine.Machine. Only sessions that the step prolonged stay prolonged.
func (g *Group) Discard() { g.eff, g.after = Effects{}, nil }

// Forgotten implements machine.Machine.
func (g *Group) Forgotten() bool {
	return g.epoch == 0 && len(g.members) == 0 && len(g.states) == 0 && g.None()
}

// WakeAt returns when the next tick must come; zero: there is no deadline.
func (g *Group) WakeAt() time.Time { return g.wakeAt }

func (g *Group) key(t offsets.KeyType, member string) offsets.Key {
	return offsets.Key{Type: t, Group: g.ID(), Member: member}
}

// put emits a record; nil: a tombstone.
func (g *Group) put(t offsets.KeyType, member string, v offsets.Value) {
	g.eff.Records = append(g.eff.Records, offsets.Record{Key: g.key(t, member), Value: v})
}

func (g *Group) reply(to machine.Ticket, value any, err error) {
	if to != 0 {
		g.eff.Replies = append(g.eff.Replies, machine.Reply{To: to, Value: value, Err: err})
	}
}

// alive restarts a member's session.
func (g *Group) alive(id string, now time.Time) {
	g.sessions[id] = now.Add(g.timeouts().Session)
	g.wake(g.sessions[id])
}

// wake makes sure a tick comes at or before t.
func (g *Group) wake(t time.Time) {
	if g.wakeAt.IsZero() || t.Before(g.wakeAt) {
		g.wakeAt = t
	}
}

// inOrder returns the members by id.
func (g *Group) inOrder() []*member {
	out := make([]*member, 0, len(g.members))
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		out = append(out, g.members[id])
	}
	return out
}

// tick removes members whose session has expired.
func (g *Group) tick(now time.Time) {
	var gone []*member
	g.wakeAt = time.Time{}
	for _, m := range g.inOrder() {
		if at, ok := g.sessions[m.id]; ok && !now.Before(at) {
			gone = append(gone, m)
		} else if ok {
			g.wake(at)
		}
	}
	if n := g.cfg.AtOnce(g.ID(), len(gone), func(i int) string { return gone[i].id }); n < len(gone) {
		gone = gone[:n]
		g.wake(now) // for the others
	}
	session := g.timeouts().Session
	for _, m := range gone {
		g.note(protocol.Cause{Kind: protocol.CauseSessionExpired, After: session}, m)
	}
	g.remove(gone...)
}

// remove removes members from the group, which begins a new epoch.
func (g *Group) remove(gone ...*member) {
	if len(gone) == 0 {
		return
	}
	left := maps.Clone(g.members)
	for _, m := range gone {
		for _, t := range []offsets.KeyType{offsets.KeyShareCurrentAssignment, offsets.KeyShareTargetMember, offsets.KeyShareMember} {
			g.put(t, m.id, nil)
		}
		delete(left, m.id)
	}
	hash := g.hash
	if g.topics != nil {
		hash = g.topics.Hash(subscribed(left))
	}
	g.put(offsets.KeyShareGroup, "", &offsets.ShareGroupValue{Epoch: g.epoch + 1, MetadataHash: hash})
}

// subscribed returns the topics that members subscribe to, sorted.
func subscribed(members map[string]*member) []string {
	all := make(map[string]bool)
	for _, m := range members {
		for _, t := range m.Topics {
			all[t] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (g *Group) delete(e classic.EventDelete) {
	switch {
	case len(g.members) > 0:
		g.reply(e.To, nil, protocol.ErrNonEmptyGroup)
	case g.Forgotten():
		g.reply(e.To, nil, protocol.ErrGroupNotFound)
	default:
		g.History().Note(protocol.Cause{Kind: protocol.CauseDeleted})
		g.eff.Records = g.Tombstones()
		g.reply(e.To, nil, nil)
	}
}

// Tombstones returns the records that remove the group.
func (g *Group) Tombstones() (out []offsets.Record) {
	if g.Forgotten() {
		return nil
	}
	for _, t := range []offsets.KeyType{offsets.KeyShareStates, offsets.KeyShareTarget, offsets.KeyShareGroup} {
		out = append(out, offsets.Record{Key: g.key(t, "")})
	}
	return out
}

// View describes the group in the terms of a classic one.
func (g *Group) View() classic.View {
	v := classic.View{ID: g.ID(), Type: protocol.Share, State: g.State(), ProtocolType: protocol.ProtocolTypeShare, Protocol: AssignorName, Generation: g.epoch}
	for _, m := range g.inOrder() {
		v.Members = append(v.Members, classic.MemberView{ID: m.id, ClientID: m.ClientID, ClientHost: m.ClientHost, Topics: m.Topics, Assigned: byTopic(m.assigned)})
	}
	return v
}

// Describe returns the description of the group and its members.
func (g *Group) Describe() protocol.ShareDescription {
	d := protocol.ShareDescription{State: g.State(), GroupEpoch: g.epoch, AssignmentEpoch: g.assignmentEpoch, Assignor: AssignorName}
	for _, m := range g.inOrder() {
		d.Members = append(d.Members, protocol.ShareMemberDescription{ID: m.id, RackID: m.RackID, ClientID: m.ClientID, ClientHost: m.ClientHost,
			Epoch: m.epoch, Topics: m.Topics, Assigned: byTopic(m.assigned)})
	}
	return d
}
