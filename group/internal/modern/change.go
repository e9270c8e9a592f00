package modern

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// A change collects the decisions of a Step, whose records are not applied yet.
type change struct {
	g     *Group
	now   time.Time
	epoch int32 // of the group

	reason string // of the member that joins; "": none

	again    bool    // a member joins again, without partitions
	assigned bool    // a target was computed for epoch
	replaced *member // the static member to replace; nil if none

	matches *Matches // of the event; nil if it has none
	partial bool     // an expression is not matched yet with the present topics

	patterns map[string]*pattern // resolved in this step
	dropped  map[string]bool     // regular expressions without a remaining member
}

// A memberKind is the protocol of a member.
type memberKind uint8

const (
	modernMember memberKind = iota
	classicMember
)

// replace lets a new member take the place and the assignment of a static one. If both use the
// newer protocol the old one must have left.
func (c *change) replace(old *member, id string, by memberKind) (*member, error) {
	if by == modernMember && old.Classic == nil && old.epoch != leaveStaticEpoch {
		return nil, protocol.ErrUnreleasedInstance
	}
	g := c.g
	c.replaced = old
	g.removeMember(old.id)
	m := *old
	m.id, m.epoch, m.previous, m.state, m.revoking = id, 0, 0, stable, []held{}
	v := offsets.ConsumerMemberValue(m.subscription)
	g.put(offsets.KeyConsumerMember, id, &v)
	g.put(offsets.KeyTargetAssignmentMember, id, &offsets.TargetAssignmentMemberValue{Partitions: byTopic(g.target[old.id])})
	return &m, nil
}

// fresh reports whether the log has no current assignment of a member.
func (c *change) fresh(id string) bool { return c.g.members[id] == nil }

// owner returns the member that owns p; "" if it is free or its owner is being replaced.
func (c *change) owner(p partition) string {
	id := c.g.owner[p]
	if c.replaced != nil && id == c.replaced.id {
		return ""
	}
	return id
}

func (c *change) assignmentEpoch() int32 {
	if c.assigned {
		return c.epoch
	}
	return c.g.assignmentEpoch
}

// reconcile moves m towards its target and emits its new assignment. owned is the member's list of
// its partitions, if the request has one.
func (c *change) reconcile(m *member, target, owned []partition, told bool) *member {
	r := reconciliation{target: target, targetEpoch: c.assignmentEpoch(), owned: owned, told: told, again: c.again, owner: c.owner}
	if c.epoch > r.targetEpoch { // the target is older than the subscriptions
		r.unsubscribed = c.unsubscribed(m)
	}
	next := r.next(m)
	if m.state == unrevoked && next.state != unrevoked {
		c.g.History().WaitedFor(m.id)
	}
	if next != m || c.fresh(m.id) {
		c.g.put(offsets.KeyCurrentAssignmentOfMember, m.id, next.record())
	}
	return next
}

// unsubscribed returns a function that reports whether m does not subscribe to the topic of a
// partition. For unknown topics, such as deleted ones, it returns false: the next target removes
// them.
func (c *change) unsubscribed(m *member) func(partition) bool {
	topics := c.topicsOf(m)
	return func(p partition) bool {
		name, ok := c.g.topics.Name(p.topic)
		if !ok {
			return false
		}
		_, subscribed := slices.BinarySearch(topics, name)
		return !subscribed
	}
}

// removeMember emits the tombstones of a member. Kafka: the order matters.
func (g *Group) removeMember(id string) {
	for _, t := range []offsets.KeyType{offsets.KeyCurrentAssignmentOfMember, offsets.KeyTargetAssignmentMember, offsets.KeyConsumerMember} {
		g.emit(offsets.Record{Key: g.key(t, id)})
	}
}

