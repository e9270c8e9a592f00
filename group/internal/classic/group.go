package classic

import (
	"cmp"
	"slices"
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
)

// Config is the configuration of a Group.
type Config struct {
	InitialRebalanceDelay time.Duration // 0: none
	MaxSize               int           // number of members; 0: no limit
	Limits

	// Process is the client host of members in this process. Members with another client host that
	// begins with InProcess are from an earlier run, and dead.
	Process string
}

// InProcess is the prefix of the client host of members in the coordinator's process. Members on
// the wire have an address, which begins with a slash.
const InProcess = "in-process-"

// A Group is one group of the classic protocol as a machine.Machine.
//
// Only the state of Apply survives a restart: generation, group leader, members with their
// assignments, committed and pending offsets. Parked requests, votes and deadlines are lost;
// EventLoaded starts the sessions of members again.
type Group struct {
	*Committed // durable: changed by Apply only
	cfg        *Config
	scalars

	members map[string]*member
	static  map[string]string    // instance id -> member id
	pending map[string]time.Time // ids given out by MEMBER_ID_REQUIRED and when they expire

	eff   Effects // of the Step under way, or whose draft is open
	draft draft
}

// scalars are the fields of a Group that a draft copies whole.
type scalars struct {
	// Durable: set by Apply, and by a rebalance, whose record is applied at its end.
	persisted    bool // a KeyGroup record exists
	generation   int32
	protocolType string
	protocol     string
	leader       string
	stateMs      int64 // time of the last change of state; -1 if unknown

	// Live.
	state        protocol.State
	joined       uint64        // members ever added, for a stable order
	joinDeadline time.Time     // PreparingRebalance: when it completes without absent members
	initial      bool          // PreparingRebalance from Empty: does not complete early
	remaining    time.Duration // rest of the longest initial delay
	newcomer     bool          // a member joined since the initial delay last began
	syncDeadline time.Time     // when members without a sync are removed; zero if all have synced
	wakeAt       time.Time     // no deadline is before it; zero: none
	idOnly       bool          // the record of this step is persistID's
}

// Effects are the results of a Step.
type Effects = machine.Effects[offsets.Record]

var (
	_ machine.Machine[Event, offsets.Record] = (*Group)(nil)
	_ machine.Transactional[offsets.Record]  = (*Group)(nil)
)

// New returns a group that does not exist yet (Dead): Apply its records from the log, or Step an
// EventCreate. It keeps cfg.
func New(id string, cfg *Config) *Group { return NewOn(NewCommitted(id), cfg) }

// NewOn is New for a group whose offsets may exist. Only the group changes them from now on.
func NewOn(c *Committed, cfg *Config) *Group {
	g := &Group{Committed: c, cfg: cfg, scalars: scalars{stateMs: -1},
		members: make(map[string]*member), static: make(map[string]string), pending: make(map[string]time.Time)}
	g.existence()
	return g
}

// State returns the group's state.
func (g *Group) State() protocol.State { return g.state }

// Type returns the kind of the group.
func (g *Group) Type() protocol.GroupType { return protocol.Classic }

// Vacant reports whether the group has no members, so that its kind may change. Pending member ids
// are lost then.
func (g *Group) Vacant() bool { return g.state == protocol.Dead || g.state == protocol.Empty }

// Tombstones returns the records that remove the group but not its offsets.
func (g *Group) Tombstones() []offsets.Record {
	if !g.persisted {
		return nil
	}
	return []offsets.Record{{Key: offsets.Key{Type: offsets.KeyGroup, Group: g.id}}}
}

// Generation returns the number of the last join phase; 0: none yet.
func (g *Group) Generation() int32 { return g.generation }

// Size returns the number of members.
func (g *Group) Size() int { return len(g.members) }

// An Event is an input of a Group: EventJoin, EventTick and so on.
type Event interface {
	step(g *Group, now time.Time)
}

// Step implements machine.Machine.
func (g *Group) Step(now time.Time, ev Event) Effects {
	// a heartbeat only renews the session, which drafts do not hold
	if _, ok := ev.(EventHeartbeat); !ok {
		g.begin()
	}
	ev.step(g, now) // Accept and Discard left no effects
	g.eff.WakeAt = g.wakeAt
	return g.eff
}

func (g *Group) reply(to machine.Ticket, value any, err error) {
	if to != 0 {
		g.eff.Replies = append(g.eff.Replies, machine.Reply{To: to, Value: value, Err: err})
	}
}

// WakeAt returns when the next tick must come; zero: there is no deadline.
func (g *Group) WakeAt() time.Time { return g.wakeAt }

