package sharing

import (
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
)

// EventHeartbeat is a ShareHeartbeatRequest that passed the checks that need no group. The reply is
// an Answer.
type EventHeartbeat struct {
	*protocol.ShareHeartbeatRequest
	Topics      *modern.Topics
	Initialized []offsets.ShareStatesTopic // partitions that have a state by now
	Repeated    bool                       // see modern.EventHeartbeat
	To          machine.Ticket
}

// An Answer is the reply to an EventHeartbeat.
type Answer struct {
	protocol.ShareHeartbeatResponse
	Missing []offsets.ShareStatesTopic // partitions of the group's topics without a state
}

// Refuse returns the answer of a group of another kind.
func (e EventHeartbeat) Refuse() machine.Reply {
	return machine.Reply{To: e.To, Err: protocol.ErrGroupNotFound}
}

// Special values of a request's member epoch. Kafka: ShareGroupHeartbeatRequest.
const (
	joinEpoch  = 0
	leaveEpoch = -1
)

func (e EventHeartbeat) step(g *Group, now time.Time) {
	if e.Topics != nil && (g.topics == nil || g.topics.Version <= e.Topics.Version) {
		g.topics = e.Topics
	}
	ans, err := e.answer(g, now)
	if err != nil {
		g.eff, g.after = Effects{}, nil
		g.History().Discard()
		g.reply(e.To, nil, err)
		return
	}
	g.reply(e.To, *ans, nil)
}

func (e EventHeartbeat) answer(g *Group, now time.Time) (*Answer, error) {
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
	case e.MemberEpoch == leaveEpoch:
		g.note(protocol.Cause{Kind: protocol.CauseLeft}, before)
		g.remove(before)
		return &Answer{ShareHeartbeatResponse: protocol.ShareHeartbeatResponse{MemberID: e.MemberID, MemberEpoch: leaveEpoch}}, nil
	case before == nil && len(g.members) >= g.cfg.MaxSize:
		return nil, protocol.ErrGroupMaxSize
	case before == nil:
		before = &member{id: e.MemberID}
	case e.MemberEpoch > before.epoch:
		return nil, classic.Says(protocol.ErrFencedMemberEpoch, "The share group member has a greater member epoch (%d) than the one known by the group coordinator (%d). "+
			"The member must abandon all its partitions and rejoin.", e.MemberEpoch, before.epoch)
	case e.MemberEpoch != joinEpoch && e.MemberEpoch != before.epoch && e.MemberEpoch != before.previous:
		return nil, classic.Says(protocol.ErrFencedMemberEpoch, "The share group member has a smaller member epoch (%d) than the one known by the group coordinator (%d), "+
			"and it does not match the previous member epoch (%d). The member must abandon all its partitions and rejoin.", e.MemberEpoch, before.epoch, before.previous)
	}
	return e.update(g, before, now), nil
}

// update applies the request. A new member, another subscription, changed topics or more partitions
// with initialised state begin a new epoch of the group. assign limits how often its target is
// computed.
func (e EventHeartbeat) update(g *Group, before *member, now time.Time) *Answer {
	m := *before
	m.ShareMemberValue = e.subscription(m.ShareMemberValue)
	members := maps.Clone(g.members)
	members[m.id] = &m
	states, _ := g.states.with(e.Initialized)
	g.initialize(e.Initialized)

	bump := !slices.Equal(m.Topics, before.Topics)
	if g.members[m.id] == nil || bump || m.RackID != before.RackID || m.ClientID != before.ClientID || m.ClientHost != before.ClientHost {
		v := m.ShareMemberValue
		g.put(offsets.KeyShareMember, m.id, &v)
	}
	names := subscribed(members)
	epoch, hash := max(g.epoch, 1), g.hash
	if g.topics != nil && (bump || g.checked != g.topics.Version) {
		hash = g.topics.Hash(names)
		compared := g.topics
		g.after = append(g.after, func() { g.checked, g.compared = compared.Version, compared })
	}
	ready := g.ready(states, names)
	if bump || hash != g.hash || g.epoch == g.assignmentEpoch && g.unassigned(ready) {
		epoch++
	}
	if epoch != g.epoch {
		switch {
		case g.members[m.id] == nil:
			g.note(protocol.Cause{Kind: protocol.CauseJoined}, &m)
		case bump:
			g.note(protocol.Cause{Kind: protocol.CauseSubscription}, &m)
		case hash != g.hash:
			g.topics.NoteChanges(g.compared, g.subscribes, names, g.History())
		default:
			g.History().Note(protocol.Cause{Kind: protocol.CauseSharesReady})
		}
		g.put(offsets.KeyShareGroup, "", &offsets.ShareGroupValue{Epoch: epoch, MetadataHash: hash})
	}
	target, targetEpoch := e.assign(g, members, ready, epoch, now)
	if epoch > targetEpoch { // the target is older than the members' subscriptions
		target = g.subscribedOf(&m, target)
	}
	next := reconcile(&m, target, targetEpoch, bump)
	if next != &m {
		g.put(offsets.KeyShareCurrentAssignment, m.id, &offsets.ShareCurrentAssignmentValue{MemberEpoch: next.epoch, PreviousMemberEpoch: next.previous, Assigned: byTopic(next.assigned)})
	}
	g.heard(m.id, now)
	ans := &Answer{ShareHeartbeatResponse: protocol.ShareHeartbeatResponse{MemberID: m.id, MemberEpoch: next.epoch, HeartbeatInterval: g.timeouts().Heartbeat}}
	if e.Repeated || e.MemberEpoch == joinEpoch || e.SubscribedTopics != nil || !slices.Equal(before.assigned, next.assigned) {
		ans.Assignment = byTopic(next.assigned)
	}
	if g.topics != nil {
		ans.Missing = states.missing(g.topics, names)
	}
	return ans
}

