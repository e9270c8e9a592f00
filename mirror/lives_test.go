package mirror_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// A feeder fills topic "t" during the lives, with plain records, and with transactions that commit
// or abort.
type feeder struct {
	next  int
	plain *producer.Producer
	txns  *producer.Producer
}

func newFeeder(t *testing.T, b producer.TxnBackend) *feeder {
	f := &feeder{}
	var err error
	f.plain, err = producer.New(b, producer.Config{})
	require.NoError(t, err)
	f.txns, err = producer.New(b, producer.Config{TransactionalID: "feeder"})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, f.plain.Close())
		require.NoError(t, f.txns.Close())
	})
	return f
}

func (f *feeder) feed(t *testing.T, kind, n int) {
	t.Helper()
	rs := numbered(f.next, n)
	f.next += n
	if kind == 0 {
		_, err := f.plain.Send(t.Context(), rs...)
		require.NoError(t, err)
		return
	}
	tx, err := f.txns.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, tx.Send(t.Context(), rs...))
	if kind == 1 {
		require.NoError(t, tx.Commit(t.Context()))
	} else {
		_, _ = f.plain.Send(t.Context(), numbered(f.next, 3)...) // between the aborted ones
		f.next += 3
		require.NoError(t, tx.Abort(t.Context()))
	}
}

// lives runs forty mirrors, each of which ends at a random moment, under random faults.
func lives(t *testing.T, seed uint64, outward bool) {
	bubble(t, func(t *testing.T, w *world) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		far := w.dial()
		var fd *feeder
		var from, to consumer.LogBackend = w.local, far
		if outward {
			fd = newFeeder(t, w.local)
		} else {
			from, to = far, w.local
			require.NoError(t, far.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions}))
			require.NoError(t, w.local.DeleteTopic(t.Context(), "t"))
			fd = newFeeder(t, far)
		}
		apis := []kafka.Key{kafka.Produce, kafka.EndTxn, kafka.InitProducerID, kafka.Fetch, kafka.ListOffsets, kafka.Metadata, kafka.FindCoordinator}
		for life := range 40 {
			fd.feed(t, rnd.IntN(3), 20+rnd.IntN(200))
			near := w.dial()
			var faults []*kafkatest.Injected
			for range rnd.IntN(3) {
				fault := kafkatest.Fault{APIs: []kafka.Key{apis[rnd.IntN(len(apis))]}, Skip: rnd.IntN(4), Times: 1 + rnd.IntN(3)}
				switch rnd.IntN(4) {
				case 0:
					fault.Close = true
				case 1:
					fault.Close, fault.AfterApply = true, true
				case 2:
					fault.Delay = time.Duration(rnd.IntN(15_000)) * time.Millisecond
				case 3:
					fault.APIs, fault.Code = []kafka.Key{kafka.Produce}, kafka.NotLeaderOrFollower
				}
				faults = append(faults, w.server.Fault(fault))
			}
			cfg := mirror.ForwardConfig{}
			if rnd.IntN(2) == 0 { // many small transactions: most lives end in the middle
				cfg.RecordsPerSecond = 100 + rnd.IntN(1000)
			}
			var f *mirror.Forward
			if outward {
				f = forward(t, w.local, near, cfg)
			} else {
				f = forward(t, near, w.local, cfg)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rnd.IntN(400))*time.Millisecond)
			if rnd.IntN(4) == 0 { // long enough for the faults to pass
				ctx, cancel = context.WithTimeout(t.Context(), 40*time.Second)
			}
			killed := rnd.IntN(2) == 0
			if killed { // its connections end at the same moment, without a word
				context.AfterFunc(ctx, func() { _ = near.Close() })
			}
			began := time.Now()
			fed := make(chan struct{})
			go func() {
				defer close(fed)
				fd.feed(t, 0, 10)
			}()
			err := f.Run(ctx)
			if !killed || !errors.Is(err, replication.ErrClosed) && !errors.Is(err, producer.ErrFatal) {
				require.NoError(t, err, "life %d", life)
			}
			deadline, _ := ctx.Deadline()
			require.Less(t, time.Since(began), deadline.Sub(began)+20*time.Second, "Run ends within its bound")
			cancel()
			require.NoError(t, near.Close())
			for _, i := range faults {
				i.Remove()
			}
			<-fed
		}
		if outward {
			require.NoError(t, drain(t, w.local, far))
		} else {
			require.NoError(t, drain(t, far, w.local))
		}
		time.Sleep(time.Second) // readers see the last transaction a moment later
		require.Greater(t, fd.next, 3000)
		same(t, from, to)
	})
}

func TestEveryRecordArrivesOnceAndInOrderThroughFortyLives(t *testing.T) {
	for _, outward := range []bool{true, false} {
		name := "to a network"
		if !outward {
			name = "from a network"
		}
		seed := rand.Uint64()
		t.Run(name, func(t *testing.T) {
			t.Log("seed", seed)
			lives(t, seed, outward)
		})
	}
}
