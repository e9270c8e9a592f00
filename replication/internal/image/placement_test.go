package image

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/topic"
)

// brokers returns an image with brokers 1, 2, ... in these racks.
func brokers(t *testing.T, racks ...string) *Image {
	t.Helper()
	m := New()
	var all []Arrival
	for i, rack := range racks {
		id := byte(i + 1)
		all = append(all, Arrival{ID: int32(id), Incarnation: metarecord.ID{1, id}, Directory: metarecord.ID{2, id}, Rack: rack, Clean: true})
	}
	commit(t, m, m.TakeOver(all, lax)...)
	return m
}

// createTopic creates the i-th topic and returns its partitions.
func createTopic(t *testing.T, m *Image, i byte, partitions, factor int) []Partition {
	t.Helper()
	name := fmt.Sprint("t", i)
	recs, err := m.CreateTopic(Creation{Name: name, Drawn: topic.ID{9, i}, Partitions: partitions, Factor: factor}, Limits{Partitions: 1000, Policy: lax})
	require.NoError(t, err)
	commit(t, m, recs...)
	return m.Topics[name].Partitions
}

func TestReplicasAreSpreadEvenly(t *testing.T) {
	m := brokers(t, "", "", "", "")
	followed := map[[2]int32]int{}
	for _, p := range createTopic(t, m, 1, 24, 3) {
		require.Equal(t, p.Replicas[0], p.Leader)
		require.Equal(t, p.Replicas, p.ISR)
		for _, follower := range p.Replicas[1:] {
			require.NotEqual(t, p.Leader, follower)
			followed[[2]int32{p.Leader, follower}]++
		}
	}
	require.Len(t, followed, 12, "every broker is followed by every other")
	for pair, n := range followed {
		require.Equal(t, 4, n, "%v", pair)
	}
	require.Equal(t, []int32{1, 2}, createTopic(t, brokers(t, "", ""), 1, 1, 2)[0].Replicas)
	one := createTopic(t, brokers(t, ""), 1, 2, 1)
	require.Equal(t, []int32{1}, one[1].Replicas)
}

func TestReplicasAreInDifferentRacks(t *testing.T) {
	for _, racks := range [][]string{{"a", "a", "a", "b"}, {"a", "b", "b", "c", "c", "c", "c"}, {"a", "a", "b", "b", "c", "c"}} {
		m := brokers(t, racks...)
		for factor := 1; factor <= len(racks); factor++ {
			for _, p := range createTopic(t, m, byte(factor), 30, factor) {
				perRack := map[string]int{}
				for _, id := range p.Replicas {
					perRack[m.Members[id].Rack]++
				}
				all := map[string]int{}
				for _, rack := range racks {
					all[rack]++
				}
				require.Len(t, perRack, min(factor, len(all)), "%v in %v", p.Replicas, racks)
				for rack, n := range perRack {
					for other, most := range all {
						require.True(t, n <= perRack[other]+1 || perRack[other] == most, "%v: %d in %s, %d in %s", p.Replicas, n, rack, perRack[other], other)
					}
				}
			}
		}
	}
}

// Brokers that do not serve get replicas only if the others are too few. These replicas are not in
// sync.
func TestBrokersThatAreAwayFillUpTheFactor(t *testing.T) {
	m := brokers(t, "a", "b", "c", "d")
	commit(t, m, m.Fence([]int32{4}, nil)...)
	commit(t, m, m.Leave(3))
	for i := range byte(4) {
		p := createTopic(t, m, i, 1, 2)[0]
		require.ElementsMatch(t, []int32{1, 2}, p.Replicas)
	}
	for i := range byte(4) {
		p := createTopic(t, m, 10+i, 1, 4)[0]
		require.ElementsMatch(t, []int32{1, 2, 3, 4}, p.Replicas)
		require.ElementsMatch(t, []int32{1, 2}, p.ISR)
		require.Equal(t, p.Replicas[0], p.Leader)
	}
	_, err := m.CreateTopic(Creation{Name: "x", Drawn: topic.ID{1}, Partitions: 1, Factor: 5}, Limits{Partitions: 1000, Policy: lax})
	require.ErrorIs(t, err, ErrInvalidReplicationFactor)
	recs, err := m.CreateTopic(Creation{Name: "x", Drawn: topic.ID{1}, Partitions: 1, Factor: 3, Assignment: [][]int32{{4, 2, 1}}}, Limits{Partitions: 1000, Policy: lax})
	require.NoError(t, err)
	commit(t, m, recs...)
	p := m.Topics["x"].Partitions[0]
	require.Equal(t, []int32{4, 2, 1}, p.Replicas, "as the administrator says")
	require.Equal(t, []int32{2, 1}, p.ISR)
	require.Equal(t, int32(2), p.Leader)
	_, err = m.CreateTopic(Creation{Name: "y", Drawn: topic.ID{2}, Partitions: 1, Factor: 2, Assignment: [][]int32{{4, 3}}}, Limits{Partitions: 1000, Policy: lax})
	require.ErrorIs(t, err, ErrInvalidAssignment)
}
