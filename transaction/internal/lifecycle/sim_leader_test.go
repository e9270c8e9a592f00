package lifecycle

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A realLeader is a partition of package partition, in memory.
type realLeader struct {
	t         *testing.T
	s         *sim
	number    int
	unguarded bool // true: the coordinator is queried first, and the partition appends every write
	fs        *vfs.MemFS
	epoch     int32
	p         *partition.Partition
	// by producer id: transactions written to since its last marker
	open    map[int64]map[*simTxn]bool
	refused int // number of writes that came behind their marker
}

func (l *realLeader) lead() {
	cfg := partition.Config{Topic: "t", Partition: int32(l.number), Log: log.Config{FS: l.fs, Sync: log.SyncNever}}
	if !l.unguarded {
		cfg.Verify = func(q partition.TxnQuestion) { l.ask(q.TxnWrite, q.Answer) }
	}
	var err error
	l.p, err = partition.Open("p", cfg)
	require.NoError(l.t, err)
	require.NoError(l.t, l.p.BecomeLeader(l.epoch))
}

// ask sends a query to the coordinator, and its answer back. Both take time.
func (l *realLeader) ask(w partition.TxnWrite, answer func(error)) {
	s := l.s
	tps := []record.TopicPartition{l.p.TopicPartition()}
	back := func(err error) { s.send(func() { answer(toPartition(err)) }) }
	s.send(func() {
		if w.Version >= epochBump {
			s.step(EventAdd{ProducerID: w.ProducerID, Epoch: w.ProducerEpoch, Partitions: tps, Version: w.Version, Until: s.until(), To: 1}, func(_ any, err error) { back(err) })
			return
		}
		s.step(EventVerify{ProducerID: w.ProducerID, Epoch: w.ProducerEpoch, Partitions: tps, To: 1}, func(v any, err error) {
			if err == nil {
				err = v.([]error)[0]
			}
			back(err)
		})
	})
}

// toPartition converts the coordinator's error to the partition's.
func toPartition(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrConcurrent):
		return partition.ErrConcurrentTransactions
	case errors.Is(err, ErrAbortable):
		return partition.ErrTxnAbortable
	case errors.Is(err, ErrProducerFenced):
		return partition.ErrInvalidProducerEpoch
	case errors.Is(err, ErrInvalidProducerMapping):
		return partition.ErrProducerIDMapping
	}
	return partition.ErrNotEnoughReplicas // the coordinator has died
}

// fromPartition converts a partition's error to an error for the simulated producer.
func fromPartition(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, partition.ErrConcurrentTransactions), errors.Is(err, partition.ErrNotEnoughReplicas), errors.Is(err, partition.ErrNotLeader), errors.Is(err, partition.ErrClosed):
		return machine.ErrNotLeader
	case errors.Is(err, partition.ErrTxnAbortable), errors.Is(err, partition.ErrOutOfOrderSequence):
		return ErrAbortable
	case errors.Is(err, partition.ErrInvalidTxnState):
		return ErrInvalidState
	case errors.Is(err, partition.ErrInvalidProducerEpoch), errors.Is(err, partition.ErrProducerIDMapping):
		return ErrProducerFenced
	}
	panic(err)
}

func (l *realLeader) produce(s *sim, by Producer, txn *simTxn, seq int, done func(error)) {
	var b record.Builder
	b.SetProducer(by.ID, by.Epoch, int32(seq))
	b.SetTransactional(true)
	b.AppendKV(s.now.UnixMilli(), nil, []byte{byte(len(s.txns))}, nil)
	batch, err := b.Build(record.None)
	s.require(err == nil, "%v", err)
	write := func() {
		l.p.Produce(&partition.ProduceRequest{Batch: batch, Built: true, Acks: record.AcksAll, TransactionalID: "x", TxnVersion: s.version, Done: func(r partition.ProduceResult) {
			if errors.Is(r.Err, partition.ErrInvalidTxnState) {
				l.refused++
			}
			if r.Err == nil && !r.Duplicate {
				if l.open[by.ID] == nil {
					l.open[by.ID] = map[*simTxn]bool{}
				}
				l.open[by.ID][txn] = true
			}
			done(fromPartition(r.Err))
		}})
	}
	if !l.unguarded {
		write()
		return
	}
	l.ask(partition.TxnWrite{ProducerID: by.ID, ProducerEpoch: by.Epoch, Version: s.version}, func(err error) {
		if err != nil {
			done(fromPartition(err))
			return
		}
		write()
	})
}

