package partition

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// modelTxn is a transaction of the model.
type modelTxn struct{ ended, aborted bool }

// modelRecord is a record of the model; markers take an offset and have no value.
type modelRecord struct {
	value string
	txn   *modelTxn
}

// A modelBatch is a batch that a client has sent, with its base offset.
type modelBatch struct {
	spec batchSpec
	base int64
}

// model is a partition without files: a list of records.
type model struct {
	records []modelRecord
	start   int64
	sent    map[int64][]modelBatch // by producer id, of the current epoch
	epoch   map[int64]int16
	open    map[int64]*modelTxn
	n       int
}

func (m *model) lastStable() int64 {
	for i, r := range m.records {
		if r.txn != nil && !r.txn.ended {
			return max(int64(i), m.start)
		}
	}
	return int64(len(m.records))
}

func (m *model) visible(isolation Isolation) (out []seen) {
	end := int64(len(m.records))
	if isolation == ReadCommitted {
		end = m.lastStable()
	}
	for i := m.start; i < end; i++ {
		r := m.records[i]
		if r.value != "" && (isolation == ReadUncommitted || r.txn == nil || !r.txn.aborted) {
			out = append(out, seen{i, r.value})
		}
	}
	return out
}

func (m *model) next(pid int64) int32 {
	s := m.sent[pid]
	if len(s) == 0 {
		return 0
	}
	last := s[len(s)-1].spec
	return last.seq + int32(last.n)
}

// TestPartitionAgreesWithAList runs random operations, including restarts, on a partition of tiny
// segments and on a list.
func TestPartitionAgreesWithAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := vfs.Mem()
		cfg := testConfig(fs)
		cfg.Log.SegmentBytes = rapid.SampledFrom([]int64{400, 1000, 1 << 20}).Draw(t, "segment bytes")
		m := &model{sent: map[int64][]modelBatch{}, epoch: map[int64]int16{}, open: map[int64]*modelTxn{}}
		leader := int32(0)
		p := modelOpen(t, cfg, leader)
		defer func() { _ = p.Close() }()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			pid := rapid.Int64Range(1, 3).Draw(t, "pid")
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); op {
			case 0:
				m.plain(t, p)
			case 1, 2, 3:
				m.produce(t, p, pid)
			case 4:
				m.retry(t, p, pid)
			case 5:
				m.refused(t, p, pid)
			case 6:
				m.end(t, p, pid)
			case 7:
				to := rapid.Int64Range(0, int64(len(m.records))).Draw(t, "delete before")
				got, err := p.DeleteRecords(to)
				require.NoError(t, err)
				m.start = max(m.start, to)
				require.Equal(t, m.start, got)
			case 8:
				next := fs
				switch rapid.IntRange(0, 2).Draw(t, "restart") {
				case 0:
					require.NoError(t, p.Close())
				case 1:
					next = fs.Kill()
				case 2:
					next = fs.Crash(rapid.Uint64().Draw(t, "crash seed"))
				}
				_ = p.Close() // the old process, if it still runs, has the old disk
				fs, cfg.Log.FS, leader = next, next, leader+1
				p = modelOpen(t, cfg, leader)
			}
			m.compare(t, p)
		}
	})
}

func modelOpen(t *rapid.T, cfg Config, epoch int32) *Partition {
	p, err := Open("p", cfg)
	require.NoError(t, err)
	require.NoError(t, p.BecomeLeader(epoch))
	return p
}

func (m *model) spec(t *rapid.T, pid int64) batchSpec {
	m.n++
	return batchSpec{pid: pid, epoch: m.epoch[pid], seq: m.next(pid), n: rapid.IntRange(1, 3).Draw(t, "n"), value: fmt.Sprintf("%d.", m.n)}
}

func (m *model) add(t *rapid.T, res ProduceResult, s batchSpec, txn *modelTxn) {
	require.NoError(t, res.Err)
	require.False(t, res.Duplicate)
	require.Equal(t, int64(len(m.records)), res.BaseOffset)
	for i := range s.n {
		m.records = append(m.records, modelRecord{fmt.Sprint(s.value, i), txn})
	}
}

func (m *model) plain(t *rapid.T, p *Partition) {
	s := m.spec(t, 0)
	m.add(t, send(p, s), s, nil)
}

func (m *model) produce(t *rapid.T, p *Partition, pid int64) {
	s := m.spec(t, pid)
	if rapid.IntRange(0, 9).Draw(t, "new epoch") == 0 && m.open[pid] == nil {
		m.epoch[pid]++
		m.sent[pid] = nil
		s.epoch, s.seq = m.epoch[pid], 0
	}
	s.txn = m.open[pid] != nil || rapid.Bool().Draw(t, "txn")
	if s.txn && m.open[pid] == nil {
		m.open[pid] = &modelTxn{}
	}
	base := int64(len(m.records))
	m.add(t, send(p, s), s, m.open[pid])
	m.sent[pid] = append(m.sent[pid], modelBatch{s, base})
}

// retry sends one of the last five batches again.
func (m *model) retry(t *rapid.T, p *Partition, pid int64) {
	sent := m.sent[pid]
	if len(sent) == 0 {
		return
	}
	back := rapid.IntRange(1, min(windowSize, len(sent))).Draw(t, "back")
	b := sent[len(sent)-back]
	res := send(p, b.spec)
	require.NoError(t, res.Err, "%d back", back)
	require.True(t, res.Duplicate)
	require.Equal(t, b.base, res.BaseOffset)
}

