package replication

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// The leader's sync is the last one. The followers' last fetches came before it.
func TestFollowersKnowTheHighWatermarkWhenAllIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		tp := one(t, c)
		require.NoError(t, all(c, tp, "a").Err)
		ds[1].Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: 10 * time.Millisecond})
		require.NoError(t, all(c, tp, "b").Err)
		synctest.Wait()
		for _, r := range c.Status("orders", 0).Copies {
			require.EqualValues(t, 2, r.HighWatermark, "broker %d", r.Broker)
		}
	})
}

func TestStatusTellsWhereEachReplicaIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		tp := one(t, c)
		for _, r := range c.Status("orders", 0).Copies {
			require.Equal(t, []any{true, int64(0), int64(0), int64(0)}, []any{r.InSync, r.LogEndOffset, r.DurableOffset, r.Lag}, "never written")
		}
		require.NoError(t, all(c, tp, "a", "b").Err)
		synctest.Wait()
		s := c.Status("orders", 0)
		require.Equal(t, []int32{2, 3, 1}, s.Replicas)
		for i, r := range s.Copies {
			size := s.Copies[0].SizeBytes
			require.Positive(t, size)
			want := ReplicaStatus{Broker: s.Replicas[i], InSync: true, LogEndOffset: 2, DurableOffset: 2, HighWatermark: 2, SizeBytes: size}
			if i > 0 {
				want.CaughtUp = time.Now()
			}
			require.Equal(t, want, r)
		}
		since := time.Now()
		c.Network().Cut(NetworkPath{From: 1, To: 2})
		done := make(chan partition.ProduceResult, 1)
		c.Produce(&partition.ProduceRequest{TopicPartition: tp, Batch: batch("c"), Acks: record.AcksAll, Timeout: time.Hour, Done: func(r partition.ProduceResult) { done <- r }})
		time.Sleep(10 * time.Second)
		s = c.Status("orders", 0)
		require.Equal(t, []int64{3, 2}, []int64{s.LogEndOffset, s.HighWatermark})
		require.Equal(t, ReplicaStatus{Broker: 1, InSync: true, LogEndOffset: 2, DurableOffset: 2, HighWatermark: 2, Lag: 1, CaughtUp: since, SizeBytes: s.Copies[2].SizeBytes}, s.Copies[2])
		require.Equal(t, time.Now(), s.Copies[1].CaughtUp)
		require.NoError(t, (<-done).Err)
		require.NoError(t, c.WaitISR(t.Context(), tp, 3, 2))
		s = c.Status("orders", 0)
		require.False(t, s.Copies[2].InSync)
		require.Equal(t, since, s.Copies[2].CaughtUp)
		require.NoError(t, c.KillBroker(3))
		s = c.Status("orders", 0)
		require.Equal(t, []int32{3}, s.Eligible, "one of two that must be in sync")
		require.Equal(t, ReplicaStatus{Broker: 3, LogStartOffset: -1, LogEndOffset: -1, HighWatermark: -1, DurableOffset: -1, Lag: -1, Err: ErrBrokerDown}, s.Copies[1])
		require.NoError(t, s.Err, "the leader serves")
		require.NoError(t, c.KillBroker(2))
		s = c.Status("orders", 0)
		require.EqualValues(t, -1, s.Leader)
		require.EqualValues(t, -1, s.Copies[2].Lag, "behind whom?")
		require.EqualValues(t, 2, s.Copies[2].LogEndOffset)
	})
}
