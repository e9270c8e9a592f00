package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
)

func TestLagCountsPartitionsWithoutACommitFromTheirStart(t *testing.T) {
	partitions := map[string]int32{"t": 3, "u": 2}
	store := logs(partitions)
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		m := newClient(c, "g", assignor.Range(), map[string]int32{"t": 3}).start()
		info := waitGroup(t, c, StableWith(1))
		require.Equal(t, int64(3*90), info.Lag(), "it has committed nothing")
		commit(t, c, memberCommit(m, 60))
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.Equal(t, int64(40+90+90), info.Lag())
		require.Equal(t, OffsetInfo{Committed: record.Committed{Offset: 60, LeaderEpoch: 3, Metadata: "note"}, Start: 10, End: 100, Lag: 40}, info.Offsets[record.TopicPartition{Topic: "t"}])
		require.Equal(t, OffsetInfo{Committed: record.Committed{Offset: -1, LeaderEpoch: -1}, Start: 10, End: 100, Lag: 90}, info.Offsets[record.TopicPartition{Topic: "t", Partition: 2}])
		m.kill()

		commit(t, c, commitOf("old", record.Offsets{{Topic: "u"}: 3})) // retention has passed it
		info, err = c.Group(ctx, "old")
		require.NoError(t, err)
		require.Equal(t, int64(90+90), info.Lag(), "no more than there is")
	})
}

func TestLagAndDrainTimeOfAllGroupsAreOneCallAway(t *testing.T) {
	partitions := map[string]int32{"t": 1}
	tp := record.TopicPartition{Topic: "t"}
	store := logs(partitions)
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		for group, at := range map[string]int64{"a": 20, "b": 20, "c": 100} {
			commit(t, c, commitOf(group, record.Offsets{tp: at}))
		}
		member := newClient(c, "d", assignor.Range(), partitions).start()
		_, err := c.WaitGroup(ctx, "d", StableWith(1))
		require.NoError(t, err)
		lags := func() []GroupLag {
			l, err := c.Lags(ctx)
			require.NoError(t, err)
			return l
		}
		require.Equal(t, []GroupLag{{"a", Empty, 0, 80, DrainUnknown}, {"b", Empty, 0, 80, DrainUnknown}, {"c", Empty, 0, 0, 0}, {"d", Stable, 1, 90, DrainUnknown}}, lags())
		time.Sleep(10 * time.Second)
		commit(t, c, commitOf("a", record.Offsets{tp: 60})) // 40 in 10 s, 40 to go
		store.with(func(f *fakeStore) { f.ends[tp] = 120 }) // 20 more for everybody
		require.Equal(t, []GroupLag{{"a", Empty, 0, 60, 30 * time.Second}, {"b", Empty, 0, 100, DrainNever}, {"c", Empty, 0, 20, DrainNever}, {"d", Stable, 1, 110, DrainNever}}, lags())
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 30*time.Second+300*time.Millisecond, lags()[0].Drain.Round(time.Millisecond), "too soon for another sample: still since the first")
		time.Sleep(10 * time.Second)
		require.Equal(t, DrainNever, lags()[0].Drain, "it stands still")
		require.NoError(t, c.DeleteGroup(ctx, "a"))
		require.Len(t, lags(), 3)
		require.Len(t, c.samples, 3, "nothing is kept of a group that is gone")
		member.kill()
	})
}
