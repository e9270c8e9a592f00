package sharing

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
)

// states are the partitions with initialised state, by topic id. The map is immutable: with and
// without return changed copies.
type states map[[16]byte]topicStates

// topicStates are a topic's partitions with initialised state, sorted.
type topicStates struct {
	name       string
	partitions []int32
}

func (s states) has(p partition) bool {
	_, ok := slices.BinarySearch(s[p.topic].partitions, p.number)
	return ok
}

// with returns s with the partitions of add. more is false if s has all of them already.
func (s states) with(add []offsets.ShareStatesTopic) (all states, more bool) {
	all = maps.Clone(s)
	for _, t := range add {
		ps := slices.Sorted(slices.Values(slices.Concat(all[t.TopicID].partitions, t.Partitions)))
		if ps = slices.Compact(ps); len(ps) > len(all[t.TopicID].partitions) {
			all[t.TopicID], more = topicStates{t.Topic, ps}, true
		}
	}
	return all, more
}

func (s states) without(topic [16]byte) states {
	all := maps.Clone(s)
	delete(all, topic)
	return all
}

// list returns s, sorted by topic name.
func (s states) list() []offsets.ShareStatesTopic {
	out := make([]offsets.ShareStatesTopic, 0, len(s))
	for id, t := range s {
		out = append(out, offsets.ShareStatesTopic{TopicID: id, Topic: t.name, Partitions: t.partitions})
	}
	slices.SortFunc(out, func(a, b offsets.ShareStatesTopic) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), slices.Compare(a.TopicID[:], b.TopicID[:]))
	})
	return out
}

// missing returns the partitions of topics that are not in s.
func (s states) missing(topics *modern.Topics, names []string) (out []offsets.ShareStatesTopic) {
	for _, name := range names {
		t, ok := topics.ByName[name]
		if !ok {
			continue
		}
		add := offsets.ShareStatesTopic{TopicID: t.ID, Topic: name}
		for p := range t.Partitions {
			if !s.has(partition{t.ID, p}) {
				add.Partitions = append(add.Partitions, p)
			}
		}
		if len(add.Partitions) > 0 {
			out = append(out, add)
		}
	}
	return out
}

// Missing returns the partitions whose state must be initialised before they can be assigned to the
// sender of a heartbeat: partitions of its subscribed topics that are not in the group's list.
// topics is a snapshot. There are none if the group will reject the heartbeat. g may be nil.
func Missing(g *Group, topics *modern.Topics, r *protocol.ShareHeartbeatRequest) []offsets.ShareStatesTopic {
	switch {
	case g == nil && r.MemberEpoch != joinEpoch:
		return nil
	case g == nil:
		return states{}.missing(topics, r.SubscribedTopics)
	case g.members[r.MemberID] == nil && (r.MemberEpoch != joinEpoch || len(g.members) >= g.cfg.MaxSize):
		return nil
	}
	return g.states.missing(topics, r.SubscribedTopics)
}

// States returns the partitions with initialised state, sorted by topic name. They must not be
// written to.
func (g *Group) States() []offsets.ShareStatesTopic { return g.states.list() }

// EventInitialized reports that the state of partitions was initialised. Members get them with
// their next heartbeat. If Create is set, it creates the group if there is none. The reply has only
// an error.
type EventInitialized struct {
	States []offsets.ShareStatesTopic
	Create bool
	To     machine.Ticket
}

// Refuse returns the answer of a group of another kind.
func (e EventInitialized) Refuse() machine.Reply {
	return machine.Reply{To: e.To, Err: protocol.ErrGroupNotFound}
}

func (e EventInitialized) step(g *Group) {
	if g.epoch == 0 {
		if !e.Create {
			g.reply(e.To, nil, protocol.ErrGroupNotFound)
			return
		}
		g.put(offsets.KeyShareGroup, "", &offsets.ShareGroupValue{Epoch: 1})
	}
	g.initialize(e.States)
	g.reply(e.To, nil, nil)
}

// EventForget reports that all states of a topic are deleted. The reply has only an error.
type EventForget struct {
	TopicID [16]byte
	To      machine.Ticket
}

// Refuse returns the answer of a group of another kind.
func (e EventForget) Refuse() machine.Reply {
	return machine.Reply{To: e.To, Err: protocol.ErrGroupNotFound}
}

func (e EventForget) step(g *Group) {
	g.forget(e.TopicID)
	g.reply(e.To, nil, nil)
}

// initialize emits the group's list of partitions with initialised state, extended by add.
func (g *Group) initialize(add []offsets.ShareStatesTopic) {
	if next, more := g.states.with(add); more {
		g.put(offsets.KeyShareStates, "", &offsets.ShareStatesValue{Initialized: next.list()})
	}
}

// forget emits the group's list of partitions with initialised state without a topic.
func (g *Group) forget(topic [16]byte) {
	if _, ok := g.states[topic]; ok {
		g.put(offsets.KeyShareStates, "", &offsets.ShareStatesValue{Initialized: g.states.without(topic).list()})
	}
}
