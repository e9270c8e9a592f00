package streaming

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
	MaxSize  int                         // members; 0: no limit
	Settings func(group string) Settings // present settings of a group; must do no I/O
	classic.Limits
}

// Settings can be configured for each group.
type Settings struct {
	Session    time.Duration // of members
	Heartbeat  time.Duration // sent to members
	Assignment time.Duration // between target assignments, at least
	Delay      time.Duration // before the first one of a group that had no members
	Standbys   int           // standby tasks of each task
}

// Effects are the results of a Step.
type Effects = classic.Effects

// initialEpoch is the epoch of the target assignment of a group for which none was computed yet: it
// is empty. Kafka: TargetAssignmentMetadata.INITIAL.
const initialEpoch = 1

// A Group is one streams group as a machine.Machine. The package comment describes it.
type Group struct {
	*classic.Committed
	cfg *Config

	// Durable: changed by Apply only.
	epoch           int32 // of the group; 0: there is none
	hash            int64 // of the topics that the topology needs
	validated       int32 // epoch of the topology that was ready; -1: none
	configs         []offsets.StreamsPair
	topology        *topology // nil: none
	assignmentEpoch int32     // of target
	assignedMs      int64     // when target was computed; 0: never
	members         map[string]*member
	target          map[string]*target // by member

	// Live.
	sessions   map[string]time.Time  // by member: the end of the session
	revokes    map[string]revocation // by member
	delayed    time.Time             // until when the first target waits for more members; zero: it does not
	topics     *modern.Topics        // as last seen; nil: not yet
	compared   *modern.Topics        // the topics that hash was last compared with; nil: none
	checked    int64                 // version of the topics that configured is of; -1: none
	configured *configured           // nil: not yet
	stopper    string                // the member that requested to stop all members; "": none
	endpoints  int32                 // epoch of the endpoints for queries of state
	wakeAt     time.Time             // no deadline is before it; zero: none
	roster     history.Roster[member]

	eff   Effects // of the Step under way, or whose draft is open
	after []func()
}

// A revocation is the deadline of a member's revocation, valid in that epoch only.
type revocation struct {
	at    time.Time
	epoch int32
}

var (
	_ machine.Machine[any, offsets.Record]  = (*Group)(nil)
	_ machine.Transactional[offsets.Record] = (*Group)(nil)
)

// New returns a group that does not exist yet. It may have committed offsets already: on, which
// only the group changes from then on. The group keeps cfg.
func New(on *classic.Committed, cfg *Config) *Group {
	return &Group{Committed: on, cfg: cfg, assignmentEpoch: initialEpoch, members: make(map[string]*member), target: make(map[string]*target),
		sessions: make(map[string]time.Time), revokes: make(map[string]revocation), checked: -1}
}

func (g *Group) settings() Settings { return g.cfg.Settings(g.ID()) }

// Type returns the kind of group.
func (g *Group) Type() protocol.GroupType { return protocol.Streams }

// Size returns the number of members.
func (g *Group) Size() int { return len(g.members) }

// Vacant reports whether the group has no members, so that it may become one of another kind.
func (g *Group) Vacant() bool { return len(g.members) == 0 }

// State returns the group's state.
func (g *Group) State() protocol.State {
	switch {
	case len(g.members) == 0 && g.epoch == 0 && g.None():
		return protocol.Dead
	case len(g.members) == 0:
		return protocol.Empty
	case g.topology == nil || g.topology.Epoch != g.validated:
		return protocol.NotReady
	case g.epoch > g.assignmentEpoch:
		return protocol.Assigning
	}
	if !g.settled() {
		return protocol.Reconciling
	}
	return protocol.Stable
}

// Step implements machine.Machine.
func (g *Group) Step(now time.Time, ev any) Effects {
	switch e := ev.(type) {
	case EventHeartbeat:
		e.step(g, now)
	case modern.EventCheckMember:
		g.checkMember(e)
	case classic.EventTick:
		g.tick(now)
	case classic.EventLoaded:
		g.loaded(now)
	case interface{ Refuse() machine.Reply }:
		g.eff.Replies = append(g.eff.Replies, e.Refuse())
	case classic.Event:
		g.shared(now, e)
	}
	g.eff.WakeAt = g.wakeAt
	return g.eff
}

// Accept implements machine.Machine.
func (g *Group) Accept() {
	records, producer, after := g.eff.Records, g.eff.Producer, g.after
	g.eff, g.after = Effects{}, nil
	for _, r := range records {
		if producer != nil {
			g.ApplyPending(producer.ID, r)
		} else {
			g.Apply(r)
		}
	}
	for _, f := range after {
		f()
	}
}

// Discard implements machine.Machine. Only sessions that the step prolonged stay prolonged.
func (g *Group) Discard() { g.eff, g.after = Effects{}, nil }

// Forgotten implements machine.Machine.
func (g *Group) Forgotten() bool {
	return g.epoch == 0 && len(g.members) == 0 && g.topology == nil && g.None()
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

// putGroup emits the group's record with a new epoch and otherwise the present values.
func (g *Group) putGroup(epoch int32) {
	g.put(offsets.KeyStreamsGroup, "", &offsets.StreamsGroupValue{Epoch: epoch, MetadataHash: g.hash, ValidatedTopology: g.validated, AssignmentConfigs: g.configs})
}

func (g *Group) reply(to machine.Ticket, value any, err error) {
	if to != 0 {
		g.eff.Replies = append(g.eff.Replies, machine.Reply{To: to, Value: value, Err: err})
	}
}

// alive restarts a member's session.
func (g *Group) alive(id string, now time.Time, session time.Duration) {
	g.sessions[id] = now.Add(session)
	g.wake(g.sessions[id])
}

// wake makes sure a tick comes at or before t.
func (g *Group) wake(t time.Time) {
	if !t.IsZero() && (g.wakeAt.IsZero() || t.Before(g.wakeAt)) {
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

// ApplyPending implements machine.Transactional.
func (g *Group) ApplyPending(producerID int64, r offsets.Record) {
	if r.Key.Group == g.ID() && r.Key.Type == offsets.KeyOffset && r.Offset != nil {
		g.Committed.ApplyPending(producerID, r)
		return
	}
	g.Apply(r)
}