// subscribe stores m's subscription. It begins a new group epoch if that, or a topic of the group,
// has changed.
func (c *change) subscribe(before, m *member) error {
	g := c.g
	isNew := g.members[m.id] == nil && c.replaced == nil
	if isNew || !m.subscription.equal(&before.subscription) {
		v := offsets.ConsumerMemberValue(m.subscription)
		g.put(offsets.KeyConsumerMember, m.id, &v)
	}
	bump := !m.sameTopics(&before.subscription)
	if g.epoch == 0 {
		c.epoch = 1
	}
	version, err := c.resolve(&before.subscription, &m.subscription)
	if err != nil {
		return err
	}
	hash := g.hash
	if bump || len(c.patterns) > 0 || g.topics != nil && g.checked != g.topics.Version {
		hash = g.topics.hash(c.topics(&before.subscription, &m.subscription))
		compared := g.topics
		g.after = append(g.after, func() { g.checked, g.compared = version, compared })
	}
	// An expression that a former event left unmatched may match only topics of other members.
	if bump || len(c.patterns) > 0 || hash != g.hash {
		c.epoch++
	}
	if c.epoch != g.epoch {
		switch {
		case c.replaced != nil:
			g.note(protocol.Cause{Kind: protocol.CauseStaticReplaced, Reason: c.reason}, m)
		case isNew:
			g.note(protocol.Cause{Kind: protocol.CauseJoined, Reason: c.reason}, m)
		case bump || hash == g.hash:
			g.note(protocol.Cause{Kind: protocol.CauseSubscription, Reason: c.reason}, m)
		default:
			g.noteTopics(c.topics(&before.subscription, &m.subscription))
		}
		g.put(offsets.KeyConsumerGroup, "", &offsets.ConsumerGroupValue{Epoch: c.epoch, MetadataHash: hash})
	}
	return nil
}

// topics returns the existing topics, sorted, that the group subscribes to after one subscription
// replaces another. Both may be nil. Members may name a million topics that do not exist: these are
// neither copied nor sorted.
func (c *change) topics(before, after *subscription) []string {
	g := c.g
	if g.topics == nil {
		return nil
	}
	less := make(map[string]int)
	if before != nil {
		for _, t := range before.Topics {
			less[t]++
		}
	}
	all := make(map[string]bool)
	if len(g.names) < len(g.topics.ByName) {
		for t, n := range g.names {
			if _, exists := g.topics.ByName[t]; exists && n > less[t] {
				all[t] = true
			}
		}
	} else {
		for t := range g.topics.ByName {
			if g.names[t] > less[t] {
				all[t] = true
			}
		}
	}
	if after != nil {
		for _, t := range after.Topics {
			if _, exists := g.topics.ByName[t]; exists {
				all[t] = true
			}
		}
	}
	for expr, p := range g.patterns {
		if c.patterns[expr] == nil && !c.dropped[expr] {
			p.addTo(all)
		}
	}
	for _, p := range c.patterns {
		p.addTo(all)
	}
	return slices.Sorted(maps.Keys(all))
}

// hash returns a number that changes with the topics of these names; 0 if none exists. It differs
// from Kafka's: a group that moves to or from Kafka begins one more epoch.
func (t *Topics) hash(names []string) int64 {
	if t == nil {
		return 0
	}
	h, some := xxhash.New(), false
	for _, name := range names {
		topic, ok := t.ByName[name]
		if !ok {
			continue
		}
		some = true
		h.WriteString(name)
		h.Write(topic.ID[:])
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(topic.Partitions))
		h.Write(n[:])
	}
	if !some {
		return 0
	}
	return int64(h.Sum64())
}

// assign returns the target of m. It computes the targets of all members if the group has a newer
// epoch and the assignment interval has passed.
func (c *change) assign(m *member) ([]partition, error) {
	g := c.g
	due := g.assignmentEpoch == 0 || c.now.UnixMilli() >= g.assignedMs+g.timeouts().Assignment.Milliseconds() || c.now.UnixMilli() < g.assignedMs
	if c.epoch <= g.assignmentEpoch || !due {
		if c.replaced != nil {
			return g.target[c.replaced.id], nil
		}
		return g.target[m.id], nil
	}
	members := slices.DeleteFunc(g.inOrder(), func(o *member) bool { return o.id == m.id || o == c.replaced })
	members = append(members, m)
	slices.SortFunc(members, func(a, b *member) int { return cmp.Compare(a.id, b.id) })
	targets, err := c.compute(members)
	if err != nil {
		return nil, err
	}
	for _, o := range members {
		old, had := c.target(o)
		if !had || !slices.Equal(old, targets[o.id]) {
			g.put(offsets.KeyTargetAssignmentMember, o.id, &offsets.TargetAssignmentMemberValue{Partitions: byTopic(targets[o.id])})
		}
	}
	g.put(offsets.KeyTargetAssignment, "", &offsets.TargetAssignmentValue{AssignmentEpoch: c.epoch, TimestampMs: c.now.UnixMilli()})
	c.assigned = true
	return targets[m.id], nil
}

