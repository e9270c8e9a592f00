package producer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// fill sends more than one batch of records at one instant.
func fill(t *testing.T, p *Producer, records int) {
	for range records {
		p.SendAsync(t.Context(), record.Record{Topic: "a"}, nil)
	}
	require.NoError(t, p.Flush(t.Context()))
}

func TestRecordsAreStampedByTheCoarseClockWhileBatchesFillUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducer(t, atOnce{newFake(map[string]int{"a": 1})}, Config{BatchBytes: 2000, Linger: time.Second})
		stampOf := func() time.Duration {
			acks, err := p.Send(t.Context(), record.Record{Topic: "a"})
			require.NoError(t, err)
			return time.Since(acks[0].Timestamp)
		}
		require.Zero(t, p.coarse.ms.Load())
		for range 20 {
			fill(t, p, 2000)
			require.NotZero(t, p.coarse.ms.Load())
			sent := time.Now()
			var at time.Time
			p.SendAsync(t.Context(), record.Record{Topic: "a"}, func(r record.Record, err error) { at = r.Timestamp })
			require.NoError(t, p.Flush(t.Context()))
			require.WithinDuration(t, sent, at, coarseTick)
			time.Sleep(1700 * time.Microsecond) // in the bubble
		}
		time.Sleep(time.Hour)
		require.Zero(t, p.coarse.ms.Load(), "nothing filled up for a while")
		require.Less(t, stampOf(), time.Second+time.Millisecond, "it lingers for a second")
		require.GreaterOrEqual(t, stampOf(), time.Second)
		require.NoError(t, p.Close())
	})
}

func TestTheCoarseClockEndsWithTheProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducer(t, atOnce{newFake(map[string]int{"a": 1})}, Config{BatchBytes: 2000, Linger: time.Second})
		fill(t, p, 2000)
		require.NotZero(t, p.coarse.ms.Load())
		require.NoError(t, p.Close())
		require.Zero(t, p.coarse.ms.Load())
		p.coarse.full(coarseFrom, 0)
		require.Zero(t, p.coarse.ms.Load(), "for good")
	})
}

func TestFewRecordsAreStampedByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducer(t, atOnce{newFake(map[string]int{"a": 1})}, Config{BatchBytes: 2000, Linger: time.Second})
		for range 1000 {
			p.SendAsync(t.Context(), record.Record{Topic: "a"}, nil)
			// in the bubble: a batch takes longer than coarseIdleTicks beats to fill up
			time.Sleep(time.Millisecond)
			require.Zero(t, p.coarse.ms.Load())
		}
		for range 100 { // a few large records fill a batch
			p.SendAsync(t.Context(), record.Record{Topic: "a", Value: make([]byte, 1000)}, nil)
		}
		require.Zero(t, p.coarse.ms.Load())
		require.NoError(t, p.Close())
	})
}
