// Package assignor shares the partitions of topics out among the members of a group: Kafka's Range,
// RoundRobin, Sticky and CooperativeSticky, and what an assignor of one's own has to implement.
//
// The group leader runs an Assignor over the Subscriptions that members brought
// along, and hands out Assignments: both are Kafka's ConsumerProtocol, version 3.
// Package assignortest checks assignors.
package assignor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/stratalog/strata/internal/wire"
	"github.com/stratalog/strata/record"
)

// An Assignor shares partitions out among the members of a group. It is run by the group leader
// only. Implementations are pure and safe for concurrent use; package assignortest checks one.
type Assignor interface {
	// Name is what members vote for; all members of a group need an assignor of the same name.
	// Kafka: partition.assignment.strategy.
	Name() string

	// Assign gives every partition of a subscribed topic to exactly one of the members subscribed
	// to it (a Cooperative assignor may hold back partitions whose owner has to give them up
	// first). partitions holds the partition count of each topic that exists. Members without
	// partitions may be left out of the result. The arguments are not kept and not changed.
	Assign(members []Member, partitions map[string]int32) (map[string][]record.TopicPartition, error)
}

// A CooperativeAssignor never gives a partition to a new owner before the old one gave it up, so
// members may keep reading while they rebalance (KIP-429). An Assignor without this method, or that
// returns false, is eager: members give up everything before they join.
type CooperativeAssignor interface {
	Assignor
	Cooperative() bool
}

// A UserDataAssignor adds bytes of its own to each member's subscription.
type UserDataAssignor interface {
	Assignor
	// SubscriptionUserData returns what a member adds that was assigned owned in
	// generation (-1: it has no assignment).
	SubscriptionUserData(owned []record.TopicPartition, generation int32) []byte
}

// A Member is a group member as an Assignor sees it.
type Member struct {
	ID         string
	InstanceID string // "": dynamic member
	Subscription
}

// A Protocol is one way to share partitions that a member can speak: an assignor's name
// and the member's subscription for it. The coordinator does not look into Metadata except
// to know the topics of consumer groups.
type Protocol struct {
	Name     string
	Metadata []byte
}

// A JoinMember is a member as the group leader sees it.
type JoinMember struct {
	MemberID, InstanceID string
	Metadata             []byte // its subscription for the chosen protocol
}

// ErrNoAssignment reports an Assignor that broke its promises.
var ErrNoAssignment = errors.New("group: invalid assignment")

// ErrMalformed is matched by the errors of bytes that are no subscription or assignment.
var ErrMalformed = wire.ErrMalformed

// AllCooperative reports whether members that use these assignors may keep partitions during a
// rebalance: all of them must allow it, as in Kafka.
func AllCooperative(assignors []Assignor) bool {
	for _, a := range assignors {
		if c, ok := a.(CooperativeAssignor); !ok || !c.Cooperative() {
			return false
		}
	}
	return len(assignors) > 0
}

// SubscriptionFor returns the metadata of a member's Protocol for a. owned is what the member holds
// while it joins, generation when it got that (-1: it holds nothing). An eager assignor sees owned
// only if it remembers it in user data, as Sticky does, and is given what the member held last.
func SubscriptionFor(a Assignor, topics []string, owned []record.TopicPartition, generation int32, rack string) []byte {
	s := Subscription{Topics: topics, Generation: generation, Rack: rack}
	if AllCooperative([]Assignor{a}) {
		s.Owned = owned
	}
	if u, ok := a.(UserDataAssignor); ok {
		s.UserData = u.SubscriptionUserData(owned, generation)
	}
	return s.AppendTo(nil)
}

// AssignAll is the group leader's work: it decodes the members' subscriptions, runs a, and
// returns SyncRequest.Assignments; every member is in it. partitions has the partition count of
// each topic that exists. It returns an error matching ErrMalformed for a subscription that
// cannot be read, and ErrNoAssignment if the assignor names an unknown member, gives a partition
// to two members, or to one that is not subscribed.
func AssignAll(a Assignor, members []JoinMember, partitions map[string]int32) (map[string][]byte, error) {
	decoded := make([]Member, 0, len(members))
	for _, m := range members {
		s, err := ParseSubscription(m.Metadata)
		if err != nil {
			return nil, fmt.Errorf("subscription of %s: %w", m.MemberID, err)
		}
		decoded = append(decoded, Member{ID: m.MemberID, InstanceID: m.InstanceID, Subscription: s})
	}
	shares, err := a.Assign(decoded, partitions)
	if err != nil {
		return nil, fmt.Errorf("assignor %s: %w", a.Name(), err)
	}
	out := make(map[string][]byte, len(members))
	taken, named := make(map[record.TopicPartition]bool), 0
	for _, m := range decoded {
		share, ok := shares[m.ID]
		if ok {
			named++
		}
		for _, tp := range share {
			if taken[tp] || !slices.Contains(m.Topics, tp.Topic) {
				return nil, fmt.Errorf("assignor %s: %w: %s-%d for %s", a.Name(), ErrNoAssignment, tp.Topic, tp.Partition, m.ID)
			}
			taken[tp] = true
		}
		out[m.ID] = Assignment{Partitions: share}.AppendTo(nil)
	}
	if named != len(shares) {
		return nil, fmt.Errorf("assignor %s: %w: a member that does not exist", a.Name(), ErrNoAssignment)
	}
	return out, nil
}

// byInstanceThenID is the member order of Range and RoundRobin: static members by
// instance id, then dynamic ones by member id.
func byInstanceThenID(a, b *Member) int {
	switch {
	case a.InstanceID != "" && b.InstanceID != "":
		return cmp.Or(cmp.Compare(a.InstanceID, b.InstanceID), cmp.Compare(a.ID, b.ID))
	case a.InstanceID != "":
		return -1
	case b.InstanceID != "":
		return 1
	}
	return cmp.Compare(a.ID, b.ID)
}

func byID(a, b *Member) int { return cmp.Compare(a.ID, b.ID) }

// sorted returns pointers to members in the given order.
func sorted(members []Member, order func(a, b *Member) int) []*Member {
	out := make([]*Member, len(members))
	for i := range members {
		out[i] = &members[i]
	}
	slices.SortFunc(out, order)
	return out
}

// subscribersByTopic returns for each existing subscribed topic its subscribers, in the order of
// members; a topic named twice by one member counts once.
func subscribersByTopic(members []*Member, partitions map[string]int32) (topics []string, subscribers map[string][]*Member) {
	subscribers = make(map[string][]*Member)
	for _, m := range members {
		for _, t := range m.Topics {
			if partitions[t] <= 0 {
				continue
			}
			s := subscribers[t]
			if len(s) == 0 {
				topics = append(topics, t)
			}
			if len(s) == 0 || s[len(s)-1] != m {
				subscribers[t] = append(s, m)
			}
		}
	}
	slices.Sort(topics)
	return topics, subscribers
}
