// Package assignortest checks implementations of assignor.Assignor.
package assignortest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
)

// T is the part of *testing.T that Run needs.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Run checks that a fulfils the interface assignor.Assignor: every partition of a subscribed topic
// has exactly one owner among the subscribers, and the result has no other partitions. The result
// depends only on the input, not on its order, and the arguments are not changed. Invalid input
// must not cause a panic: claims of partitions that do not exist, claims of one partition by
// several members, garbage in the user data. A cooperative assignor must never assign a partition
// that another member holds, and must reach a stable assignment.
//
// The inputs are random; seed 0 is replaced by a fixed one, and a failure prints the seed of its
// input.
func Run(t T, a assignor.Assignor, seed uint64) {
	t.Helper()
	if a.Name() == "" {
		t.Fatalf("an assignor needs a name")
	}
	if seed == 0 {
		seed = 1
	}
	for i := range uint64(300) {
		c := newCase(seed + i)
		if err := c.check(a); err != nil {
			t.Fatalf("%s, seed %d: %v\nmembers: %+v\npartitions: %v", a.Name(), seed+i, err, c.members, c.partitions)
		}
	}
	if out, err := a.Assign(nil, map[string]int32{"a": 3}); err != nil || len(out) > 0 {
		t.Fatalf("%s: a group without members gave %v, %v", a.Name(), out, err)
	}
}

// A testCase is one group over several rounds. In each, members claim the partitions that they got
// in the round before.
type testCase struct {
	rnd        *rand.Rand
	members    []assignor.Member
	partitions map[string]int32
	generation int32
}

func newCase(seed uint64) *testCase {
	c := &testCase{rnd: rand.New(rand.NewPCG(seed, 0)), partitions: make(map[string]int32)}
	for i := range 1 + c.rnd.IntN(4) {
		c.partitions[fmt.Sprintf("topic-%d", i)] = int32(c.rnd.IntN(9)) // 0: does not exist
	}
	for range 1 + c.rnd.IntN(6) {
		c.join()
	}
	return c
}

func (c *testCase) join() {
	m := assignor.Member{ID: fmt.Sprintf("member-%d", c.rnd.IntN(1_000_000)), Subscription: assignor.Subscription{Version: 3, Generation: -1}}
	if c.rnd.IntN(4) == 0 {
		m.InstanceID = "instance-" + m.ID
	}
	for _, topic := range slices.Sorted(maps.Keys(c.partitions)) {
		if c.rnd.IntN(3) > 0 {
			m.Topics = append(m.Topics, topic)
		}
	}
	c.members = append(c.members, m)
}

// check runs a few rounds in which members join and leave and topics grow. In the last round
// members claim partitions that they do not own.
func (c *testCase) check(a assignor.Assignor) error {
	for round := range 6 {
		if err := c.settle(a); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		switch c.rnd.IntN(3) {
		case 0:
			c.join()
		case 1:
			if len(c.members) > 1 {
				c.members = slices.Delete(c.members, 0, 1)
			}
		default:
			c.partitions["topic-0"]++
		}
	}
	for i := range c.members {
		m := &c.members[i]
		m.Owned = []record.TopicPartition{{Topic: "topic-0", Partition: 0}, {Topic: "topic-0", Partition: -1}, {Topic: "ghost", Partition: 3}}
		m.Generation = int32(c.rnd.IntN(3)) - 1
		m.UserData = []byte{0, 0, 0, byte(c.rnd.IntN(3)), 255}
	}
	_, err := c.round(a)
	return err
}

// settle runs rounds until every partition has an owner. Only a cooperative assignor needs more
// than one.
func (c *testCase) settle(a assignor.Assignor) error {
	for range 4 {
		held, err := c.round(a)
		if err != nil {
			return err
		}
		if held == 0 {
			return nil
		}
	}
	return fmt.Errorf("partitions still held back after four rounds")
}

