package group

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// logs returns a store whose partitions hold offsets 10 to 100, one record per second.
func logs(partitions map[string]int32) *fakeStore {
	store := newFakeStore(partitions)
	for topic, n := range partitions {
		for p := range n {
			tp := record.TopicPartition{Topic: topic, Partition: p}
			store.starts[tp], store.ends[tp] = 10, 100
		}
	}
	return store
}

func TestResetsStayWithinTheLog(t *testing.T) {
	tp, other := record.TopicPartition{Topic: "t"}, record.TopicPartition{Topic: "t", Partition: 1}
	inBubble(t, logs(map[string]int32{"t": 2}), Config{}, func(t *testing.T, c *Coordinator) {
		for to, want := range map[int64]int64{0: 10, 10: 10, 55: 55, 100: 100, 101: 100, math.MaxInt64: 100} {
			require.NoError(t, c.ResetOffsets(ctx, "g", record.Offsets{tp: to}))
			require.Equal(t, want, committed(t, c, "g", tp), "to %d", to)
		}
		for _, to := range []int64{-1, -7, math.MinInt64} {
			require.ErrorIs(t, c.ResetOffsets(ctx, "g", record.Offsets{tp: to, other: 20}), ErrInvalidOffset)
			_, err := c.RewindGroup(ctx, "g", ToOffsets(record.Offsets{tp: to, other: 20}))
			require.ErrorIs(t, err, ErrInvalidOffset)
		}
		require.Equal(t, int64(-1), committed(t, c, "g", other), "nothing of it is stored")
		_, err := c.RewindGroup(ctx, "g", ResetTarget{}, tp)
		require.ErrorIs(t, err, ErrInvalidOffset)
		_, err = c.RewindGroup(ctx, "none", ToEarliest())
		require.ErrorIs(t, err, ErrGroupNotFound)
		_, err = c.RewindGroup(ctx, "g", ToEarliest(), record.TopicPartition{Topic: "t", Partition: 9})
		require.ErrorIs(t, err, ErrUnknownTopicOrPartition)
	})
}

func TestLiveGroupIsRewoundAndItsMembersFollow(t *testing.T) {
	partitions := map[string]int32{"t": 2}
	tp, other := record.TopicPartition{Topic: "t"}, record.TopicPartition{Topic: "t", Partition: 1}
	for name, x := range map[string]struct {
		to   ResetTarget
		want record.Offsets
	}{
		"earliest":  {ToEarliest(), record.Offsets{tp: 10, other: 10}},
		"latest":    {ToLatest(), record.Offsets{tp: 100, other: 100}},
		"time":      {ToTime(time.UnixMilli(42_000)), record.Offsets{tp: 42, other: 42}},
		"future":    {ToTime(time.UnixMilli(420_000)), record.Offsets{tp: 100, other: 100}},
		"shift":     {ShiftBy(-20), record.Offsets{tp: 30}},
		"far shift": {ShiftBy(math.MinInt64), record.Offsets{tp: 10}},
		"offsets":   {ToOffsets(record.Offsets{other: 77}), record.Offsets{other: 77}},
	} {
		for _, a := range []assignor.Assignor{assignor.Range(), assignor.CooperativeSticky()} {
			for _, instance := range []string{"", "i"} {
				t.Run(fmt.Sprint(name, " ", a.Name(), instance), func(t *testing.T) {
					inBubble(t, logs(partitions), Config{}, func(t *testing.T, c *Coordinator) {
						m := newClient(c, "g", a, partitions)
						m.instance = instance
						m.start()
						info := waitGroup(t, c, StableWith(1))
						commit(t, c, memberCommit(m, 50))
						late := memberCommit(m, 51)
						require.ErrorIs(t, c.ResetOffsets(ctx, "g", record.Offsets{tp: 0}), ErrNonEmptyGroup)
						moved, err := c.RewindGroup(ctx, "g", x.to)
						require.NoError(t, err)
						require.Equal(t, x.want, moved)
						_, err = c.CommitOffsets(ctx, late)
						require.ErrorIs(t, err, ErrUnknownMember)
						begin := time.Now()
						again := waitGroup(t, c, StableWith(1))
						require.LessOrEqual(t, time.Since(begin), m.beat, "it hears of it at its next heartbeat")
						require.Greater(t, again.Generation, info.Generation)
						require.NotEqual(t, info.Members[0].ID, again.Members[0].ID)
						for tp, offset := range x.want {
							require.Equal(t, offset, committed(t, c, "g", tp))
						}
						commit(t, c, memberCommit(m, 60)) // as a member of the new generation
						m.kill()
					})
				})
			}
		}
	}
}

// Members commit without a pause while the group is rewound. Their commits until they have joined
// again are rejected or overwritten.
func TestNoLateCommitOverwritesARewind(t *testing.T) {
	partitions, tp := map[string]int32{"t": 2}, record.TopicPartition{Topic: "t"}
	for seed := range 50 {
		store := logs(partitions)
		store.syncTime = time.Duration(seed%5) * time.Millisecond
		inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
			m := newClient(c, "g", assignor.CooperativeSticky(), partitions).start()
			waitGroup(t, c, StableWith(1))
			late := memberCommit(m, 50)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							_, _ = c.CommitOffsets(ctx, late)
							time.Sleep(time.Duration(seed%3) * 100 * time.Microsecond)
						}
					}
				})
			}
			if seed%3 == 0 {
				close(stop) // otherwise virtual time would not pass
				wg.Wait()
			}
			time.Sleep(10 * time.Millisecond)
			_, err := c.RewindGroup(ctx, "g", ToEarliest())
			require.NoError(t, err)
			for range 20 {
				require.Equal(t, int64(10), committed(t, c, "g", tp))
				time.Sleep(time.Millisecond)
			}
			if seed%3 != 0 {
				close(stop)
				wg.Wait()
			}
			require.Equal(t, int64(10), committed(t, c, "g", tp))
			m.kill()
			reopened(t, store, Config{}, func(next *Coordinator) {
				require.Equal(t, int64(10), committed(t, next, "g", tp))
				_, err := next.CommitOffsets(ctx, late)
				require.ErrorIs(t, err, ErrUnknownMember)
			})
		})
	}
}

func TestGroupWithMoreOffsetsThanABatchHoldsIsDeletedWhole(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 200})
	inBubble(t, store, Config{MaxBatchBytes: 2000, OffsetsPartitions: 1}, func(t *testing.T, c *Coordinator) {
		for p := range int32(200) {
			commit(t, c, commitOf("g", record.Offsets{{Topic: "t", Partition: p}: 1}))
		}
		appends := c.Stats().Appends
		require.NoError(t, c.DeleteGroup(ctx, "g"))
		require.Greater(t, c.Stats().Appends, appends+3)
		synctest.Wait()
		reopened(t, store, Config{OffsetsPartitions: 1}, func(next *Coordinator) {
			_, err := next.Group(ctx, "g")
			require.ErrorIs(t, err, ErrGroupNotFound)
		})
	})
}
