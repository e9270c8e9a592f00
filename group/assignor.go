package group

import (
	"cmp"
	"slices"

	"github.com/stratalog/strata/record"
)

// An Assignor shares partitions out among the members of a group. It is run by the group leader only.
// Implementations are pure and safe for concurrent use; package assignortest checks one.
type Assignor interface {
	// Name is what members vote for; all members of a group need an assignor of the same name. Kafka: partition.assignment.strategy.
	Name() string

	// Assign gives every partition of a subscribed topic to exactly one of the members subscribed to it (a Cooperative
	// assignor may hold back partitions whose owner has to give them up first). partitions holds the partition count of each topic
	// that exists. Members without partitions may be left out of the result. The arguments are not kept and not changed.
	Assign(members []Member, partitions map[string]int32) (map[string][]record.TopicPartition, error)
}

// A CooperativeAssignor never gives a partition to a new owner before the old one gave it up, so members may keep reading while
// they rebalance (KIP-429). An Assignor without this method, or that returns false, is eager: members give up everything before they join.
type CooperativeAssignor interface {
	Assignor
	Cooperative() bool
}

// A UserDataAssignor adds bytes of its own to each member's subscription.
type UserDataAssignor interface {
	Assignor
	// SubscriptionUserData returns what a member adds that was assigned owned in generation (-1: it has no assignment).
	SubscriptionUserData(owned []record.TopicPartition, generation int32) []byte
}

// A Member is a group member as an Assignor sees it.
type Member struct {
	ID         string
	InstanceID string // "": dynamic member
	Subscription
}

// Cooperative reports whether members that use any of the assignors may keep partitions during a rebalance: all of them must allow it,
// as in Kafka.
func Cooperative(assignors ...Assignor) bool {
	for _, a := range assignors {
		if c, ok := a.(CooperativeAssignor); !ok || !c.Cooperative() {
			return false
		}
	}
	return len(assignors) > 0
}

// Protocols returns what a member puts into JoinRequest.Protocols: its subscription for each of its assignors, in order of preference.
// last is the assignment it had in sub.Generation, for assignors that remember it in user data. sub.Owned is what it holds while it
// joins; eager members hold nothing.
func Protocols(assignors []Assignor, sub Subscription, last []record.TopicPartition) []Protocol {
	out := make([]Protocol, 0, len(assignors))
	for _, a := range assignors {
		s := sub
		if u, ok := a.(UserDataAssignor); ok {
			s.UserData = u.SubscriptionUserData(last, sub.Generation)
		}
		out = append(out, Protocol{Name: a.Name(), Metadata: s.AppendTo(nil)})
	}
	return out
}

// ParseMembers decodes what the group leader got in JoinResponse.Members. It returns an error matching ErrMalformed.
func ParseMembers(members []JoinMember) ([]Member, error) {
	out := make([]Member, 0, len(members))
	for _, m := range members {
		s, err := ParseSubscription(m.Metadata)
		if err != nil {
			return nil, err
		}
		out = append(out, Member{ID: m.MemberID, InstanceID: m.InstanceID, Subscription: s})
	}
	return out, nil
}

// SubscribedTopics returns the topics that at least one of members subscribes to, sorted.
func SubscribedTopics(members []Member) []string {
	var topics []string
	for i := range members {
		topics = append(topics, members[i].Topics...)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// Assign runs a and returns what the group leader puts into SyncRequest.Assignments; every member is in it.
// It returns an error matching ErrNoAssignment if the assignor names an unknown member or gives a partition to two members.
func Assign(a Assignor, members []Member, partitions map[string]int32) (map[string][]byte, error) {
	shares, err := a.Assign(members, partitions)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(members))
	taken, named := make(map[record.TopicPartition]bool), 0
	for _, m := range members {
		share := shares[m.ID]
		if _, ok := shares[m.ID]; ok {
			named++
		}
		for _, tp := range share {
			if taken[tp] || !slices.Contains(m.Topics, tp.Topic) {
				return nil, ErrNoAssignment
			}
			taken[tp] = true
		}
		out[m.ID] = Assignment{Partitions: share}.AppendTo(nil)
	}
	if named != len(shares) {
		return nil, ErrNoAssignment
	}
	return out, nil
}

// byInstanceThenID is the member order of Range and RoundRobin: static members by instance id, then dynamic ones by member id.
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

// subscribersByTopic returns for each existing subscribed topic its subscribers, in the order of members; a topic named twice by one member counts once.
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
