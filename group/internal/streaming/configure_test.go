package streaming

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
)

func topicsOf(partitions map[string]int32) *modern.Topics {
	byName := map[string]modern.Topic{}
	for name, n := range partitions {
		byName[name] = modern.Topic{ID: [16]byte{1, name[0]}, Partitions: n}
	}
	return modern.NewTopics(1, byName)
}

// Checklist row S26.
func TestTopologyIsHeldAgainstTheTopics(t *testing.T) {
	type topic = offsets.StreamsTopic
	reads := func(names ...string) offsets.StreamsSubtopology {
		return offsets.StreamsSubtopology{ID: "0", SourceTopics: names}
	}
	joined := reads("a", "b")
	joined.CopartitionGroups = []offsets.StreamsCopartitionGroup{{SourceTopics: []int16{0, 1}}}
	withRepartition := func(partitions int32) offsets.StreamsSubtopology {
		s := reads("a")
		s.RepartitionSources = []topic{{Name: "r", Partitions: partitions}}
		s.CopartitionGroups = []offsets.StreamsCopartitionGroup{{SourceTopics: []int16{0}, RepartitionSources: []int16{0}}}
		return s
	}
	writes := offsets.StreamsSubtopology{ID: "1", SourceTopics: []string{"b"}, RepartitionSinks: []string{"r"}}
	selfJoin := offsets.StreamsSubtopology{ID: "2", RepartitionSources: []topic{{Name: "r"}, {Name: "s"}},
		CopartitionGroups: []offsets.StreamsCopartitionGroup{{RepartitionSources: []int16{0, 1}}}, Changelogs: []topic{{Name: "c"}}}
	feeds := offsets.StreamsSubtopology{ID: "3", SourceTopics: []string{"a"}, RepartitionSinks: []string{"s"}}
	for name, c := range map[string]struct {
		topology []offsets.StreamsSubtopology
		topics   map[string]int32
		tasks    map[string]int32
		missing  map[string]int32
		status   *protocol.StreamsStatus
		err      error
	}{
		"all there":         {topology: []offsets.StreamsSubtopology{reads("a", "b")}, topics: map[string]int32{"a": 2, "b": 3}, tasks: map[string]int32{"0": 3}},
		"no source":         {topology: []offsets.StreamsSubtopology{reads("b", "a", "x", "d", "e")}, topics: map[string]int32{"x": 1}, status: &protocol.StreamsStatus{Code: protocol.MissingSourceTopics, Detail: "Source topics a, b, d and 1 additional topics are missing."}},
		"not alike":         {topology: []offsets.StreamsSubtopology{joined}, topics: map[string]int32{"a": 2, "b": 3}, status: &protocol.StreamsStatus{Code: protocol.IncorrectlyPartitionedTopics, Detail: "Following topics do not have the same number of partitions: [{a=2, b=3}]"}},
		"alike":             {topology: []offsets.StreamsSubtopology{joined}, topics: map[string]int32{"a": 3, "b": 3}, tasks: map[string]int32{"0": 3}},
		"as its partner":    {topology: []offsets.StreamsSubtopology{withRepartition(0), writes}, topics: map[string]int32{"a": 2, "b": 5}, missing: map[string]int32{"r": 2}, tasks: map[string]int32{"0": 2, "1": 5}, status: &protocol.StreamsStatus{Code: protocol.MissingInternalTopics, Detail: "Internal topics are missing: r"}},
		"fixed otherwise":   {topology: []offsets.StreamsSubtopology{withRepartition(4), writes}, topics: map[string]int32{"a": 2, "b": 5}, status: &protocol.StreamsStatus{Code: protocol.IncorrectlyPartitionedTopics, Detail: "Number of partitions [4] of repartition topic [r] doesn't match number of partitions [2] of the source topic."}},
		"the larger one":    {topology: []offsets.StreamsSubtopology{selfJoin, writes, feeds}, topics: map[string]int32{"a": 2, "b": 5}, missing: map[string]int32{"r": 5, "s": 5, "c": 5}, tasks: map[string]int32{"1": 5, "2": 5, "3": 2}, status: &protocol.StreamsStatus{Code: protocol.MissingInternalTopics, Detail: "Internal topics are missing: c, r, s"}},
		"changelog differs": {topology: []offsets.StreamsSubtopology{selfJoin, writes, feeds}, topics: map[string]int32{"a": 2, "b": 5, "r": 5, "s": 5, "c": 4}, status: &protocol.StreamsStatus{Code: protocol.IncorrectlyPartitionedTopics, Detail: "Existing topic c has different number of partitions: expected 5, found 4"}},
		"nothing is read":   {topology: []offsets.StreamsSubtopology{{ID: "7"}}, err: protocol.ErrInvalidTopology},
		"nobody writes":     {topology: []offsets.StreamsSubtopology{selfJoin}, err: protocol.ErrInvalidTopology},
		"in a circle":       {topology: []offsets.StreamsSubtopology{{ID: "0", RepartitionSources: []topic{{Name: "r"}}, RepartitionSinks: []string{"r"}}}, err: protocol.ErrInvalidTopology},
		"no such index":     {topology: []offsets.StreamsSubtopology{{ID: "0", SourceTopics: []string{"a"}, CopartitionGroups: []offsets.StreamsCopartitionGroup{{SourceTopics: []int16{1}}}}}, topics: map[string]int32{"a": 1}, err: protocol.ErrInvalidTopology},
		"below zero":        {topology: []offsets.StreamsSubtopology{{ID: "0", SourceTopics: []string{"a"}, RepartitionSources: []topic{{Name: "r", Partitions: -1}}}}, topics: map[string]int32{"a": 1}, err: protocol.ErrInvalidTopology},
		"a setting twice":   {topology: []offsets.StreamsSubtopology{{ID: "0", SourceTopics: []string{"a"}, Changelogs: []topic{{Name: "c", Configs: []offsets.StreamsPair{{Key: "k"}, {Key: "k"}}}}}}, topics: map[string]int32{"a": 1}, err: protocol.ErrInvalidTopology},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := configure(newTopology(&offsets.StreamsTopologyValue{Epoch: 1, Subtopologies: c.topology}), topicsOf(c.topics))
			require.ErrorIs(t, err, c.err)
			if c.err != nil {
				return
			}
			require.Equal(t, c.status, got.problem)
			require.Equal(t, c.status == nil, got.ready())
			missing := map[string]int32(nil)
			for _, m := range got.missing {
				if missing == nil {
					missing = map[string]int32{}
				}
				missing[m.Name] = m.Partitions
			}
			require.Equal(t, c.missing, missing)
			if c.tasks != nil {
				require.Equal(t, c.tasks, got.tasks)
			}
		})
	}
}
