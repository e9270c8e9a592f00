package streaming

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/internal/offsets"
)

// shareOut runs the assignor for perProcess[i] members in process i.
func shareOut(perProcess []int, before map[string]*target, tasks map[string]int32, stateful map[string]bool, replicas int) map[string]*target {
	v := &offsets.StreamsTopologyValue{}
	for id := range tasks {
		s := offsets.StreamsSubtopology{ID: id}
		if stateful[id] {
			s.Changelogs = []offsets.StreamsTopic{{Name: "c"}}
		}
		v.Subtopologies = append(v.Subtopologies, s)
	}
	members := map[string]*member{}
	for p, n := range perProcess {
		for range n {
			m := newMember(fmt.Sprintf("m%d", len(members)))
			m.ProcessID = fmt.Sprint("p", p)
			members[m.id] = m
		}
	}
	return assign(members, before, newTopology(v), tasks, replicas)
}

// A sharedOut is the input of the assignor in a test.
type sharedOut struct {
	perProcess []int
	tasks      map[string]int32
	replicas   int
}

var stateful = map[string]bool{"1": true, "2": true}

func drawSharedOut(t *rapid.T, label string) sharedOut {
	return sharedOut{
		perProcess: rapid.SliceOfN(rapid.IntRange(1, 3), 1, 4).Draw(t, label+" processes"),
		tasks:      map[string]int32{"0": rapid.Int32Range(1, 5).Draw(t, label+" 0"), "1": rapid.Int32Range(1, 5).Draw(t, label+" 1"), "2": rapid.Int32Range(0, 3).Draw(t, label+" 2")},
		replicas:   rapid.IntRange(0, 2).Draw(t, label+" replicas"),
	}
}

// assign runs the assignor and checks its result.
func (s sharedOut) assign(t require.TestingT, before map[string]*target) map[string]*target {
	out := shareOut(s.perProcess, before, s.tasks, stateful, s.replicas)
	actives, copies, at := map[task]int{}, map[task]int{}, map[string]bool{}
	total, most, member := 0, 0, 0
	for p, n := range s.perProcess {
		for range n {
			share := out[fmt.Sprint("m", member)]
			require.NotNil(t, share)
			require.Empty(t, share[warmup])
			member++
			most = max(most, len(share[active]))
			for r := range share {
				for _, x := range share[r] {
					here := fmt.Sprint(p, x)
					require.False(t, at[here], "%v is twice at a process", x)
					at[here] = true
					if role(r) == active {
						actives[x]++
					} else {
						copies[x]++
					}
				}
			}
		}
	}
	for id, n := range s.tasks {
		total += int(n)
		for p := range n {
			require.Equal(t, 1, actives[task{id, p}])
			want := 0
			if stateful[id] {
				want = min(s.replicas, len(s.perProcess)-1)
			}
			require.Equal(t, want, copies[task{id, p}], "copies of %v", task{id, p})
		}
	}
	require.Len(t, actives, total)
	require.LessOrEqual(t, most, (total+member-1)/member+1, "%v", s)
	return out
}

// Checklist row S25.
func TestEveryTaskIsAssignedOnceAndCopiedElsewhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, then := drawSharedOut(t, "first"), drawSharedOut(t, "then")
		before := first.assign(t, nil)
		after := then.assign(t, before)
		require.Equal(t, after, then.assign(t, after), "an unchanged group moves nothing: %v, %s", then, show(after))
	})
}

// A member leaves, and its task goes to the member that has a copy of it. The other members keep
// theirs.
func TestTasksOfAMemberThatGoesAreThoseOfItsCopies(t *testing.T) {
	one := func(p int32) []task { return []task{{"1", p}} }
	before := map[string]*target{"m0": {one(0), one(1)}, "m1": {one(1), one(2)}, "m2": {one(2), one(0)}}
	after := sharedOut{perProcess: []int{1, 1}, tasks: map[string]int32{"1": 3}, replicas: 1}.assign(t, before)
	require.Equal(t, target{{{"1", 0}}, {{"1", 1}, {"1", 2}}}, *after["m0"])
	require.Equal(t, target{{{"1", 1}, {"1", 2}}, {{"1", 0}}}, *after["m1"])
}

// The processes have equal loads. Kafka's queue returns first the process that has waited longest
// since its last task.
func TestTasksGoToTheProcessThatWaitsLongest(t *testing.T) {
	before := map[string]*target{"m1": {active: []task{{"0", 1}}}}
	out := shareOut([]int{1, 1}, before, map[string]int32{"0": 2, "1": 1}, stateful, 0)
	require.Equal(t, []task{{"0", 0}}, out["m0"][active])
	require.Equal(t, []task{{"0", 1}, {"1", 0}}, out["m1"][active])

	before = map[string]*target{"m0": {active: []task{{"0", 1}}}, "m1": {active: []task{{"0", 0}, {"1", 0}}}}
	out = shareOut([]int{1, 1}, before, map[string]int32{"0": 5, "1": 1}, stateful, 0)
	require.Equal(t, []task{{"0", 1}, {"0", 2}, {"0", 4}}, out["m0"][active])
	require.Equal(t, []task{{"0", 0}, {"0", 3}, {"1", 0}}, out["m1"][active])
}

// Of processes with equal loads the test expects the order that Kafka 4.3 returned.
func TestProcessesAreInKafkasOrder(t *testing.T) {
	v := &offsets.StreamsTopologyValue{Subtopologies: []offsets.StreamsSubtopology{{ID: "0"}, {ID: "1", Changelogs: []offsets.StreamsTopic{{Name: "c"}}}}}
	one, two := newMember("m1"), newMember("m2")
	one.ProcessID = "m1" // the other process is "", behind it in the same bucket of Kafka's table
	out := assign(map[string]*member{"m1": one, "m2": two}, nil, newTopology(v), map[string]int32{"0": 2, "1": 1}, 0)
	require.Equal(t, []task{{"0", 0}, {"1", 0}}, out["m1"][active])
	require.Equal(t, []task{{"0", 1}}, out["m2"][active])

	one.ProcessID = "" // now both are in one process
	out = assign(map[string]*member{"m1": one, "m2": two}, map[string]*target{"m2": {active: []task{{"0", 1}}}}, newTopology(v), map[string]int32{"0": 2, "1": 1}, 0)
	require.Equal(t, []task{{"0", 0}}, out["m1"][active])
	require.Equal(t, []task{{"0", 1}, {"1", 0}}, out["m2"][active])
}

func show(m map[string]*target) (s string) {
	for i := range 12 {
		if t := m[fmt.Sprint("m", i)]; t != nil {
			s += fmt.Sprint(" m", i, ":", *t)
		}
	}
	return s
}