func (l *realLeader) mark(s *sim, k *Markers, coordinator int32) {
	m := partition.TxnMarker{ProducerID: k.ProducerID, ProducerEpoch: k.Epoch, CoordinatorEpoch: coordinator, Commit: k.Commit, Version: k.Version}
	l.p.EndTransaction(m, func(r partition.ProduceResult) {
		if r.Err != nil {
			s.require(errors.Is(r.Err, partition.ErrInvalidProducerEpoch) || errors.Is(r.Err, partition.ErrCoordinatorFenced), "%v", r.Err)
			return
		}
		for txn := range l.open[k.ProducerID] {
			s.ends(l.number, txn, k.Commit)
		}
		delete(l.open, k.ProducerID)
	})
}

// shake changes the partition's leadership for a while, or closes and opens it.
func (l *realLeader) shake(s *sim) {
	l.epoch++
	if s.r.IntN(2) == 0 {
		l.p.BecomeFollower()
		require.NoError(l.t, l.p.BecomeLeader(l.epoch))
		return
	}
	require.NoError(l.t, l.p.Close())
	l.lead()
}

func (l *realLeader) rest(s *sim) {
	for _, st := range l.p.Producers() {
		s.require(st.TxnFirstOffset < 0, "producer %d is left open for ever in partition %d", st.ProducerID, l.number)
	}
	s.require(l.p.LastStableOffset() == l.p.HighWatermark() && l.p.HighWatermark() == l.p.LogEndOffset(), "readers are held up")
}

// runReal is run on three real partitions. It also returns the number of writes that came behind
// the marker of their transaction.
func runReal(t *testing.T, seed uint64, level, version int16, unguarded bool) (c counts, refused int, err error) {
	var leaders []*realLeader
	leader := func(s *sim, number int) simLeader {
		l := &realLeader{t: t, s: s, number: number, unguarded: unguarded, fs: vfs.Mem(), open: map[int64]map[*simTxn]bool{}}
		l.lead()
		leaders = append(leaders, l)
		return l
	}
	c, err = runWith(seed, level, version, version >= epochBump, leader)
	for _, l := range leaders {
		refused += l.refused
		require.NoError(t, l.p.Close())
	}
	return c, refused, err
}

// TestNothingIsOpenBehindItsMarker runs the histories of
// TestTransactionsHaveOneOutcomeWhateverIsLostRepeatedOrLate on partitions of package partition,
// which change their leadership and are restarted at times. Whatever is lost, repeated or late,
// every write in a transaction is ended by the marker behind it.
func TestNothingIsOpenBehindItsMarker(t *testing.T) {
	seeds := uint64(500)
	if sample.Hurried() {
		seeds = 150
	}
	for _, v := range []struct{ level, client int16 }{{0, 0}, {1, 0}, {2, 0}, {2, 2}} {
		t.Run(fmt.Sprintf("version %d, clients of %d", v.level, v.client), func(t *testing.T) {
			var all counts
			late := 0
			for seed := range seeds {
				c, refused, err := runReal(t, seed, v.level, v.client, false)
				require.NoError(t, err)
				all.add(c)
				late += refused
			}
			t.Logf("%d histories: %+v, %d writes behind their marker", seeds, all, late)
			require.Positive(t, all.commits)
			require.Positive(t, all.aborts)
			require.Positive(t, all.timeouts)
			if v.client < epochBump { // otherwise their epoch has ended
				require.Positive(t, late)
			}
		})
	}
}

// TestWithoutGuardsTransactionsHang shows that the histories detect missing guards: partitions
// that append a write which the coordinator accepted earlier.
func TestWithoutGuardsTransactionsHang(t *testing.T) {
	for _, level := range []int16{0, 1, 2} {
		hung := 0
		for seed := uint64(0); hung == 0; seed++ {
			require.Less(t, seed, uint64(2000), "nothing hangs")
			if _, _, err := runReal(t, seed, level, 0, true); err != nil {
				require.Regexp(t, "left open|never asked|two outcomes|torn", err.Error())
				if strings.Contains(err.Error(), "left open") {
					hung++
				}
			}
		}
	}
}