// round runs the assignor once, checks its result and makes it the members' owned partitions. It
// returns the number of partitions without an owner.
func (c *testCase) round(a assignor.Assignor) (held int, err error) {
	c.generation++
	before, partitions := cloneMembers(c.members), maps.Clone(c.partitions)
	out, err := a.Assign(c.members, c.partitions)
	if err != nil {
		return 0, err
	}
	if fmt.Sprint(before) != fmt.Sprint(c.members) || !maps.Equal(partitions, c.partitions) {
		return 0, fmt.Errorf("the arguments were changed")
	}
	shuffled := cloneMembers(c.members)
	c.rnd.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	again, err := a.Assign(shuffled, c.partitions)
	if err != nil {
		return 0, err
	}
	for _, m := range c.members {
		if !slices.Equal(sorted(out[m.ID]), sorted(again[m.ID])) {
			return 0, fmt.Errorf("the order of the members matters: %s got %v and %v", m.ID, out[m.ID], again[m.ID])
		}
	}
	if held, err = c.checkOwners(out, assignor.AllCooperative([]assignor.Assignor{a})); err != nil {
		return 0, err
	}
	for i := range c.members {
		m := &c.members[i]
		m.Owned, m.Generation = sorted(out[m.ID]), c.generation
		if u, ok := a.(assignor.UserDataAssignor); ok {
			m.UserData = u.SubscriptionUserData(m.Owned, c.generation)
		}
	}
	return held, nil
}

func (c *testCase) checkOwners(out map[string][]record.TopicPartition, cooperative bool) (held int, err error) {
	owner, holder := make(map[record.TopicPartition]string), make(map[record.TopicPartition]string)
	subscribed, named := make(map[string]bool), 0
	for _, m := range c.members {
		for _, tp := range m.Owned {
			holder[tp] += m.ID
		}
	}
	for _, m := range c.members {
		if _, ok := out[m.ID]; ok {
			named++
		}
		for _, topic := range m.Topics {
			subscribed[topic] = true
		}
		for _, tp := range out[m.ID] {
			switch other, taken := owner[tp]; {
			case taken:
				return 0, fmt.Errorf("%v was given to %s and to %s", tp, other, m.ID)
			case tp.Partition < 0 || tp.Partition >= c.partitions[tp.Topic]:
				return 0, fmt.Errorf("%s got %v, which does not exist", m.ID, tp)
			case !slices.Contains(m.Topics, tp.Topic):
				return 0, fmt.Errorf("%s got %v, which it is not subscribed to", m.ID, tp)
			case cooperative && holder[tp] != "" && !slices.Contains(m.Owned, tp):
				return 0, fmt.Errorf("%s got %v while %s holds it", m.ID, tp, holder[tp])
			}
			owner[tp] = m.ID
		}
	}
	if named != len(out) {
		return 0, fmt.Errorf("partitions assigned to an unknown member: %v", out)
	}
	for topic := range subscribed {
		for p := range c.partitions[topic] {
			tp := record.TopicPartition{Topic: topic, Partition: p}
			if _, ok := owner[tp]; !ok {
				if !cooperative || holder[tp] == "" {
					return 0, fmt.Errorf("no member got %v", tp)
				}
				held++
			}
		}
	}
	return held, nil
}

func sorted(tps []record.TopicPartition) []record.TopicPartition {
	return slices.SortedFunc(slices.Values(tps), func(a, b record.TopicPartition) int {
		if a.Topic != b.Topic {
			if a.Topic < b.Topic {
				return -1
			}
			return 1
		}
		return int(a.Partition) - int(b.Partition)
	})
}

func cloneMembers(members []assignor.Member) []assignor.Member {
	out := slices.Clone(members)
	for i := range out {
		out[i].Topics, out[i].Owned, out[i].UserData = slices.Clone(out[i].Topics), slices.Clone(out[i].Owned), slices.Clone(out[i].UserData)
	}
	return out
}
