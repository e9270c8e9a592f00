// Package assignor assigns the partitions of topics to the members of a group. It has Kafka's
// Range, RoundRobin, Sticky, CooperativeSticky and Uniform, and the interface of custom assignors.
//
// Use it to set consumer.Config.Assignors, or to write an assignor. The group leader runs an
// Assignor over the Subscriptions of the members and distributes Assignments. Both are in the
// format of Kafka's ConsumerProtocol, version 3. Package assignortest checks assignors.
package assignor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/stratalog/strata/internal/wire"
	"github.com/stratalog/strata/record"
)

// An Assignor assigns partitions to the members of a group. Only the group leader runs it.
// Implementations are pure and safe for concurrent use; package assignortest checks one.
type Assignor interface {
	// Name is the name that members vote for; all members of a group need an assignor of the same
	// name. Kafka: partition.assignment.strategy.
	Name() string

	// Assign assigns every partition of a subscribed topic to exactly one of the topic's
	// subscribers. A Cooperative assignor may leave out partitions that their owner has to give up
	// first. partitions holds the partition count of each existing topic. Members without
	// partitions may be left out of the result. The arguments are not kept and not changed.
	Assign(members []Member, partitions map[string]int32) (map[string][]record.TopicPartition, error)
}

// A CooperativeAssignor never assigns a partition to a new owner before the old one gave it up, so
// that members may keep reading during a rebalance (KIP-429). An Assignor without this method, or
// with a false result, is eager: members give up all partitions before they join.
type CooperativeAssignor interface {
	Assignor
	Cooperative() bool
}

// A UserDataAssignor adds its own bytes to each member's subscription.
type UserDataAssignor interface {
	Assignor
	// SubscriptionUserData returns the bytes for a member whose last assignment was owned in the
	// given generation (-1: none).
	SubscriptionUserData(owned []record.TopicPartition, generation int32) []byte
}

// A Member is a group member in the input of an Assignor.
type Member struct {
	ID         string
	InstanceID string // "": dynamic member
	Subscription
}

// Protocol is one assignor that a member supports: its name and the member's subscription for it.
// The coordinator does not parse Metadata, except for the topics of consumer groups.
type Protocol struct {
	Name     string
	Metadata []byte
}

// A JoinMember is a group member in the join response of the group leader.
type JoinMember struct {
	MemberID, InstanceID string
	Metadata             []byte // the member's subscription for the chosen protocol
}

// ErrNoAssignment is returned when an Assignor violates its interface.
var ErrNoAssignment = errors.New("group: invalid assignment")

// ErrMalformed is matched by errors for bytes that are not a subscription or assignment.
var ErrMalformed = wire.ErrMalformed

// AllCooperative reports whether members with these assignors may keep partitions during a
// rebalance. As in Kafka, all of the assignors must support it.
func AllCooperative(assignors []Assignor) bool {
	for _, a := range assignors {
		if c, ok := a.(CooperativeAssignor); !ok || !c.Cooperative() {
			return false
		}
	}
	return len(assignors) > 0
}

// SubscriptionFor returns the metadata of a member's Protocol for a. owned are the partitions that
// the member holds while it joins, generation the one in which it got them (-1: it has none). An
// eager assignor sees owned only if it stores them in user data, as Sticky does; owned is then the
// member's last assignment.
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

// AssignAll does the group leader's work: it decodes the members' subscriptions, runs a, and
// returns SyncRequest.Assignments, with an entry for every member. partitions has the partition
// count of each existing topic. It returns an error matching ErrMalformed for an unreadable
// subscription, and ErrNoAssignment if the assignor names an unknown member, or assigns a partition
// to two members or to a member that is not subscribed.
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
