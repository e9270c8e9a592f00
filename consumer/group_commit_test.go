package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/record"
)

func TestGroupGoesOnWhereItStopped(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		c := open(t, b, config(consumer.CommitProcessed))
		read(t, c, 4) // three are processed, the fourth is in hand
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 3}, committed(t, b, "g"))
		c = open(t, b, config(consumer.CommitProcessed))
		require.Equal(t, int64(3), read(t, c, 1)[0].Offset)
		require.NoError(t, c.Close())
	})
}

func TestProcessedRecordsAreCommittedPeriodically(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		m := poll(t, open(t, b, config(consumer.CommitProcessed)), nil)
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, record.Offsets{tp(0): 3}, committed(t, b, "g"))
		m.leave(t)
	})
}

func TestManualModeCommitsOnlyWhatTheApplicationCommits(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		c := open(t, b, config(consumer.CommitManual))
		rs := read(t, c, 5)
		require.NoError(t, c.Commit(t.Context(), rs[1], rs[2]))
		got, err := c.Committed(t.Context())
		require.NoError(t, err)
		require.Equal(t, record.Offsets{tp(0): 3}, got)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 3}, committed(t, b, "g"), "Close commits nothing")

		c = open(t, b, config(consumer.CommitManual))
		require.Equal(t, int64(3), read(t, c, 1)[0].Offset, "what was processed and not committed comes again")
		require.NoError(t, c.CommitReturned(t.Context()))
		require.NoError(t, c.Close())
	})
}

func TestBeforeDeliveryALostRecordIsLostAndNoneComesTwice(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		cut := &cutOff{Backend: b}
		cfg := config(consumer.CommitBeforeDelivery)
		cfg.InstanceID = "one"
		c := open(t, cut, cfg)
		read(t, c, 2)
		cut.off.Store(true) // the process dies with the second in hand
		_ = c.Close()
		c = open(t, b, cfg)
		fill(t, b, 0, 1)
		require.Greater(t, read(t, c, 1)[0].Offset, int64(1))
		require.NoError(t, c.Close())
	})
}

func TestOwnOffsetStoreWinsOverCommittedOffsets(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		fill(t, b, 1, 10)
		require.NoError(t, b.ResetOffsets(t.Context(), "g", record.Offsets{tp(0): 1, tp(1): 2}))
		cfg := config(consumer.CommitManual)
		cfg.StartAt = func(_ context.Context, tps []record.TopicPartition) (record.Offsets, error) {
			return record.Offsets{tp(0): 8}, nil
		}
		c := open(t, b, cfg)
		first := map[int32]int64{}
		for _, r := range read(t, c, 10) {
			if _, ok := first[r.Partition]; !ok {
				first[r.Partition] = r.Offset
			}
		}
		require.Equal(t, map[int32]int64{0: 8, 1: 2}, first)
		require.NoError(t, c.Close())
	})
}

func TestAsyncCommitsArriveInOrderAndCallBackOnce(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		c := open(t, b, config(consumer.CommitManual))
		read(t, c, 10)
		got := make(chan int64, 10)
		for i := range int64(10) {
			c.CommitAsync(record.Offsets{tp(0): i + 1}, func(o record.Offsets, err error) {
				if err != nil {
					t.Error(err)
				}
				got <- o[tp(0)]
			})
		}
		for i := range int64(10) {
			require.Equal(t, i+1, <-got)
		}
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 10}, committed(t, b, "g"))
		refused := make(chan error, 1)
		c.CommitAsync(record.Offsets{tp(0): 1}, func(_ record.Offsets, err error) { refused <- err })
		require.ErrorIs(t, <-refused, consumer.ErrClosed)
	})
}