// wake makes sure a tick comes at or before t.
func (g *Group) wake(t time.Time) {
	if !t.IsZero() && (g.wakeAt.IsZero() || t.Before(g.wakeAt)) {
		g.wakeAt = t
	}
}

// Forgotten implements machine.Machine.
func (g *Group) Forgotten() bool {
	return !g.persisted && len(g.offsets) == 0 && len(g.txns) == 0 && len(g.members) == 0 && len(g.pending) == 0
}

// A member is one member of a group. Its fields are written only after Group.edit, except for
// deadline.
type member struct {
	id, instanceID       string
	clientID, clientHost string
	session, rebalance   time.Duration
	protocols            []assignor.Protocol
	assignment           []byte

	seq        uint64    // order of joining
	deadline   time.Time // of its session
	isNew      bool      // waits in its first join
	joining    bool      // has a parked join
	syncing    bool      // has a parked sync
	mustSync   bool      // has not synced since the join completed
	joinTicket machine.Ticket
	syncTicket machine.Ticket

	edited uint64 // number of the last draft that saved its former state
}

func (m *member) supports(name string) bool {
	return slices.ContainsFunc(m.protocols, func(p assignor.Protocol) bool { return p.Name == name })
}

// metadata returns the member's subscription for the protocol of that name.
func (m *member) metadata(name string) []byte {
	for _, p := range m.protocols {
		if p.Name == name {
			return p.Metadata
		}
	}
	return nil
}

func (m *member) sameProtocols(ps []assignor.Protocol) bool {
	return slices.EqualFunc(m.protocols, ps, func(a, b assignor.Protocol) bool {
		return a.Name == b.Name && string(a.Metadata) == string(b.Metadata)
	})
}

// live reports whether the member has sent a request or has a session. Otherwise it is only known
// from the log.
func (m *member) live() bool { return m.isNew || !m.deadline.IsZero() }

// waiting reports whether a request of the member is parked: it needs no heartbeats meanwhile.
func (m *member) waiting() bool { return !m.isNew && (m.joining || m.syncing) }

// inOrder returns the members in the order they joined.
func (g *Group) inOrder() []*member {
	out := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *member) int { return cmp.Compare(a.seq, b.seq) })
	return out
}

// alive restarts the member's session. Discard does not undo it: the member did send a request,
// even if its records are rejected.
func (g *Group) alive(m *member, now time.Time) {
	m.deadline = now.Add(m.session)
	g.wake(m.deadline)
}

// check returns the member with that id, and validates its instance id if one is given.
func (g *Group) check(memberID, instanceID string) (*member, error) {
	if instanceID != "" {
		switch id, ok := g.static[instanceID]; {
		case !ok:
			return nil, protocol.ErrUnknownMember
		case id != memberID:
			return nil, protocol.ErrFencedInstance
		}
	}
	m, ok := g.members[memberID]
	if !ok {
		return nil, protocol.ErrUnknownMember
	}
	return m, nil
}

// checkGeneration is check, and also validates the generation.
func (g *Group) checkGeneration(memberID, instanceID string, generation int32) (*member, error) {
	m, err := g.check(memberID, instanceID)
	if err == nil && generation != g.generation {
		return nil, protocol.ErrIllegalGeneration
	}
	return m, err
}

// drop removes m from the group and answers its parked requests with err.
func (g *Group) drop(m *member, err error) {
	g.answerJoin(m, nil, err)
	g.answerSync(m, nil, err)
	remove(g, g.members, m.id)
	if g.static[m.instanceID] == m.id {
		remove(g, g.static, m.instanceID)
	}
	if g.leader != m.id {
		return
	}
	g.leader = "" // the member that joined first becomes leader
	if rest := g.inOrder(); len(rest) > 0 {
		g.leader = rest[0].id
	}
}

func (g *Group) answerJoin(m *member, r *protocol.JoinResponse, err error) {
	if !m.joining {
		return
	}
	if r != nil {
		g.reply(m.joinTicket, *r, nil)
	} else {
		g.reply(m.joinTicket, nil, err)
	}
	g.edit(m)
	m.joining, m.joinTicket = false, 0
}

func (g *Group) answerSync(m *member, r *protocol.SyncResponse, err error) {
	if !m.syncing {
		return
	}
	if r != nil {
		g.reply(m.syncTicket, *r, nil)
	} else {
		g.reply(m.syncTicket, nil, err)
	}
	g.edit(m)
	m.syncing, m.syncTicket = false, 0
}
