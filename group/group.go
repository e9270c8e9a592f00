package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/stratalog/strata/record"
)

// State is the state of a group. Kafka: ClassicGroupState.
type State uint8

const (
	Dead                State = iota // does not exist (any more)
	Empty                            // no members; offsets may exist
	PreparingRebalance               // members are joining
	CompletingRebalance              // members have joined and wait for the group leader's assignments
	Stable                           // members have their assignments
)

// String returns Kafka's name of the state.
func (s State) String() string {
	names := [...]string{"Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}
	if int(s) < len(names) {
		return names[s]
	}
	return "invalid"
}

// A Group is one group of the classic protocol as a pure state machine: no clock, lock, goroutine or I/O. Step decides and Apply remembers.
//
// What Apply does is all that survives a restart: generation, group leader, members with their assignments, committed offsets. Who is
// waiting in a join, votes and deadlines live and die with the process; an EventLoaded after recovery starts the members' sessions anew.
//
// A Group is not safe for concurrent use.
type Group struct {
	id  string
	cfg *Config

	// Durable: changed by Apply, and by the rebalance that is under way, whose result Apply gets at its end.
	persisted    bool // a KeyGroup record exists
	generation   int32
	protocolType string
	protocol     string
	leader       string
	stateMs      int64 // when the group became what it is; -1: unknown
	offsets      map[record.TopicPartition]OffsetValue

	// Live.
	state        State
	members      map[string]*member
	static       map[string]string    // instance id -> member id
	pending      map[string]time.Time // ids given out by MEMBER_ID_REQUIRED and when they expire
	joined       uint64               // members ever added, for a stable order
	joinDeadline time.Time            // PreparingRebalance: when it completes without those who are missing
	initial      bool                 // PreparingRebalance from Empty: does not complete early
	remaining    time.Duration        // of the longest initial delay
	newcomer     bool                 // a member joined since the initial delay last began
	syncDeadline time.Time            // when members that did not sync are removed; zero: all have
	wakeAt       time.Time            // no deadline is before it; zero: none
	eff          Effects              // of the Step under way
}

// A Ticket names a request until its Reply.
type Ticket uint64

// Effects are what a Step wants done: append Records and call Apply for each as soon as the append is accepted, send Replies once
// the records (and all earlier ones of this group) are committed.
type Effects struct {
	Records    []Record
	Replies    []Reply
	WakeAt     time.Time   // feed an EventTick no later than this; zero: no deadline
	Rebalanced *Rebalanced // a new generation began
}

// A Reply answers a request.
type Reply struct {
	To    Ticket
	Value any // JoinResponse, SyncResponse, []error, map[record.TopicPartition]error or nil, by event
	Err   error
	Now   bool // need not wait for any record: heartbeats
}

// A Record is one record of the offsets topic. A KeyOffset record has an Offset, a KeyGroup record a Group; without one it is a tombstone.
type Record struct {
	Key    Key
	Offset *OffsetValue
	Group  *GroupValue
}

// NewGroup returns a group that does not exist yet (Dead): Apply what the log holds of it, or Step an EventCreate.
// cfg must have its defaults filled in.
func newGroup(id string, cfg *Config) *Group {
	return &Group{id: id, cfg: cfg, stateMs: -1, offsets: make(map[record.TopicPartition]OffsetValue), members: make(map[string]*member),
		static: make(map[string]string), pending: make(map[string]time.Time)}
}

// NewGroup returns a group that does not exist yet: Apply what the log holds of it, or Step an EventCreate.
func NewGroup(id string, cfg Config) (*Group, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return newGroup(id, &cfg), nil
}

// State returns the group's state.
func (g *Group) State() State { return g.state }

// Generation returns the number of the last join phase; 0: none yet.
func (g *Group) Generation() int32 { return g.generation }

// An Event is something that happens to a group: EventJoin, EventTick and so on.
type Event interface {
	step(g *Group, now time.Time)
}

// Step decides what ev means at time now. It only computes; the Effects' slices are the caller's.
func (g *Group) Step(now time.Time, ev Event) Effects {
	g.eff = Effects{}
	ev.step(g, now)
	eff := g.eff
	g.eff = Effects{}
	eff.WakeAt = g.wakeAt
	return eff
}

func (g *Group) reply(to Ticket, value any, err error) {
	if to != 0 {
		g.eff.Replies = append(g.eff.Replies, Reply{To: to, Value: value, Err: err})
	}
}

// wake makes sure a tick comes at or before t.
func (g *Group) wake(t time.Time) {
	if !t.IsZero() && (g.wakeAt.IsZero() || t.Before(g.wakeAt)) {
		g.wakeAt = t
	}
}

// forgotten reports whether there is nothing left to remember of the group.
func (g *Group) forgotten() bool {
	return !g.persisted && len(g.offsets) == 0 && len(g.members) == 0 && len(g.pending) == 0
}

// A member is one member of a group.
type member struct {
	id, instanceID       string
	clientID, clientHost string
	session, rebalance   time.Duration
	protocols            []Protocol
	assignment           []byte

	seq         uint64    // order of joining
	deadline    time.Time // of its session
	isNew       bool      // waits in its first join
	joining     bool      // has a parked join
	syncing     bool      // has a parked sync
	mustSync    bool      // has not synced since the join completed
	joinTicket  Ticket
	syncTicket  Ticket
	skipSupport bool
}

func (m *member) supports(protocol string) bool {
	return slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol })
}

