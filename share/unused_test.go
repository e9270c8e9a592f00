package share

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/vfs"
)

func TestSharePartitionsWithoutMembersTakeNoMemoryOfTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 1, vfs.Mem(), Config{Topic: testTopic, PruneInterval: time.Minute})
		defer w.close()
		s := newStorm(w, 1, 1)
		require.NoError(t, w.produce(0, 0, 10))
		ctx, tp := t.Context(), s.parts[0]
		fetch := func(member string, n int) []Delivery {
			f, err := w.c.Fetch(ctx, FetchRequest{Group: "g", Member: member, Partitions: s.parts[:1], MaxRecords: n, Reset: partition.Earliest})
			require.NoError(t, err)
			return f.Deliveries
		}
		held := func() int {
			synctest.Wait()
			w.c.mu.Lock()
			defer w.c.mu.Unlock()
			return len(w.c.leaders)
		}
		require.Equal(t, []Delivery{{First: 0, Last: 3, Count: 1}}, fetch("a", 4))
		require.NoError(t, w.c.Acknowledge(ctx, "g", "a", tp, []Ack{{First: 0, Last: 0, Types: []AckType{Accept}}}))
		require.Equal(t, 1, held())
		require.NoError(t, w.c.Expire(ctx, "g", "a", s.parts[:1]))
		require.Zero(t, held(), "its last member has gone")
		require.ErrorIs(t, w.c.Acknowledge(ctx, "g", "a", tp, []Ack{{First: 1, Last: 1, Types: []AckType{Accept}}}), ErrInvalidRecordState)

		require.Equal(t, []Delivery{{First: 1, Last: 2, Count: 2}}, fetch("b", 2), "the deliveries are counted")
		require.NoError(t, w.c.Leave(ctx, "g", "a"))
		require.Equal(t, 1, held(), "b has records")
		require.NoError(t, w.c.Acknowledge(ctx, "g", "b", tp, []Ack{{First: 1, Last: 2, Types: []AckType{Accept}}}))
		require.Equal(t, 3, int(fetch("c", 1)[0].First))
		time.Sleep(2 * time.Minute) // the lock ends
		require.Zero(t, held())
		require.Equal(t, []Delivery{{First: 3, Last: 3, Count: 3}}, fetch("d", 1))
		require.NoError(t, w.c.Leave(ctx, "g", "d"))
		require.Zero(t, held())
	})
}