// heard restarts the session of a member. The session of a new member begins with Accept.
func (g *Group) heard(id string, now time.Time) {
	if g.members[id] != nil { // not undone by Discard: the heartbeat was received
		g.alive(id, now)
		return
	}
	g.after = append(g.after, func() { g.alive(id, now) })
	g.wake(now.Add(g.timeouts().Session))
}

// subscription returns the member's record s with the values of the request.
func (e EventHeartbeat) subscription(s offsets.ShareMemberValue) offsets.ShareMemberValue {
	if e.RackID != "" {
		s.RackID = e.RackID
	}
	if e.SubscribedTopics != nil {
		s.Topics = slices.Compact(slices.Sorted(slices.Values(e.SubscribedTopics)))
	}
	s.ClientID, s.ClientHost = e.ClientID, e.ClientHost
	return s
}

// subscribes reports whether a member subscribes to a topic.
func (g *Group) subscribes(topic string) bool {
	for _, m := range g.members {
		if slices.Contains(m.Topics, topic) {
			return true
		}
	}
	return false
}

// ready returns the partitions of the named topics that can be assigned: they exist and have
// initialised state. The result is by topic name.
func (g *Group) ready(states states, names []string) map[string][]partition {
	out := make(map[string][]partition, len(names))
	if g.topics == nil {
		return out
	}
	for _, name := range names {
		t := g.topics.ByName[name]
		for _, p := range states[t.ID].partitions {
			if p < t.Partitions {
				out[name] = append(out[name], partition{t.ID, p})
			}
		}
	}
	return out
}

// unassigned reports whether a partition of ready is in no member's target.
func (g *Group) unassigned(ready map[string][]partition) bool {
	has := make(map[partition]bool)
	for _, ps := range g.target {
		for _, p := range ps {
			has[p] = true
		}
	}
	for _, ps := range ready {
		for _, p := range ps {
			if !has[p] {
				return true
			}
		}
	}
	return false
}

// assign returns the target of the member that sends e, and the target's epoch. It computes the
// targets of all members if the group's epoch is newer, at most once per Timeouts.Assignment.
func (e EventHeartbeat) assign(g *Group, members map[string]*member, ready map[string][]partition, epoch int32, now time.Time) ([]partition, int32) {
	ms := now.UnixMilli()
	due := g.assignmentEpoch == 0 || ms >= g.assignedMs+g.timeouts().Assignment.Milliseconds() || ms < g.assignedMs
	if epoch <= g.assignmentEpoch || !due {
		return g.target[e.MemberID], g.assignmentEpoch
	}
	targets := assign(members, ready, g.target)
	for _, id := range slices.Sorted(maps.Keys(members)) {
		if old, had := g.target[id]; !had || !slices.Equal(old, targets[id]) {
			g.put(offsets.KeyShareTargetMember, id, &offsets.TargetAssignmentMemberValue{Partitions: byTopic(targets[id])})
		}
	}
	g.put(offsets.KeyShareTarget, "", &offsets.TargetAssignmentValue{AssignmentEpoch: epoch, TimestampMs: ms})
	return targets[e.MemberID], epoch
}

// subscribedOf returns the partitions of ps whose topics m subscribes to. Partitions of unknown
// topics, such as deleted ones, stay until the next target.
func (g *Group) subscribedOf(m *member, ps []partition) []partition {
	var out []partition
	for _, p := range ps {
		name, ok := g.topics.Name(p.topic)
		if _, subscribed := slices.BinarySearch(m.Topics, name); subscribed || !ok {
			out = append(out, p)
		}
	}
	return out
}

// reconcile returns m with its target and the target's epoch. It returns m itself if m has that
// epoch and its subscription has not changed. Kafka: ShareGroupAssignmentBuilder.
func reconcile(m *member, target []partition, epoch int32, changed bool) *member {
	next := *m
	if m.epoch == epoch {
		if !changed || slices.Equal(m.assigned, target) {
			return m
		}
		next.assigned = target
		return &next
	}
	next.previous, next.epoch, next.assigned = m.epoch, epoch, target
	return &next
}