// metadata returns the member's subscription for protocol.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

func (m *member) sameProtocols(ps []Protocol) bool {
	return slices.EqualFunc(m.protocols, ps, func(a, b Protocol) bool { return a.Name == b.Name && string(a.Metadata) == string(b.Metadata) })
}

// waiting reports whether the member is known to be alive because it waits for us.
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

// alive restarts the member's session.
func (g *Group) alive(m *member, now time.Time) {
	m.deadline = now.Add(m.session)
	g.wake(m.deadline)
}

// check finds a member by id, and by instance id if one is given.
func (g *Group) check(memberID, instanceID string) (*member, error) {
	if instanceID != "" {
		switch id, ok := g.static[instanceID]; {
		case !ok:
			return nil, ErrUnknownMember
		case id != memberID:
			return nil, ErrFencedInstance
		}
	}
	m, ok := g.members[memberID]
	if !ok {
		return nil, ErrUnknownMember
	}
	return m, nil
}

// checkGeneration is check plus the generation.
func (g *Group) checkGeneration(memberID, instanceID string, generation int32) (*member, error) {
	m, err := g.check(memberID, instanceID)
	if err == nil && generation != g.generation {
		return nil, ErrIllegalGeneration
	}
	return m, err
}

// drop takes m out of the group and answers what it has parked with err.
func (g *Group) drop(m *member, err error) {
	g.answerJoin(m, nil, err)
	g.answerSync(m, nil, err)
	delete(g.members, m.id)
	if g.static[m.instanceID] == m.id {
		delete(g.static, m.instanceID)
	}
	if g.leader != m.id {
		return
	}
	g.leader = "" // the member that has been here longest follows
	if rest := g.inOrder(); len(rest) > 0 {
		g.leader = rest[0].id
	}
}

func (g *Group) answerJoin(m *member, r *JoinResponse, err error) {
	if !m.joining {
		return
	}
	m.joining = false
	if r != nil {
		g.reply(m.joinTicket, *r, nil)
	} else {
		g.reply(m.joinTicket, nil, err)
	}
	m.joinTicket = 0
}

func (g *Group) answerSync(m *member, r *SyncResponse, err error) {
	if !m.syncing {
		return
	}
	m.syncing = false
	if r != nil {
		g.reply(m.syncTicket, *r, nil)
	} else {
		g.reply(m.syncTicket, nil, err)
	}
	m.syncTicket = 0
}