// unreleasedRetry is the retry delay of a member that waits for others to release partitions, or
// for matches of expressions.
const unreleasedRetry = 20 * time.Millisecond

// retryAfter returns the delay after which m should send a heartbeat; 0 for the usual interval.
func (c *change) retryAfter(m *member) time.Duration {
	g := c.g
	switch {
	case c.partial:
		return unreleasedRetry
	case c.epoch > c.assignmentEpoch():
		due := time.UnixMilli(g.assignedMs).Add(g.timeouts().Assignment)
		return max(due.Sub(c.now), time.Millisecond)
	case m.state == unreleased:
		return unreleasedRetry
	}
	return 0
}

// target returns the present target of m.
func (c *change) target(m *member) ([]partition, bool) {
	if c.replaced != nil && m.InstanceID == c.replaced.InstanceID {
		t, had := c.g.target[c.replaced.id]
		return t, had
	}
	t, had := c.g.target[m.id]
	return t, had
}

// compute runs the assignor that most members name.
func (c *change) compute(members []*member) (map[string][]partition, error) {
	g := c.g
	in := make([]assignor.Member, 0, len(members))
	partitions := make(map[string]int32)
	for _, m := range members {
		am := assignor.Member{ID: m.id, InstanceID: m.InstanceID}
		am.Rack, am.Generation = m.RackID, c.epoch
		for _, name := range c.topicsOf(m) {
			if t, ok := g.topics.byName(name); ok {
				am.Topics = append(am.Topics, name)
				partitions[name] = t.Partitions
			}
		}
		target, _ := c.target(m)
		for _, p := range target {
			if name, ok := g.topics.Name(p.topic); ok {
				am.Owned = append(am.Owned, record.TopicPartition{Topic: name, Partition: p.number})
			}
		}
		in = append(in, am)
	}
	a := c.assignor(members)
	shares, err := a.Assign(in, partitions)
	if err != nil {
		return nil, fmt.Errorf("group: assignor %s: %w", a.Name(), err)
	}
	return g.targets(a, in, shares)
}

func (t *Topics) byName(name string) (Topic, bool) {
	if t == nil {
		return Topic{}, false
	}
	topic, ok := t.ByName[name]
	return topic, ok
}

// targets validates an assignor's result and converts it.
func (g *Group) targets(a assignor.Assignor, members []assignor.Member, shares map[string][]record.TopicPartition) (map[string][]partition, error) {
	out := make(map[string][]partition, len(members))
	taken := make(map[record.TopicPartition]bool)
	for _, m := range members {
		subscribed := make(map[string]bool, len(m.Topics))
		for _, t := range m.Topics {
			subscribed[t] = true
		}
		share := make([]partition, 0, len(shares[m.ID]))
		for _, tp := range shares[m.ID] {
			topic, ok := g.topics.byName(tp.Topic)
			if !ok || tp.Partition < 0 || tp.Partition >= topic.Partitions || taken[tp] || !subscribed[tp.Topic] {
				return nil, fmt.Errorf("group: assignor %s: %w: %s-%d for %s", a.Name(), assignor.ErrNoAssignment, tp.Topic, tp.Partition, m.ID)
			}
			taken[tp] = true
			share = append(share, partition{topic.ID, tp.Partition})
		}
		slices.SortFunc(share, comparePartitions)
		out[m.ID] = share
	}
	return out, nil
}

// assignor returns the assignor that most members name, or the first configured one if no member
// names any. In a tie the first by name wins; in Kafka the choice is random.
func (c *change) assignor(members []*member) assignor.Assignor {
	votes := make(map[string]int)
	for _, m := range members {
		if m.Assignor != "" {
			votes[m.Assignor]++
		}
	}
	best := c.g.cfg.Assignors[0]
	most := 0
	for _, name := range slices.Sorted(maps.Keys(votes)) {
		for _, a := range c.g.cfg.Assignors {
			if a.Name() == name && votes[name] > most {
				best, most = a, votes[name]
			}
		}
	}
	return best
}
