package streaming

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/sample"
)

// Checklist row S31.
func TestAnApplicationHasABoundedNumberOfTasks(t *testing.T) {
	v := &offsets.StreamsTopologyValue{}
	for i := range 51 {
		v.Subtopologies = append(v.Subtopologies, offsets.StreamsSubtopology{ID: fmt.Sprint(i), SourceTopics: []string{"a"}})
	}
	c, err := configure(newTopology(v), topicsOf(map[string]int32{"a": 1000}))
	require.NoError(t, err)
	require.Equal(t, &protocol.StreamsStatus{Code: protocol.IncorrectlyPartitionedTopics, Detail: "The topics make more than the 50000 tasks that a group can have."}, c.problem)
	v.Subtopologies = v.Subtopologies[:50]
	c, err = configure(newTopology(v), topicsOf(map[string]int32{"a": 1000}))
	require.NoError(t, err)
	require.True(t, c.ready())
}

// goesOver decides on repartition topics as Kafka does: over all subtopologies, again and again.
func (w *work) goesOver() (all bool) {
	for progress := true; progress; {
		all, progress = true, false
		for s := range w.subtopologies {
			for _, sink := range s.RepartitionSinks {
				if _, ok := w.decided[sink]; ok {
					continue
				}
				if n := w.largest(s); n > 0 {
					w.decided[sink], progress = n, true
				} else {
					all = false
				}
			}
		}
	}
	return all
}

// Checklist row S31.
func TestRepartitionTopicsAreDecidedInKafkasOrder(t *testing.T) {
	type topic = offsets.StreamsTopic
	// when it is next visited, both of its sources are decided
	first := &offsets.StreamsTopologyValue{Subtopologies: []offsets.StreamsSubtopology{
		{ID: "0", RepartitionSources: []topic{{Name: "small"}, {Name: "large"}}, RepartitionSinks: []string{"out"}},
		{ID: "1", SourceTopics: []string{"a"}, RepartitionSinks: []string{"small"}},
		{ID: "2", SourceTopics: []string{"c"}, RepartitionSinks: []string{"large"}},
		{ID: "3", RepartitionSources: []topic{{Name: "out"}}},
	}}
	c, err := configure(newTopology(first), topicsOf(map[string]int32{"a": 1, "c": 7}))
	require.NoError(t, err)
	require.Equal(t, int32(7), c.tasks["3"])

	sample.Rapid(t)
	rapid.Check(t, func(t *rapid.T) {
		v := &offsets.StreamsTopologyValue{}
		some := func(label string, most int) (out []string) {
			for _, i := range rapid.SliceOfN(rapid.IntRange(0, 5), 0, most).Draw(t, label) {
				out = append(out, fmt.Sprint("r", i))
			}
			return out
		}
		for i := range rapid.IntRange(1, 8).Draw(t, "subtopologies") {
			s := offsets.StreamsSubtopology{ID: fmt.Sprint(i), RepartitionSinks: some("sinks", 2)}
			for _, name := range some("sources", 2) {
				s.RepartitionSources = append(s.RepartitionSources, offsets.StreamsTopic{Name: name})
			}
			if rapid.IntRange(0, 2).Draw(t, "reads") == 0 {
				s.SourceTopics = []string{rapid.SampledFrom([]string{"a", "b", "c", "gone"}).Draw(t, "topic")}
			}
			v.Subtopologies = append(v.Subtopologies, s)
		}
		made := func() *work {
			return &work{topology: newTopology(v), topics: topicsOf(map[string]int32{"a": 1, "b": 2, "c": 7}), configured: configured{decided: make(map[string]int32)}}
		}
		want, got := made(), made()
		require.Equal(t, want.goesOver(), got.decideSinks())
		require.Equal(t, want.decided, got.decided)
	})
}

// Checklist row S31. Visiting all subtopologies again and again would take minutes.
func TestALongChainOfRepartitionTopicsIsDecided(t *testing.T) {
	const n = 49_000
	v := &offsets.StreamsTopologyValue{}
	for i := range n { // the last subtopology by name reads a
		s := offsets.StreamsSubtopology{ID: fmt.Sprintf("%05d", i), RepartitionSinks: []string{fmt.Sprint("r", i)}}
		if i < n-1 {
			s.RepartitionSources = []offsets.StreamsTopic{{Name: fmt.Sprint("r", i+1)}}
		} else {
			s.SourceTopics = []string{"a"}
		}
		v.Subtopologies = append(v.Subtopologies, s)
	}
	v.Subtopologies = append(v.Subtopologies, offsets.StreamsSubtopology{ID: "last", RepartitionSources: []offsets.StreamsTopic{{Name: "r0"}}})
	c, err := configure(newTopology(v), topicsOf(map[string]int32{"a": 1}))
	require.NoError(t, err)
	require.Equal(t, protocol.MissingInternalTopics, c.problem.Code)
	require.Len(t, c.missing, n)
}

// Checklist row S31. Visiting all repartition topics for each joined one would take minutes.
func TestManyJoinsOfRepartitionTopicsAreAligned(t *testing.T) {
	v := &offsets.StreamsTopologyValue{}
	for i := range 49_000 {
		name := fmt.Sprint("r", i)
		v.Subtopologies = append(v.Subtopologies, offsets.StreamsSubtopology{ID: fmt.Sprint(i), RepartitionSources: []offsets.StreamsTopic{{Name: name, Partitions: 1}},
			RepartitionSinks: []string{name}, CopartitionGroups: []offsets.StreamsCopartitionGroup{{RepartitionSources: []int16{0}}}})
	}
	c, err := configure(newTopology(v), topicsOf(nil))
	require.NoError(t, err)
	require.Len(t, c.missing, 49_000)
	v.Subtopologies[0].RepartitionSources[0].Partitions = 2
	c, err = configure(newTopology(v), topicsOf(nil))
	require.NoError(t, err)
	require.Equal(t, protocol.IncorrectlyPartitionedTopics, c.problem.Code)
}

// Checklist row S27.
func TestTheNextCoordinatorTellsEndpointsAnew(t *testing.T) {
	m, epoch := joined(t)
	m.now = m.now.Add(time.Second)
	at := func(port uint16) func(*protocol.StreamsHeartbeatRequest) {
		return func(r *protocol.StreamsHeartbeatRequest) {
			r.Endpoint = &offsets.StreamsEndpoint{Host: "h", Port: port}
		}
	}
	other, err := m.ask(t, "m2", joinEpoch, at(2))
	require.NoError(t, err)
	knows := func(endpoints int32) func(*protocol.StreamsHeartbeatRequest) {
		return func(r *protocol.StreamsHeartbeatRequest) { r.EndpointEpoch = endpoints }
	}
	told, err := m.ask(t, "m", epoch, knows(0))
	require.NoError(t, err)
	require.Len(t, told.Queryable, 1)
	m.reload(t)
	_, err = m.ask(t, "m2", leaveEpoch, nil)
	require.NoError(t, err)
	_, err = m.ask(t, "m3", joinEpoch, at(3)) // as many changes as before the reload
	require.NoError(t, err)
	again, err := m.ask(t, "m", told.MemberEpoch, knows(other.EndpointEpoch))
	require.NoError(t, err)
	require.Len(t, again.Queryable, 1)
	require.Equal(t, uint16(3), again.Queryable[0].Endpoint.Port)
}
