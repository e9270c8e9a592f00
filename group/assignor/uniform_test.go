package assignor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

func uniformMembers(owned ...[]record.TopicPartition) (members []Member) {
	for i, o := range owned {
		members = append(members, Member{ID: fmt.Sprintf("m%d", i), Subscription: Subscription{Topics: []string{"t1", "t2"}, Owned: o}})
	}
	return members
}

func numbered(topic string, numbers ...int32) (out []record.TopicPartition) {
	for _, n := range numbers {
		out = append(out, record.TopicPartition{Topic: topic, Partition: n})
	}
	return out
}

// The results agree with Kafka's UniformHomogeneousAssignmentBuilder for members in this order.
func TestUniformGivesRunsOfPartitionsAndMovesWhatItMust(t *testing.T) {
	partitions := map[string]int32{"t1": 3, "t2": 2}
	first, err := Uniform().Assign(uniformMembers(nil, nil), partitions)
	require.NoError(t, err)
	require.Equal(t, map[string][]record.TopicPartition{"m0": numbered("t1", 0, 1, 2), "m1": numbered("t2", 0, 1)}, first)

	third, err := Uniform().Assign(uniformMembers(first["m0"], first["m1"], nil), partitions)
	require.NoError(t, err)
	require.Equal(t, map[string][]record.TopicPartition{"m0": numbered("t1", 0, 1), "m1": numbered("t2", 0, 1), "m2": numbered("t1", 2)}, third, "one moves, though m1 is not among the first two by name")

	late, err := Uniform().Assign(uniformMembers(nil, first["m0"], first["m1"]), partitions)
	require.NoError(t, err)
	require.Equal(t, map[string][]record.TopicPartition{"m0": numbered("t1", 2), "m1": numbered("t1", 0, 1), "m2": numbered("t2", 0, 1)}, late, "whoever is first by name")

	gone, err := Uniform().Assign([]Member{uniformMembers(nil, third["m1"])[1], uniformMembers(nil, nil, third["m2"])[2]}, partitions)
	require.NoError(t, err)
	require.Subset(t, gone["m1"], third["m1"])
	require.Subset(t, gone["m2"], third["m2"])
}

func TestUniformMovesNothingBetweenMembersThatStay(t *testing.T) {
	for n := 2; n < 8; n++ {
		partitions := map[string]int32{"t1": 7, "t2": 12}
		before, err := Uniform().Assign(uniformMembers(make([][]record.TopicPartition, n)...), partitions)
		require.NoError(t, err)
		var left []Member
		for i := range n - 1 {
			left = append(left, uniformMembers(make([][]record.TopicPartition, n)...)[i])
			left[i].Owned = before[left[i].ID]
		}
		after, err := Uniform().Assign(left, partitions)
		require.NoError(t, err)
		for _, m := range left {
			require.Subset(t, after[m.ID], before[m.ID], "%d members", n)
		}
	}
}

// Three members claim the same partition, and some that do not exist. One of them keeps it.
func TestUniformGivesAPartitionThatThreeOwnToOneOfThem(t *testing.T) {
	owned := append(numbered("t1", 0, 7, -1), numbered("gone", 0)...)
	got, err := Uniform().Assign(uniformMembers(owned, owned, owned), map[string]int32{"t1": 3, "t2": 3})
	require.NoError(t, err)
	var all []record.TopicPartition
	for id := range got {
		require.Len(t, got[id], 2, id)
		all = append(all, got[id]...)
	}
	require.ElementsMatch(t, append(numbered("t1", 0, 1, 2), numbered("t2", 0, 1, 2)...), all)
}
