package streaming

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/fieldtest"
	"github.com/stratalog/strata/internal/offsets"
)

// Other implementations read this field of the record. Kafka counts from 1, and treats an unknown
// value as no state.
func TestStatesOfMembersAreStoredAsKafkasNumbers(t *testing.T) {
	m := newMember("m")
	require.Equal(t, int8(1), m.record().State)
	m.state = unrevoked
	require.Equal(t, int8(2), m.record().State)
	m.state = unreleased
	require.Equal(t, int8(3), m.record().State)
}

func TestEveryChangeOfAMemberIsNoticed(t *testing.T) {
	build := func() offsets.StreamsMemberValue {
		return offsets.StreamsMemberValue{InstanceID: "i", RackID: "r", ClientID: "c", ClientHost: "h", RebalanceTimeoutMs: 1, TopologyEpoch: 2, ProcessID: "p",
			Endpoint: &offsets.StreamsEndpoint{Host: "e", Port: 3}, ClientTags: []offsets.StreamsPair{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}, {Key: "c", Value: "3"}}}
	}
	require.True(t, (&member{StreamsMemberValue: build()}).sameSelf(&member{StreamsMemberValue: build()}))
	fieldtest.EachChange(build, func(place string, changed offsets.StreamsMemberValue) {
		a, b := &member{StreamsMemberValue: build()}, &member{StreamsMemberValue: changed}
		require.False(t, a.sameSelf(b) || b.sameSelf(a), place)
	})
}

func TestEveryChangeOfATopologyIsNoticed(t *testing.T) {
	topics := func() []offsets.StreamsTopic {
		one := func(name string) offsets.StreamsTopic {
			return offsets.StreamsTopic{Name: name, Partitions: 1, Replicas: 2, Configs: []offsets.StreamsPair{{Key: "k", Value: "v"}}}
		}
		return []offsets.StreamsTopic{one("a"), one("b"), one("c")}
	}
	build := func() offsets.StreamsSubtopology {
		return offsets.StreamsSubtopology{ID: "0", SourceTopics: []string{"a", "b"}, SourceTopicRegex: []string{"c"}, Changelogs: topics(), RepartitionSinks: []string{"d"},
			RepartitionSources: topics(), CopartitionGroups: []offsets.StreamsCopartitionGroup{{SourceTopics: []int16{0, 1}, SourceTopicRegex: []int16{0}, RepartitionSources: []int16{0, 1, 2}}}}
	}
	same, other := build(), build()
	require.True(t, sameSubtopology(&same, &other))
	fieldtest.EachChange(build, func(place string, changed offsets.StreamsSubtopology) {
		if place != ".ID" { // only subtopologies with equal ids are compared
			require.False(t, sameSubtopology(&same, &changed) || sameSubtopology(&changed, &same), place)
		}
	})
}
