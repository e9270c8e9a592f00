package streaming

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
)

// EventHeartbeat is a StreamsHeartbeatRequest that passed the checks that need no group. The reply
// is a protocol.StreamsHeartbeatResponse.
type EventHeartbeat struct {
	*protocol.StreamsHeartbeatRequest
	Topics *modern.Topics
	To     machine.Ticket
}

// Refuse returns the answer of a group of another kind.
func (e EventHeartbeat) Refuse() machine.Reply {
	return machine.Reply{To: e.To, Err: protocol.ErrGroupNotFound}
}

func (e EventHeartbeat) step(g *Group, now time.Time) {
	if e.Topics != nil && (g.topics == nil || g.topics.Version <= e.Topics.Version) {
		g.topics = e.Topics
	}
	resp, err := e.answer(g, now)
	if err != nil {
		g.eff, g.after = Effects{}, nil
		g.History().Discard()
		g.reply(e.To, nil, err)
		return
	}
	g.reply(e.To, *resp, nil)
}

// Kafka: GroupMetadataManager.streamsGroupHeartbeat, streamsGroupLeave.
func (e EventHeartbeat) answer(g *Group, now time.Time) (*protocol.StreamsHeartbeatResponse, error) {
	before := g.members[e.MemberID]
	if e.MemberEpoch != joinEpoch {
		switch {
		case g.epoch == 0:
			return nil, protocol.ErrGroupNotFound
		case before == nil:
			return nil, protocol.ErrUnknownMember
		}
	}
	switch {
	case e.MemberEpoch < 0:
		g.stopAll(e)
		g.note(protocol.Cause{Kind: protocol.CauseLeft}, before)
		g.remove(before)
		return &protocol.StreamsHeartbeatResponse{MemberID: e.MemberID, MemberEpoch: e.MemberEpoch}, nil
	case before == nil && g.cfg.MaxSize > 0 && len(g.members) >= g.cfg.MaxSize: // Kafka also rejects existing members
		return nil, classic.Says(protocol.ErrGroupMaxSize, "The streams group has reached its maximum capacity of %d members.", g.cfg.MaxSize)
	case before == nil:
		before = newMember(e.MemberID)
	}
	if err := e.checkEpoch(before); err != nil {
		return nil, err
	}
	b := beat{EventHeartbeat: e, g: g, now: now, settings: g.settings(), before: before, epoch: max(g.epoch, 1), hash: g.hash}
	return b.answer()
}

// stopAll records a member's request to stop all members, unless there is one already.
func (g *Group) stopAll(e EventHeartbeat) {
	if e.ShutdownApplication && g.stopper == "" {
		id := e.MemberID
		g.after = append(g.after, func() {
			if len(g.members) > 0 {
				g.stopper = id
			}
		})
	}
}

// checkEpoch returns an error if the epoch is not the member's. The previous epoch is accepted from
// a member that has missed the new one, if it owns only assigned tasks.
func (e EventHeartbeat) checkEpoch(m *member) error {
	than := "greater"
	switch {
	case e.MemberEpoch == joinEpoch, e.MemberEpoch == m.epoch:
		return nil
	case e.MemberEpoch < m.epoch:
		if e.MemberEpoch == m.previous && e.Owned != nil && e.owned().allOf(&m.assigned) {
			return nil
		}
		than = "smaller"
	}
	return classic.Says(protocol.ErrFencedMemberEpoch, "The streams group member has a %s member epoch (%d) than the one known by the group coordinator (%d). "+
		"The member must abandon all its partitions and rejoin.", than, e.MemberEpoch, m.epoch)
}

// owned returns the tasks that the member has sent as its own; nil if it has sent none.
func (e EventHeartbeat) owned() *target {
	if e.Owned == nil {
		return nil
	}
	t := targetOf(e.Owned)
	return &t
}

// dropped reports whether the member has sent no tasks of its own.
func (e EventHeartbeat) dropped() bool {
	t := e.owned()
	return t == nil || t.equal(&target{})
}

// self returns s with the changes of the request.
func (e EventHeartbeat) self(s offsets.StreamsMemberValue) offsets.StreamsMemberValue {
	if e.RackID != "" {
		s.RackID = e.RackID
	}
	if e.RebalanceTimeout >= 0 {
		s.RebalanceTimeoutMs = int32(e.RebalanceTimeout.Milliseconds())
	}
	if e.Topology != nil {
		s.TopologyEpoch = e.Topology.Epoch
	}
	if e.ProcessID != nil {
		s.ProcessID = *e.ProcessID
	}
	if e.Endpoint != nil {
		s.Endpoint = e.Endpoint
	}
	if e.ClientTags != nil {
		s.ClientTags = slices.SortedFunc(slices.Values(e.ClientTags), func(a, b offsets.StreamsPair) int { return compareNames(a.Key, b.Key) })
	}
	s.ClientID, s.ClientHost = e.ClientID, e.ClientHost
	return s
}

