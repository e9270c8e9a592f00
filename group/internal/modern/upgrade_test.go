package modern

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/record"
)

// A cooperative member that has to give a partition up may not have learned of it. It keeps the
// partitions that it owned at its last join, unless another member was assigned them.
func TestWhatAMemberHasNotGivenUpStaysItsOwnInAnUpgrade(t *testing.T) {
	parts := func(ps ...int32) (tps []record.TopicPartition) {
		for _, p := range ps {
			tps = append(tps, record.TopicPartition{Topic: "t", Partition: p})
		}
		return tps
	}
	g := New(nil, &Config{})
	g.topics = NewTopics(1, map[string]Topic{"t": {ID: [16]byte{1}, Partitions: 3}})
	u := upgrade{g: g, epoch: 7, given: map[partition]bool{}}
	for _, m := range []struct {
		id              string
		owned, assigned []record.TopicPartition
	}{{"a", parts(0, 1, 2), parts(0)}, {"b", parts(2), parts(1)}} {
		sub := assignor.Subscription{Topics: []string{"t"}, Owned: m.owned}
		require.NoError(t, u.take(classic.Transfer{ID: m.id, Protocols: []assignor.Protocol{{Name: "cooperative-sticky", Metadata: sub.AppendTo(nil)}},
			Assignment: assignor.Assignment{Partitions: m.assigned}.AppendTo(nil)}))
	}
	u.claims()
	require.Equal(t, []partition{{[16]byte{1}, 0}, {[16]byte{1}, 2}}, plain(u.members[0].assigned), "0 is assigned, 2 is not given to anybody else")
	require.Equal(t, []partition{{[16]byte{1}, 1}}, plain(u.members[1].assigned))
}
