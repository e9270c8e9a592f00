package offsets

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// streamsRecords calls f with every record of a partition of an offsets topic in which a real
// Kafka kept streams groups.
func streamsRecords(t testing.TB, f func(r record.Record)) {
	p, err := os.ReadFile("testdata/streams-groups.log")
	require.NoError(t, err)
	for len(p) > 0 {
		b, n, err := record.Parse(p)
		require.NoError(t, err)
		for r, err := range b.All() {
			require.NoError(t, err)
			f(r)
		}
		p = p[n:]
	}
}

// Checklist row S28.
func TestRecordsOfStreamsGroupsAreThoseOfKafka(t *testing.T) {
	seen, tombstones := map[KeyType]int{}, map[KeyType]int{}
	streamsRecords(t, func(r record.Record) {
		rec, known, err := ParseRecord(r.Key, r.Value)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, r.Key, rec.Key.AppendTo(nil))
		if r.Value == nil {
			require.True(t, rec.Tombstone())
			tombstones[rec.Key.Type]++
			return
		}
		seen[rec.Key.Type]++
		require.Equal(t, r.Value, rec.AppendValue(nil), "key type %d", rec.Key.Type)
		switch v := rec.Value.(type) {
		case *StreamsGroupValue:
			require.Positive(t, v.Epoch)
			require.Equal(t, []StreamsPair{{"num.standby.replicas", "0"}}, v.AssignmentConfigs)
		case *StreamsMemberValue:
			require.Equal(t, "/127.0.0.1", v.ClientHost)
			require.Contains(t, v.ProcessID, "process-")
			if v.Endpoint != nil {
				require.Equal(t, StreamsEndpoint{"h", 40000}, *v.Endpoint)
				require.Equal(t, []StreamsPair{{"b", "2"}, {"z", "1"}}, v.ClientTags)
			}
		case *StreamsTopologyValue:
			require.Len(t, v.Subtopologies, 2)
			require.Equal(t, []StreamsPair{{"cleanup.policy", "delete"}}, v.Subtopologies[1].RepartitionSources[0].Configs)
		case *StreamsCurrentAssignmentValue:
			for _, tasks := range v.Assigned.Active {
				require.Len(t, tasks.Epochs, len(tasks.Partitions))
			}
		}
	})
	for _, typ := range []KeyType{KeyStreamsGroup, KeyStreamsMember, KeyStreamsTarget, KeyStreamsTargetMember, KeyStreamsCurrentAssignment, KeyStreamsTopology} {
		require.NotZero(t, seen[typ], "key type %d", typ)
		require.NotZero(t, tombstones[typ], "key type %d", typ)
	}
	t.Log(seen)
}

func TestValuesOfStreamsGroupsAreReadBack(t *testing.T) {
	tasks := StreamsTaskRoles{Active: []StreamsTasks{{"0", []int32{1, 2}, []int32{3, 4}}}, Standby: []StreamsTasks{{Subtopology: "1", Partitions: []int32{7}}}, Warmup: []StreamsTasks{}}
	for typ, v := range map[KeyType]Value{
		KeyStreamsGroup:             &StreamsGroupValue{Epoch: 3, MetadataHash: 4, ValidatedTopology: -1},
		KeyStreamsMember:            &StreamsMemberValue{InstanceID: "i", RackID: "r", ClientID: "c", ClientHost: "h", RebalanceTimeoutMs: 5, TopologyEpoch: 6, ProcessID: "p"},
		KeyStreamsTarget:            &TargetAssignmentValue{AssignmentEpoch: 7, TimestampMs: 8},
		KeyStreamsTargetMember:      &StreamsTargetMemberValue{tasks},
		KeyStreamsCurrentAssignment: &StreamsCurrentAssignmentValue{MemberEpoch: 9, PreviousMemberEpoch: 8, State: 1, Assigned: tasks, PendingRevocation: tasks},
		KeyStreamsTopology: &StreamsTopologyValue{Epoch: 10, Subtopologies: []StreamsSubtopology{{ID: "0", SourceTopics: []string{"a", "b"}, SourceTopicRegex: []string{"x.*"},
			Changelogs: []StreamsTopic{{"c", 0, 3, []StreamsPair{{"k", "v"}}}}, RepartitionSinks: []string{"s"}, RepartitionSources: []StreamsTopic{{Name: "r", Partitions: 4}},
			CopartitionGroups: []StreamsCopartitionGroup{{[]int16{0, 1}, []int16{}, []int16{0}}}}}},
	} {
		got, err := ParseValue(typ, v.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, v, got)
		p := v.AppendTo(nil)
		for cut := range p {
			_, err := ParseValue(typ, p[:cut])
			require.ErrorIs(t, err, ErrMalformed, "%T cut at %d of %d", v, cut, len(p))
		}
	}
}