// A beat is the state of one heartbeat of a member that joins or stays. Its steps fill in the
// fields.
type beat struct {
	EventHeartbeat
	g        *Group
	now      time.Time
	settings Settings
	before   *member // before the request
	member   *member // with the changes of the request

	topology   *topology
	configured *configured
	hash       int64
	validated  int32
	epoch      int32 // of the group
	bump       bool  // the group needs a new epoch
	statuses   []protocol.StreamsStatus
}

func (b *beat) say(code protocol.StreamsStatusCode, format string, args ...any) {
	b.statuses = append(b.statuses, protocol.StreamsStatus{Code: code, Detail: fmt.Sprintf(format, args...)})
}

func (b *beat) answer() (*protocol.StreamsHeartbeatResponse, error) {
	b.meet()
	for _, step := range []func() error{b.agree, b.configure, b.validate} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	b.advance()
	target, epoch := b.assign()
	r := reconciliation{target: target, epoch: epoch, owned: b.owned(), holders: b.g.holders(b.member.ProcessID)}
	next, err := r.next(b.member)
	if err != nil {
		return nil, err
	}
	if b.MemberEpoch == joinEpoch && b.dropped() {
		next = next.heldSince(next.epoch)
	}
	if b.before.state == unrevoked && next.state != unrevoked {
		b.g.History().WaitedFor(next.id)
	}
	if next != b.member && !next.sameTasks(b.member) {
		b.g.put(offsets.KeyStreamsCurrentAssignment, next.id, next.record())
		b.timeRevocation(next)
	}
	b.heard()
	return b.tell(next), nil
}

// meet stores the member's changes.
func (b *beat) meet() {
	m := *b.before
	m.StreamsMemberValue = b.self(m.StreamsMemberValue)
	if b.g.members[m.id] == nil || !m.sameSelf(b.before) {
		v := m.StreamsMemberValue
		b.g.put(offsets.KeyStreamsMember, m.id, &v)
		b.bump = true
		if b.g.members[m.id] == nil {
			b.g.note(protocol.Cause{Kind: protocol.CauseJoined}, &m)
		} else {
			b.g.note(protocol.Cause{Kind: protocol.CauseMetadata}, &m)
		}
	}
	b.member = &m
}

// agree compares the member's topology with the group's, which is the first that a member sent.
// Kafka: maybeUpdateTopology, maybeSetTopologyStaleStatus.
func (b *beat) agree() error {
	b.topology = b.g.topology
	if b.Topology != nil {
		told := newTopology(b.Topology)
		switch {
		case b.Topology.Epoch < 0:
			return classic.Says(protocol.ErrInvalidTopology, "The epoch of a topology cannot be %d.", b.Topology.Epoch)
		case len(told.byID) < len(b.Topology.Subtopologies):
			return classic.Says(protocol.ErrInvalidTopology, "Two subtopologies have the same id.")
		case b.topology == nil:
			b.g.put(offsets.KeyStreamsTopology, "", b.Topology)
			b.topology = told
		case b.topology.Epoch <= told.Epoch && !b.topology.equal(told):
			return classic.Says(protocol.ErrInvalidRequest, "Topology updates are not supported yet.")
		}
	}
	if b.topology == nil {
		return classic.Says(protocol.ErrInvalidTopology, "The group has no topology.")
	}
	if g := b.g.topology; g != nil && b.member.TopologyEpoch < g.Epoch {
		b.say(protocol.StaleTopology, "The member's topology epoch %d is behind the group's topology epoch %d.", b.member.TopologyEpoch, g.Epoch)
	}
	return nil
}

// configure checks the topology against the existing topics, if the topics have changed.
func (b *beat) configure() error {
	g := b.g
	b.configured = g.configured
	version := int64(-1)
	if g.topics != nil {
		version = g.topics.Version
	}
	if b.configured != nil && g.checked == version {
		return nil
	}
	var err error
	if b.configured, err = configure(b.topology, g.topics); err != nil {
		return err
	}
	names := b.topology.required()
	if b.hash = g.topics.Hash(names); b.hash != g.hash {
		b.bump = true
		if !g.History().Pending() {
			g.topics.NoteChanges(g.compared, func(name string) bool { return slices.Contains(names, name) }, names, g.History())
		}
	}
	known, now := g.topology != nil, b.configured
	compared := g.topics
	g.after = append(g.after, func() {
		g.compared = compared
		if known { // as in Kafka, a group keeps it from its second heartbeat on
			g.configured, g.checked = now, version
		}
	})
	return nil
}

