package producer

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func TestTopicThatAppearsLaterIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(nil)
		p := newProducer(t, f, Config{AllowUnknownTopics: true})
		start := time.Now()
		time.AfterFunc(time.Second, func() { f.grow("a", 1) })
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start), "told, not polled")

		_, err = p.Send(t.Context(), value("never", 0))
		require.ErrorIs(t, err, ErrTimeout)
		require.ErrorIs(t, err, ErrUnknownTopic)
		require.Equal(t, 61*time.Second, time.Since(start))
		require.NoError(t, p.Close())

		p = newProducer(t, f, Config{MaxBlock: NoWait, AllowUnknownTopics: true})
		_, err = p.Send(t.Context(), value("never", 0))
		require.ErrorIs(t, err, ErrUnknownTopic)
		require.NotErrorIs(t, err, ErrTimeout)
		require.NoError(t, p.Close())
	})
}

func TestNewPartitionsAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		p := newProducer(t, f, Config{Partitioner: topic.RoundRobin(), AllowUnknownTopics: true})
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { f.grow("a", 3) })
		acks, err := p.Send(t.Context(), value("a", 1).To(2)) // waits for the partition
		require.NoError(t, err)
		require.Equal(t, int32(2), acks[0].Partition)
		for i := range 6 {
			_, err := p.Send(t.Context(), value("a", i))
			require.NoError(t, err)
		}
		require.Len(t, f.values("a", 1), 2)
		require.Len(t, f.values("a", 2), 3)
		require.NoError(t, p.Close())
	})
}

func TestLeaderIsFoundAgainAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		p := newProducer(t, f, Config{RetryBackoff: time.Hour, DeliveryTimeout: 3 * time.Hour})
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)

		f.locked(func() { f.part("a", 0).leader = -1 }) // without a notification
		start := time.Now()
		time.AfterFunc(time.Second, func() { f.change(func() { f.part("a", 0).leader, f.part("a", 0).epoch = 2, 1 }) })
		_, err = p.Send(t.Context(), value("a", 1))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start), "a new leader ends the pause")

		f.change(func() { f.part("a", 0).leader = -1 })
		synctest.Wait()
		requests := len(f.headers())
		time.AfterFunc(time.Second, func() { f.change(func() { f.part("a", 0).leader = 1 }) })
		_, err = p.Send(t.Context(), value("a", 2))
		require.NoError(t, err)
		require.Len(t, f.headers(), requests+1, "nobody is asked while there is no leader")
		require.Equal(t, numbers(0, 3), f.values("a", 0))
		require.NoError(t, p.Close())
	})
}

// A former leader's error arrives when the new leader is known already. The batch is sent there
// without a pause.
func TestRefusalOfAFormerLeaderCostsNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 3})
		p := newProducer(t, f, Config{RetryBackoff: time.Hour, DeliveryTimeout: 3 * time.Hour})
		for i := range int32(3) {
			_, err := p.Send(t.Context(), value("a", int(i)).To(i))
			require.NoError(t, err)
		}
		f.script = func(n int, req *partition.ProduceRequest, _ *record.Batch) fate {
			if n != 3 {
				return fate{}
			}
			return fate{delay: time.Second, err: partition.ErrNotLeader}
		}
		time.AfterFunc(500*time.Millisecond, func() { f.change(func() { f.part("a", 1).leader, f.part("a", 1).epoch = 2, 1 }) })
		start := time.Now()
		_, err := p.Send(t.Context(), value("a", 3).To(1))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start))
		require.NoError(t, p.Close())
	})
}

func TestLeaderChangesUnderLoadKeepTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		rnd := rand.New(rand.NewPCG(3, 4))
		f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate {
			ft := fate{delay: time.Duration(1+rnd.IntN(10)) * time.Millisecond, replyLost: rnd.IntN(10) == 0}
			if rnd.IntN(10) == 0 {
				ft.err = partition.ErrNotLeader
				go f.change(func() { f.part("a", 0).epoch++ })
			}
			return ft
		}
		p := newProducer(t, f, Config{BatchBytes: 400, MaxRequestBytes: 400})
		for i, err := range sendNumbers(t, p, "a", 5000) {
			require.NoError(t, err, i)
		}
		require.Equal(t, numbers(0, 5000), f.values("a", 0))
		require.NoError(t, p.Close())
	})
}
