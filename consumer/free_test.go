package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

func TestFreeConsumerReadsItsPartitionsFromWhereItSays(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		fill(t, b, 1, 10)
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 7, tp(1): consumer.StartEarliest}})
		per := map[int32][]string{}
		for _, r := range read(t, c, 13) {
			per[r.Partition] = append(per[r.Partition], string(r.Value))
		}
		require.Equal(t, []string{"7", "8", "9"}, per[0])
		require.Len(t, per[1], 10)
		require.ErrorIs(t, c.Commit(t.Context(), record.Record{Topic: "t"}), consumer.ErrNoGroup)
		require.NoError(t, c.Close())
		groups, err := b.Groups(t.Context())
		require.NoError(t, err)
		require.Empty(t, groups, "a free consumer is in no group")
	})
}

func TestFreeConsumerOfTopicsReadsAlsoPartitionsThatComeLater(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		c := open(t, b, consumer.Config{Topics: []string{"t"}})
		require.Len(t, read(t, c, 1), 1)
		require.NoError(t, b.AddPartitions(t.Context(), "t", 3))
		fill(t, b, 2, 1)
		rs := read(t, c, 2) // the first one was in hand when the loop ended
		require.ElementsMatch(t, []int32{0, 2}, []int32{rs[0].Partition, rs[1].Partition})
		require.NoError(t, c.Close())
	})
}

func TestReadersAtDifferentPositionsDoNotDisturbEachOther(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 20)
		early := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}})
		late := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 15}})
		require.Equal(t, "0", string(read(t, early, 1)[0].Value))
		require.Equal(t, "15", string(read(t, late, 1)[0].Value))
		require.Equal(t, "0", string(read(t, early, 1)[0].Value), "reading removes nothing")
		require.NoError(t, early.Close())
		require.NoError(t, late.Close())
	})
}

func TestBreakHandsTheRecordOutAgain(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 5)
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}})
		require.Equal(t, "2", string(read(t, c, 3)[2].Value))
		require.Equal(t, "2", string(read(t, c, 1)[0].Value))
		require.Equal(t, int64(2), c.Position(tp(0)))
		require.NoError(t, c.Close())
	})
}

func TestPollHandsOutAtMostMaxPollRecordsAndGoesOnBehindThem(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 25)
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}, MaxPollRecords: 10})
		for i, want := range []int{10, 10, 5} {
			batch, err := c.Poll(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, batch.Len())
			require.Equal(t, record.Offsets{tp(0): int64(min(10*(i+1), 25))}, batch.Offsets())
			for p, rs := range batch.Partitions() {
				require.Equal(t, tp(0), p)
				require.Equal(t, fmt.Sprint(10*i), string(rs[0].Value))
			}
		}
		require.NoError(t, c.Close())
	})
}

func TestSeeksByOffsetTimeAndToEitherEnd(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 5)
		time.Sleep(time.Minute)
		middle := time.Now()
		fill(t, b, 0, 5)
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}})
		offset := func() int64 { return read(t, c, 1)[0].Offset }
		require.NoError(t, c.Seek(tp(0), 3))
		require.Equal(t, int64(3), offset())
		require.NoError(t, c.SeekTime(t.Context(), middle))
		require.Equal(t, int64(5), offset())
		require.NoError(t, c.SeekToStart())
		require.Equal(t, int64(0), offset())
		require.NoError(t, c.SeekToEnd(tp(0)))
		fill2 := make(chan struct{})
		go func() {
			defer close(fill2)
			synctest.Wait()
			fill(t, b, 0, 1)
		}()
		require.Equal(t, int64(10), offset())
		<-fill2
		require.ErrorIs(t, c.Seek(tp(7), 0), consumer.ErrNotAssigned)
		require.Error(t, c.Seek(tp(0), -9))
		require.NoError(t, c.Close())
	})
}

func TestSeekInsideTheLoopTakesEffectWithTheNextRecord(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 5)
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}})
		var got []int64
		for r, err := range c.Records(t.Context()) {
			require.NoError(t, err)
			got = append(got, r.Offset)
			if len(got) == 2 {
				require.NoError(t, c.Seek(tp(0), 4))
			}
			if len(got) == 3 {
				break
			}
		}
		require.Equal(t, []int64{0, 1, 4}, got)
		require.NoError(t, c.Close())
	})
}