// validate rejects owned tasks that do not exist, and records whether the topology is ready.
func (b *beat) validate() error {
	b.validated = -1
	if b.configured.ready() {
		b.validated = b.topology.Epoch
		if err := b.checkTasks(); err != nil {
			return err
		}
	}
	if b.validated != b.g.validated {
		b.bump = true
		if !b.g.History().Pending() {
			b.g.History().Note(protocol.Cause{Kind: protocol.CauseTopology})
		}
	}
	return nil
}

func (b *beat) checkTasks() error {
	if b.Owned == nil {
		return nil
	}
	for _, list := range lists(b.Owned) {
		for _, tasks := range list {
			n, ok := b.configured.tasks[tasks.Subtopology]
			if !ok {
				return classic.Says(protocol.ErrInvalidRequest, "Subtopology %s does not exist in the topology.", tasks.Subtopology)
			}
			for _, p := range tasks.Partitions {
				if p < 0 || p >= n {
					return classic.Says(protocol.ErrInvalidRequest, "Task %d for subtopology %s is invalid. Number of tasks for this subtopology: %d", p, tasks.Subtopology, n)
				}
			}
		}
	}
	return nil
}

// advance begins a new epoch of the group if bump is set or the assignment settings changed.
func (b *beat) advance() {
	configs := []offsets.StreamsPair{{Key: "num.standby.replicas", Value: strconv.Itoa(b.settings.Standbys)}}
	if b.bump || !slices.Equal(configs, b.g.configs) {
		if !b.bump {
			b.g.History().Note(protocol.Cause{Kind: protocol.CauseConfig})
		}
		b.epoch++
		b.g.put(offsets.KeyStreamsGroup, "", &offsets.StreamsGroupValue{Epoch: b.epoch, MetadataHash: b.hash, ValidatedTopology: b.validated, AssignmentConfigs: configs})
	}
}

// timeRevocation starts or ends the member's deadline to revoke tasks.
func (b *beat) timeRevocation(next *member) {
	g, now := b.g, b.now
	if next.state != unrevoked {
		g.after = append(g.after, func() { delete(g.revokes, next.id) })
		return
	}
	g.wake(now.Add(time.Duration(max(0, next.RebalanceTimeoutMs)) * time.Millisecond))
	g.after = append(g.after, func() { g.mustRevoke(next, now) })
}

// heard restarts the session of the member. The session of a new member begins with Accept.
func (b *beat) heard() {
	g, id, now, session := b.g, b.member.id, b.now, b.settings.Session
	if g.members[id] != nil { // not undone by Discard: the heartbeat was received
		g.alive(id, now, session)
		return
	}
	g.after = append(g.after, func() { g.alive(id, now, session) })
	g.wake(now.Add(session))
}

// tell returns the response to the member, whose new state is next. It includes the tasks if they
// have changed or the member joins. It also includes them if the member sent other tasks: a
// response with them was lost.
func (b *beat) tell(next *member) *protocol.StreamsHeartbeatResponse {
	g := b.g
	resp := &protocol.StreamsHeartbeatResponse{MemberID: next.id, MemberEpoch: next.epoch, HeartbeatInterval: b.settings.Heartbeat}
	endpoints := g.endpoints
	changed := b.MemberEpoch == joinEpoch || !next.assigned.equal(&b.before.assigned)
	if owned := b.owned(); changed || owned != nil && !owned.sameAs(&next.assigned) {
		told := next.assigned.told()
		resp.Assignment = &told
	}
	if changed && next.Endpoint != nil {
		endpoints++
	}
	news := endpoints != b.EndpointEpoch
	if news || b.MemberEpoch == joinEpoch { // its epoch may be of an earlier group of this name
		if q := b.queryable(next); news || len(q) > 0 {
			resp.Queryable = q
		}
	}
	if g.epoch > 0 { // as in Kafka, where a new group is a temporary object until it is written
		resp.EndpointEpoch = endpoints
		g.after = append(g.after, func() { g.endpoints = endpoints })
		g.stopAll(b.EventHeartbeat)
	}
	if p := b.configured.problem; p != nil {
		b.statuses = append(b.statuses, *p)
		resp.Missing = b.configured.missing
	}
	stopper := g.stopper
	if stopper == "" && b.ShutdownApplication {
		stopper = b.MemberID
	}
	if stopper != "" {
		b.say(protocol.ShutdownApplication, "Streams group member %s encountered a fatal error and requested a shutdown for the entire application.", stopper)
	}
	resp.Statuses = b.statuses
	return resp
}
