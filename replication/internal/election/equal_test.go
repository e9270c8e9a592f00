package election

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/fieldtest"
)

func TestEveryChangeOfAPartitionIsNoticed(t *testing.T) {
	build := func() Partition {
		return Partition{Replicas: []int32{1, 2, 3}, InSync: []int32{1, 2}, Eligible: []int32{3}, LastKnown: []int32{1}, Leader: 1, LeaderEpoch: 4, Epoch: 5}
	}
	require.True(t, build().equal(build()))
	fieldtest.EachChange(build, func(place string, changed Partition) {
		// An election changes no replicas, and the epoch only counts changes.
		unnoticed := slices.Contains([]string{".Epoch", ".Replicas is longer", ".Replicas[0]", ".Replicas[1]", ".Replicas[2]"}, place)
		require.Equal(t, unnoticed, build().equal(changed), place)
		require.Equal(t, unnoticed, changed.equal(build()), place)
	})
}
