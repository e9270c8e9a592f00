package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// A thousand members join in 2 s of virtual time, and have all partitions. The departure of one
// moves only its own.
func TestThousandMembersOfTheNewerProtocolShareATopic(t *testing.T) {
	const members, partitions = 1000, 2000
	store := newFakeStore(map[string]int32{"t": partitions})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		began := time.Now()
		type state struct {
			id    string
			epoch int32
			owned []offsets.TopicIDPartitions
		}
		all := make([]state, members)
		beat := func(m *state) {
			r := ConsumerHeartbeatRequest{Group: "g", MemberID: m.id, MemberEpoch: m.epoch, ClientHost: "/h", RebalanceTimeout: -1, Owned: m.owned}
			if m.epoch == 0 {
				r.RebalanceTimeout, r.SubscribedTopics = time.Minute, []string{"t"}
			}
			resp, err := c.ConsumerHeartbeat(t.Context(), r)
			require.NoError(t, err)
			if m.epoch = resp.MemberEpoch; resp.Assignment != nil {
				m.owned = resp.Assignment
			}
		}
		round := func(ms []state) {
			for i := range ms {
				beat(&ms[i])
			}
		}
		for i := range all {
			all[i] = state{id: fmt.Sprintf("m%04d", i), owned: []offsets.TopicIDPartitions{}}
		}
		round(all)
		time.Sleep(time.Second)
		for range 3 {
			round(all)
		}
		require.LessOrEqual(t, time.Since(began), 2*time.Second)
		shares := func() map[string][]record.TopicPartition {
			out := map[string][]record.TopicPartition{}
			info, err := c.Describe(t.Context(), "g")
			require.NoError(t, err)
			require.Equal(t, []any{Stable, Consumer}, []any{info.State, info.Type})
			seen := map[record.TopicPartition]bool{}
			for _, m := range info.Members {
				require.Contains(t, []int{2, 3}, len(m.Assignment))
				for _, tp := range m.Assignment {
					require.False(t, seen[tp])
					seen[tp] = true
				}
				out[m.ID] = m.Assignment
			}
			require.Len(t, seen, partitions)
			return out
		}
		before := shares()
		all[0].epoch = -1
		_, err := c.ConsumerHeartbeat(t.Context(), ConsumerHeartbeatRequest{Group: "g", MemberID: all[0].id, MemberEpoch: -1})
		require.NoError(t, err)
		time.Sleep(time.Second)
		for range 3 {
			round(all[1:])
		}
		for id, tps := range shares() {
			require.Subset(t, tps, before[id], "only what its owner left moves")
		}
		synctest.Wait()
	})
}
