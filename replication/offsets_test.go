package replication

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestOffsetsAreListedByMeaningAndTime(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 2)
	start := time.Now()
	produce(t, c, at("orders", 0), "a", "b", "c")
	list := func(p tp, spec partition.OffsetSpec) partition.OffsetResult {
		got, err := c.ListOffsets(t.Context(), map[tp]partition.OffsetSpec{p: spec}, partition.ReadCommitted)
		require.NoError(t, err)
		return got[p]
	}
	require.Equal(t, int64(0), list(at("orders", 0), partition.Earliest).Offset)
	require.Equal(t, int64(3), list(at("orders", 0), partition.Latest).Offset)
	require.Equal(t, int64(0), list(at("orders", 0), partition.At(start.Add(-time.Hour))).Offset)
	require.Equal(t, int64(-1), list(at("orders", 0), partition.At(start.Add(time.Hour))).Offset)
	unwritten := list(at("orders", 1), partition.Latest)
	require.Equal(t, int64(0), unwritten.Offset)
	require.Equal(t, int64(-1), unwritten.TimestampMs)
	require.Equal(t, int64(0), list(at("orders", 1), partition.Earliest).Offset)
	require.Equal(t, int64(-1), list(at("orders", 1), partition.MaxTimestamp).Offset)
	missing := list(at("orders", 2), partition.Latest)
	require.ErrorIs(t, missing.Err, ErrUnknownTopic)
	require.Equal(t, int64(-1), missing.Offset)
}

// A broker whose disk hangs is not noticed by reads. Offsets by time are read from the disk.
func TestLeaderWhoseDiskHangsDelaysNoOffsetsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 3)
		specs := map[tp]partition.OffsetSpec{}
		for p := range int32(3) {
			require.NoError(t, all(c, at("orders", p), "a").Err)
			specs[at("orders", p)] = partition.At(time.Now().Add(-time.Hour))
		}
		hung := c.Leader("orders", 0)
		mend := ds.hang(hung, vfs.OpRead, "")
		for range 2 * maxOffsetLookups {
			begin := time.Now()
			got, err := c.ListOffsets(t.Context(), specs, partition.ReadCommitted)
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(begin), time.Second)
			for tp, res := range got {
				if c.Leader("orders", tp.Partition) == hung {
					require.ErrorIs(t, res.Err, partition.ErrTimeout)
				} else {
					require.NoError(t, res.Err)
					require.Zero(t, res.Offset)
				}
			}
			require.Len(t, got, 3)
		}
		require.Len(t, c.serving()[hung].lookups, maxOffsetLookups, "the disk holds no more calls up")
		for _, spec := range []partition.OffsetSpec{partition.Earliest, partition.Latest} {
			got, err := c.ListOffsets(t.Context(), map[tp]partition.OffsetSpec{at("orders", 0): spec}, partition.ReadCommitted)
			require.NoError(t, err)
			require.NoError(t, got[at("orders", 0)].Err, "they are in memory")
		}
		mend()
		time.Sleep(time.Hour)
		got, err := c.ListOffsets(t.Context(), specs, partition.ReadCommitted)
		require.NoError(t, err)
		for _, res := range got {
			require.NoError(t, res.Err)
		}
	})
}

func TestOffsetsOfASlowDiskAreAwaitedWhileItResponds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		c := open(t, fsys)
		create(t, c, "orders", 20)
		specs := map[tp]partition.OffsetSpec{}
		for p := range int32(20) {
			produce(t, c, at("orders", p), "a")
			specs[at("orders", p)] = partition.MaxTimestamp
		}
		defer fsys.Inject(vfs.Fault{Ops: vfs.OpRead, Times: vfs.Always, Delay: 100 * time.Millisecond})()
		begin := time.Now()
		got, err := c.ListOffsets(t.Context(), specs, partition.ReadCommitted)
		require.NoError(t, err)
		require.Len(t, got, 20)
		for _, res := range got {
			require.NoError(t, res.Err)
		}
		require.Greater(t, time.Since(begin), time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		_, err = c.ListOffsets(ctx, specs, partition.ReadCommitted)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestDeletedRecordsStayDeleted(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 3)
	for range 5 {
		produce(t, c, at("orders", 0), "x")
		produce(t, c, at("orders", 1), "x")
	}
	starts, err := c.DeleteRecords(t.Context(), map[tp]int64{at("orders", 0): 3, at("orders", 1): -1, at("orders", 2): -1})
	require.NoError(t, err)
	require.Equal(t, map[tp]int64{at("orders", 0): 3, at("orders", 1): 5, at("orders", 2): 0}, starts)
	starts, err = c.DeleteRecords(t.Context(), map[tp]int64{at("orders", 0): 1, at("orders", 1): 6, at("orders", 2): 1, at("none", 0): 0})
	require.ErrorIs(t, err, partition.ErrOffsetOutOfRange)
	require.ErrorIs(t, err, ErrUnknownTopic)
	require.Equal(t, map[tp]int64{at("orders", 0): 3}, starts, "the start never goes back")
	disk := fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	again := open(t, disk)
	require.Equal(t, int64(3), again.Status("orders", 0).LogStartOffset)
	require.Equal(t, int64(5), again.Status("orders", 1).LogStartOffset)
}

func TestRecordsOfACompactedTopicCannotBeDeleted(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 1, "cleanup.policy", "compact")
	produce(t, c, at("orders", 0), "x")
	_, err := c.DeleteRecords(t.Context(), map[tp]int64{at("orders", 0): 1})
	require.ErrorIs(t, err, ErrPolicyViolation)
}

func TestStatusTellsWhatTheLeaderKnows(t *testing.T) {
	c := open(t, vfs.Mem())
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 2}))
	produce(t, c, at("orders", 0), "a", "b")
	s := c.Status("orders", 0)
	require.NoError(t, s.Err)
	require.Equal(t, Status{
		Leader: 1, Replicas: []int32{1}, ISR: []int32{1}, HighWatermark: 2, LogEndOffset: 2, Ends: map[int32]int64{1: 2},
		Copies: []ReplicaStatus{{Broker: 1, InSync: true, LogEndOffset: 2, HighWatermark: 2, DurableOffset: 2, SizeBytes: s.Copies[0].SizeBytes}},
	}, s)
	require.Equal(t, map[int32]int64{1: 0}, c.Status("orders", 1).Ends)
	none := c.Status("orders", 2)
	require.ErrorIs(t, none.Err, ErrUnknownTopic)
	require.Equal(t, int32(-1), none.Leader)
	stats := c.Stats()
	require.Equal(t, 1, stats.Topics)
	require.Equal(t, 2, stats.Partitions)
	require.Equal(t, 1, stats.OpenPartitions)
	require.Equal(t, int64(1), stats.ProduceRequests)
}
