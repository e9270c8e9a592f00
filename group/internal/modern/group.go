package modern

import (
	"cmp"
	"slices"
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/history"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
)

// Config is the configuration of a Group.
type Config struct {
	MaxSize        int                         // members; 0: no limit
	Timeouts       func(group string) Timeouts // present settings of a group; must do no I/O
	Assignors      []assignor.Assignor         // available to members; the first is the default
	Process        string                      // see classic.Config
	Migration      Migration
	ClassicMaxSize int // members of a classic group; 0: no limit
	classic.Limits
}

// Timeouts are configurable per group.
type Timeouts struct {
	Session    time.Duration // of members
	Heartbeat  time.Duration // sent to members
	Assignment time.Duration // the least time between target assignments
}

// Topics is a snapshot of the existing topics. It is never changed.
type Topics struct {
	Version int64
	ByName  map[string]Topic
	names   map[[16]byte]string
}

// A Topic is one topic in Topics.
type Topic struct {
	ID         [16]byte
	Partitions int32
}

// NewTopics returns a snapshot. It keeps byName.
func NewTopics(version int64, byName map[string]Topic) *Topics {
	t := &Topics{Version: version, ByName: byName, names: make(map[[16]byte]string, len(byName))}
	for name, topic := range byName {
		t.names[topic.ID] = name
	}
	return t
}

// Name returns the name of the topic with that id. t may be nil.
func (t *Topics) Name(id [16]byte) (string, bool) {
	if t == nil {
		return "", false
	}
	name, ok := t.names[id]
	return name, ok
}

// Effects are the results of a Step.
type Effects = classic.Effects

// A Group is a consumer group of the newer protocol as a machine.Machine. See the package.
type Group struct {
	*classic.Committed
	cfg *Config

	// Durable: changed by Apply only.
	epoch           int32 // of the group; 0 before the first member
	hash            int64 // of the topics that members subscribe to
	assignmentEpoch int32 // of target; 0 before the first
	assignedMs      int64 // time of target
	members         map[string]*member
	target          map[string][]partition // by member
	patterns        map[string]*pattern    // by regular expression

	// Derived from the durable state.
	static map[string]string    // instance id -> member id
	owner  map[partition]string // partition -> member that has it assigned or must revoke it
	names  map[string]int       // topic name -> number of members that subscribe to it by name
	users  map[string]int       // regular expression -> number of members with it

	// Live. The maps of times are by member.
	sessions map[string]time.Time // the end of the session
	revokes  map[string]time.Time // the deadline to revoke partitions
	joins    map[string]time.Time // the deadline to join again, of the classic protocol
	syncs    map[string]time.Time // the deadline to sync, of the classic protocol
	topics   *Topics              // the latest seen; nil if none yet
	compared *Topics              // the topics of the last comparison of hash; nil if none
	checked  int64                // version of the topics at the last comparison of hash; -1 if none
	wakeAt   time.Time            // no deadline is earlier; zero if there is none
	roster   history.Roster[member]

	eff   Effects // of the present Step or open draft
	after []func()
	down  *classic.Downgrade // the classic group that replaces this one after the Step; nil if none
}

var (
	_ machine.Machine[any, offsets.Record]  = (*Group)(nil)
	_ machine.Transactional[offsets.Record] = (*Group)(nil)
)

// New returns a group without members, on offsets that may exist already. Only the group changes
// them from now on. It keeps cfg.
func New(on *classic.Committed, cfg *Config) *Group {
	return &Group{Committed: on, cfg: cfg, members: make(map[string]*member), target: make(map[string][]partition), patterns: make(map[string]*pattern),
		static: make(map[string]string), owner: make(map[partition]string), names: make(map[string]int), users: make(map[string]int),
		sessions: make(map[string]time.Time), revokes: make(map[string]time.Time),
		joins: make(map[string]time.Time), syncs: make(map[string]time.Time), checked: -1}
}

// Type returns the kind of the group.
func (g *Group) Type() protocol.GroupType { return protocol.Consumer }