func TestPausedPartitionsAreNotHandedOutUntilResumed(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		fill(t, b, 1, 3)
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0, tp(1): 0}})
		c.Pause(tp(0))
		for _, r := range read(t, c, 3) {
			require.Equal(t, int32(1), r.Partition)
		}
		go func() {
			time.Sleep(time.Minute)
			c.Resume(tp(0))
		}()
		start := time.Now()
		rs := read(t, c, 2) // the record that was in hand, and the resumed one
		require.ElementsMatch(t, []int32{0, 1}, []int32{rs[0].Partition, rs[1].Partition})
		require.GreaterOrEqual(t, time.Since(start), time.Minute)
		require.NoError(t, c.Close())
	})
}

func TestResetPolicyAppliesWhenTheOffsetIsNotHeldAnyMore(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		_, err := b.DeleteRecords(t.Context(), map[record.TopicPartition]int64{tp(0): 6})
		if err != nil {
			p, _ := b.Backend().Partition(tp(0))
			t.Fatalf("%v: end %d hw %d", err, p.LogEndOffset(), p.HighWatermark())
		}
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 2}})
		require.Equal(t, int64(6), read(t, c, 1)[0].Offset)
		require.NoError(t, c.Close())

		c = open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 2}, Reset: consumer.Fail()})
		_, err = c.Poll(t.Context())
		require.ErrorIs(t, err, consumer.ErrNoOffset)
		require.NoError(t, c.Seek(tp(0), 8))
		require.Equal(t, int64(8), read(t, c, 1)[0].Offset, "a seek makes it readable again")
		require.NoError(t, c.Close())
	})
}

func TestWakeupEndsABlockedPollWithItsOwnError(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}})
		go func() {
			synctest.Wait()
			c.Wakeup()
		}()
		_, err := c.Poll(t.Context())
		require.ErrorIs(t, err, consumer.ErrWakeup)
		c.Wakeup() // no call waits: the next wait ends
		for range c.Records(t.Context()) {
			t.Fatal("a woken iterator yields nothing")
		}
		require.NoError(t, c.Close())
	})
}

func TestCancelEndsAWaitAtOnceWithoutAnErrorPair(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}, MaxWait: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		start := time.Now()
		for range c.Records(ctx) {
			t.Fatal("nothing is there")
		}
		require.Equal(t, time.Second, time.Since(start))
		_, err := c.Poll(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, c.Close())
	})
}

func TestPollingFromTwoPlacesIsRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}})
		for range c.Records(t.Context()) {
			_, err := c.Poll(t.Context())
			require.ErrorIs(t, err, consumer.ErrConcurrentPoll)
			break
		}
		require.NoError(t, c.Close())
	})
}

func TestCloseUnblocksPollAndRefusesEverythingAfterwards(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}})
		go func() {
			synctest.Wait()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		_, err := c.Poll(t.Context())
		require.ErrorIs(t, err, consumer.ErrClosed)
		require.NoError(t, c.Close())
		_, err = c.Poll(t.Context())
		require.ErrorIs(t, err, consumer.ErrClosed)
	})
}

func TestLagIsOneCallAway(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}})
		require.Empty(t, c.Lag(), "nothing is known before the first fetch")
		read(t, c, 4)
		require.Equal(t, map[record.TopicPartition]int64{tp(0): 7}, c.Lag(), "the fourth is in hand")
		require.NoError(t, c.Close())
	})
}

func TestFetchWaitsForMinBytesUpToMaxWait(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}, MinBytes: 1 << 20, MaxWait: 3 * time.Second})
		start := time.Now()
		require.Len(t, read(t, c, 1), 1)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.NoError(t, c.Close())
	})
}

func TestBadConfigNamesEverySetting(t *testing.T) {
	for name, cfg := range map[string]consumer.Config{
		"nothing to read":      {},
		"group and assignment": {Group: "g", Topics: []string{"t"}, Assign: record.Offsets{tp(0): 0}},
		"group without topics": {Group: "g"},
		"negative":             {Topics: []string{"t"}, MinBytes: -1},
		"unknown property":     {Topics: []string{"t"}, Properties: map[string]string{"no.such.key": "1"}},
		"contradiction":        {Topics: []string{"t"}, MinBytes: 5, Properties: map[string]string{"fetch.min.bytes": "6"}},
		"ill-typed":            {Topics: []string{"t"}, Properties: map[string]string{"fetch.min.bytes": "many"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := consumer.New(nil, cfg)
			var ce *consumer.ConfigError
			require.True(t, errors.As(err, &ce), "%v", err)
		})
	}
}