// refused sends batches that must be rejected.
func (m *model) refused(t *rapid.T, p *Partition, pid int64) {
	sent := m.sent[pid]
	if len(sent) == 0 {
		return
	}
	s := m.spec(t, pid)
	s.txn = m.open[pid] != nil
	switch rapid.IntRange(0, 3).Draw(t, "why") {
	case 0:
		s.seq++
		require.ErrorIs(t, send(p, s).Err, ErrOutOfOrderSequence)
	case 1:
		if s.epoch > 0 {
			s.epoch--
			require.ErrorIs(t, send(p, s).Err, ErrInvalidProducerEpoch)
		}
	case 2:
		if len(sent) > windowSize {
			require.ErrorIs(t, send(p, sent[len(sent)-windowSize-1].spec).Err, ErrOutOfOrderSequence)
		}
	case 3:
		if s.txn {
			s.txn = false
			require.ErrorIs(t, send(p, s).Err, ErrInvalidTxnState)
		}
	}
}

func (m *model) end(t *rapid.T, p *Partition, pid int64) {
	if m.epoch[pid] == 0 && len(m.sent[pid]) == 0 {
		return
	}
	abort := rapid.Bool().Draw(t, "abort")
	res := end(p, TxnMarker{ProducerID: pid, ProducerEpoch: m.epoch[pid], Commit: !abort})
	require.NoError(t, res.Err)
	require.Equal(t, int64(len(m.records)), res.BaseOffset)
	m.records = append(m.records, modelRecord{})
	if txn := m.open[pid]; txn != nil {
		txn.ended, txn.aborted = true, abort
		delete(m.open, pid)
	}
}

func (m *model) compare(t *rapid.T, p *Partition) {
	end := int64(len(m.records))
	require.Equal(t, end, p.LogEndOffset())
	require.Equal(t, end, p.HighWatermark())
	require.Equal(t, m.start, p.LogStartOffset())
	require.Equal(t, m.lastStable(), p.LastStableOffset())
	for _, isolation := range []Isolation{ReadCommitted, ReadUncommitted} {
		want := m.visible(isolation)
		from := rapid.Int64Range(m.start, end).Draw(t, "from")
		for len(want) > 0 && want[0].Offset < from {
			want = want[1:]
		}
		got, err := readFrom(p, from, isolation, rapid.SampledFrom([]int{1, 300, 1 << 20}).Draw(t, "max"))
		require.NoError(t, err)
		require.Equal(t, len(want), len(got))
		for i := range want {
			require.Equal(t, want[i], got[i])
		}
	}
	_, err := p.Read(ReadRequest{Offset: end + 1, CurrentLeaderEpoch: -1})
	require.ErrorIs(t, err, ErrOffsetOutOfRange)
	if m.start > 0 {
		_, err := p.Read(ReadRequest{Offset: m.start - 1, CurrentLeaderEpoch: -1})
		require.ErrorIs(t, err, ErrOffsetOutOfRange)
	}
}

// TestLostRequestsAndResponsesMakeNoDuplicatesAndNoGaps sends 100,000 records as an idempotent
// client with five batches in flight. The transport loses a fifth of all messages, and the
// partition restarts at times.
func TestLostRequestsAndResponsesMakeNoDuplicatesAndNoGaps(t *testing.T) {
	for _, dedupe := range []bool{true, false} {
		t.Run(fmt.Sprintf("dedupe=%t", dedupe), func(t *testing.T) {
			records := 100_000
			if testing.Short() || !dedupe {
				records = 10_000
			}
			got := lossyRun(t, records, dedupe)
			if !dedupe { // the counterpart: without producer ids the same run must fail
				require.Greater(t, len(got), records)
				return
			}
			require.Len(t, got, records)
			for i, r := range got {
				require.Equal(t, int64(i), r.Offset)
				require.Equal(t, fmt.Sprint(i), r.Value)
			}
		})
	}
}

func lossyRun(t *testing.T, records int, dedupe bool) []seen {
	const perBatch, inFlight = 10, 5
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := newRand(seed)
	fs := vfs.Mem()
	cfg := testConfig(fs)
	cfg.Log.SegmentBytes = 200_000
	p := reopen(t, cfg, 0)
	epoch := int32(0)
	batch := func(i int) []byte {
		s := batchSpec{n: perBatch}
		if dedupe {
			s.pid, s.seq = 1, int32(i*perBatch)
		}
		for j := range perBatch {
			s.values = append(s.values, fmt.Sprint(i*perBatch+j))
		}
		return s.build()
	}
	batches := records / perBatch
	written := 0 // batches in the log, without duplicates
	// Batches below acked are acknowledged. The batches in flight after them are sent again and
	// again, in order.
	for acked := 0; acked < batches; {
		confirmed, lost := 0, false
		for i := acked; i < min(acked+inFlight, batches); i++ {
			// The request is lost. The very first one is not, since an unknown producer may begin
			// with any sequence, as in Kafka.
			if rnd.IntN(10) == 0 && written > 0 {
				lost = true
				continue
			}
			res := sendBytes(p, batch(i), record.AcksAll)
			switch {
			case !dedupe:
				require.NoError(t, res.Err)
				written++
			case i > written:
				require.ErrorIs(t, res.Err, ErrOutOfOrderSequence, "batch %d behind a gap at %d", i, written)
			default:
				require.NoError(t, res.Err)
				require.Equal(t, i < written, res.Duplicate)
				written = max(written, i+1)
			}
			if lost = lost || rnd.IntN(10) == 0; !lost { // otherwise the response is lost
				confirmed++
			}
		}
		acked += confirmed
		if rnd.IntN(batches/10) == 0 {
			if rnd.IntN(2) == 0 {
				fs = fs.Kill()
			}
			require.NoError(t, p.Close())
			cfg.Log.FS = fs
			epoch++
			p = reopen(t, cfg, epoch)
		}
	}
	defer func() { require.NoError(t, p.Close()) }()
	return readAll(t, p, ReadCommitted)
}