func (g *Group) timeouts() Timeouts { return g.cfg.Timeouts(g.ID()) }

// Size returns the number of members.
func (g *Group) Size() int { return len(g.members) }

// Vacant reports whether the group has no members, so that its kind may change.
func (g *Group) Vacant() bool { return len(g.members) == 0 }

// State returns the group's state.
func (g *Group) State() protocol.State {
	switch {
	case len(g.members) == 0 && g.epoch == 0 && g.None():
		return protocol.Dead
	case len(g.members) == 0:
		return protocol.Empty
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
	case EventCheckMember:
		e.step(g)
	case EventJoin:
		e.step(g, now)
	case EventSync:
		e.step(g, now)
	case classic.EventTick:
		g.tick(now)
	case classic.EventLoaded:
		g.loaded(now)
	case classic.Event:
		g.shared(now, e)
	}
	g.eff.WakeAt = g.wakeAt
	return g.eff
}

// Accept implements machine.Machine.
func (g *Group) Accept() {
	records, producer, after := g.eff.Records, g.eff.Producer, g.after
	g.eff, g.after, g.down = Effects{}, nil, nil
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

// Discard implements machine.Machine. Sessions that the step prolonged stay prolonged.
func (g *Group) Discard() { g.eff, g.after, g.down = Effects{}, nil, nil }

// Forgotten implements machine.Machine.
func (g *Group) Forgotten() bool { return g.epoch == 0 && len(g.members) == 0 && g.None() }

func (g *Group) emit(r offsets.Record) { g.eff.Records = append(g.eff.Records, r) }

func (g *Group) key(t offsets.KeyType, member string) offsets.Key {
	return offsets.Key{Type: t, Group: g.ID(), Member: member}
}

// put emits a record.
func (g *Group) put(t offsets.KeyType, member string, v offsets.Value) {
	g.emit(offsets.Record{Key: g.key(t, member), Value: v})
}

func (g *Group) reply(to machine.Ticket, value any, err error) {
	if to != 0 {
		g.eff.Replies = append(g.eff.Replies, machine.Reply{To: to, Value: value, Err: err})
	}
}

// refuse discards the effects of the step and replies with err.
func (g *Group) refuse(to machine.Ticket, err error) { g.refuseWith(to, nil, err) }

// refuseWith is refuse with a value in the reply.
func (g *Group) refuseWith(to machine.Ticket, value any, err error) {
	g.eff, g.after, g.down = Effects{}, nil, nil
	g.History().Discard()
	g.reply(to, value, err)
}

// see makes t the topics of the group, unless it has newer ones. t may be nil.
func (g *Group) see(t *Topics) {
	if t != nil && (g.topics == nil || g.topics.Version <= t.Version) {
		g.topics = t
	}
}

// full reports whether the group is full and has no member with this id or instance id.
func (g *Group) full(id, instance string) bool {
	return g.cfg.MaxSize > 0 && len(g.members) >= g.cfg.MaxSize && g.members[id] == nil && (instance == "" || g.static[instance] == "")
}

// WakeAt returns when the next tick must come; zero: there is no deadline.
func (g *Group) WakeAt() time.Time { return g.wakeAt }

// wake makes sure a tick comes at or before t.
func (g *Group) wake(t time.Time) {
	if !t.IsZero() && (g.wakeAt.IsZero() || t.Before(g.wakeAt)) {
		g.wakeAt = t
	}
}

// alive restarts a member's session.
func (g *Group) alive(id string, now time.Time, session time.Duration) {
	g.sessions[id] = now.Add(session)
	g.wake(g.sessions[id])
}

// inOrder returns the members by id.
func (g *Group) inOrder() []*member {
	out := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *member) int { return cmp.Compare(a.id, b.id) })
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

// Subscribed reports whether a member subscribes to a topic.
func (g *Group) Subscribed(topic string) bool {
	if g.names[topic] > 0 {
		return true
	}
	for _, p := range g.patterns {
		if _, ok := slices.BinarySearch(p.topics, topic); ok {
			return true
		}
	}
	return false
}
