package partition

import (
	"slices"
	"time"

	"github.com/stratalog/strata/record"
)

// windowSize is how many of a producer's last batches are remembered: a retry of one of them is
// recognised. It is also the largest number of requests that an idempotent client may have in
// flight (Kafka: ProducerStateEntry.NUM_BATCHES_TO_RETAIN).
const windowSize = 5

// seqMask makes sequence numbers wrap to 0 after 2^31-1.
const seqMask = 1<<31 - 1

// A seqBatch is the state of one batch.
type seqBatch struct {
	lastSeq     int32
	offsetDelta int32 // last offset - base offset, as many sequence numbers
	lastOffset  int64
	timestamp   int64 // largest record timestamp
}

func (b seqBatch) firstSeq() int32   { return (b.lastSeq - b.offsetDelta) & seqMask }
func (b seqBatch) baseOffset() int64 { return b.lastOffset - int64(b.offsetDelta) }

// A producerEntry is the state of one producer id. It stays below 160 bytes: a client may make up
// ids as it likes.
type producerEntry struct {
	epoch            int16 // -1: none yet
	n                uint8 // batches in window, oldest first
	coordinatorEpoch int32 // of the newest transaction marker; -1: none
	txnFirstOffset   int64 // first offset of the open transaction; -1: none
	timestamp        int64 // of the newest batch or marker, record time in ms; in the snapshot
	// seen is the time at which this partition last received a batch of the producer, in ms of our
	// clock. It determines expiry.
	seen   int64
	window [windowSize]seqBatch
}

// last returns the newest remembered batch; ok is false if an epoch's first batch is still to come.
func (e *producerEntry) last() (b seqBatch, ok bool) {
	if e.n == 0 {
		return seqBatch{lastSeq: -1, lastOffset: -1}, false
	}
	return e.window[e.n-1], true
}

// push adds a batch and drops the sixth newest.
func (e *producerEntry) push(b seqBatch) {
	if e.n == windowSize {
		copy(e.window[:], e.window[1:])
		e.n--
	}
	e.window[e.n] = b
	e.n++
}

// raise moves the entry to an epoch; a change drops the batches of the old one.
func (e *producerEntry) raise(epoch int16) {
	if e.epoch != epoch {
		e.epoch, e.n = epoch, 0
	}
}

// producers is the state of all producer ids of a partition, and its transactions. It only
// computes: no lock, clock or I/O. The same apply and mark run live, on followers and at recovery.
// Kafka: ProducerStateManager.
type producers struct {
	m      map[int64]*producerEntry
	txns   transactions
	swept  int64 // when entries were last looked through for expired ones, ms
	expiry int64 // ms without an append after which an id expires
	// unread is the offset of the snapshot whose producers' older batches were not looked for in
	// the log yet; 0: none are missing.
	unread int64

	guards   map[int64][]*TxnGuard // of each producer id
	verifies bool                  // the first write of a transaction needs a guard
}

func newProducers(expiry time.Duration) *producers {
	return &producers{m: make(map[int64]*producerEntry), expiry: expiry.Milliseconds()}
}

// entry returns the state of pid, creating it.
func (s *producers) entry(pid, now int64) *producerEntry {
	e := s.m[pid]
	if e == nil {
		// Ids expire only when others are added, so the map is bounded without a timer per
		// partition.
		s.sweep(now)
		e = &producerEntry{epoch: -1, coordinatorEpoch: -1, txnFirstOffset: -1}
		s.m[pid] = e
	}
	e.seen = now
	return e
}

// apply applies a written data batch of a producer, whose first record has offset base. It is not
// checked again: check, or this follower's leader, has checked it.
func (s *producers) apply(b *record.Batch, base, now int64) {
	e := s.entry(b.ProducerID, now)
	e.raise(b.ProducerEpoch)
	e.push(seqBatch{
		lastSeq: b.LastSequence(), offsetDelta: b.LastOffsetDelta,
		lastOffset: base + int64(b.LastOffsetDelta), timestamp: b.MaxTimestamp,
	})
	e.timestamp = b.MaxTimestamp
	if b.IsTransactional() && e.txnFirstOffset < 0 {
		e.txnFirstOffset = base
		s.txns.begin(b.ProducerID, base)
		s.spend(b.ProducerID, b.ProducerEpoch)
	}
}

// fence applies a control batch without a marker. Compaction leaves one as the last trace of a
// producer that was fenced or has ended all its transactions. It neither begins nor ends a
// transaction, since its records have been removed.
func (s *producers) fence(b *record.Batch, now int64) {
	if e := s.entry(b.ProducerID, now); b.ProducerEpoch > e.epoch {
		e.raise(b.ProducerEpoch)
	}
}

// A marker is a transaction marker (COMMIT or ABORT control batch) in the log.
type marker struct {
	producerID       int64
	epoch            int16
	coordinatorEpoch int32
	offset           int64
	timestamp        int64
	aborted          bool
	version          int16 // transaction.version, while it is decided about
}

// mark applies a written marker. ok is false if the producer had no open transaction in this
// partition, else txn is the ended one.
func (s *producers) mark(m marker, now int64) (txn endedTxn, ok bool) {
	e := s.entry(m.producerID, now)
	e.raise(m.epoch)
	e.coordinatorEpoch, e.timestamp = m.coordinatorEpoch, m.timestamp
	if len(s.guards) > 0 {
		s.dropGuards(m.producerID, func(g *TxnGuard) bool { return g.ProducerEpoch <= m.ends() })
	}
	if e.txnFirstOffset < 0 {
		return endedTxn{}, false
	}
	txn = s.txns.end(m.producerID, e.txnFirstOffset, m)
	e.txnFirstOffset = -1
	return txn, true
}

// sweep drops producers without a batch for the expiry time, at most every ten minutes. Producers
// with an open transaction stay.
func (s *producers) sweep(now int64) {
	if now-s.swept < (10 * time.Minute).Milliseconds() {
		return
	}
	s.swept = now
	for pid, e := range s.m {
		if e.txnFirstOffset < 0 && now-e.seen >= s.expiry {
			delete(s.m, pid)
		}
	}
	s.sweepGuards(now - s.expiry)
}

// adopt completes the windows of s, whose oldest batch is a snapshot's, from an older state that
// was replayed up to the snapshot's offset. Later batches stay.
func (s *producers) adopt(older *producers) {
	for pid, e := range s.m {
		o := older.m[pid]
		if o == nil || e.n == 0 || e.n == windowSize || o.n < 2 || o.epoch != e.epoch {
			continue
		}
		// The timestamp is not compared: in the snapshot it may be a marker's.
		if last, mine := o.window[o.n-1], e.window[0]; last.lastOffset == mine.lastOffset && last.lastSeq == mine.lastSeq {
			all := append(slices.Clone(o.window[:o.n-1]), e.window[:e.n]...)
			all = all[max(len(all)-windowSize, 0):]
			e.n = uint8(copy(e.window[:], all))
		}
	}
}

// A ProducerState describes one producer id in one partition. Kafka: DescribeProducers.
type ProducerState struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32 // -1: no sequence in this epoch yet
	LastOffset       int64 // of its newest batch; -1: unknown
	LastTimestampMs  int64
	CoordinatorEpoch int32 // of the newest transaction marker; -1: none
	TxnFirstOffset   int64 // first offset of its open transaction; -1: none
}

// states lists all entries by producer id.
func (s *producers) states() []ProducerState {
	out := make([]ProducerState, 0, len(s.m))
	for pid, e := range s.m {
		last, _ := e.last()
		out = append(out, ProducerState{
			ProducerID: pid, Epoch: e.epoch, LastSequence: last.lastSeq, LastOffset: last.lastOffset,
			LastTimestampMs: e.timestamp, CoordinatorEpoch: e.coordinatorEpoch, TxnFirstOffset: e.txnFirstOffset,
		})
	}
	slices.SortFunc(out, func(a, b ProducerState) int {
		if a.ProducerID < b.ProducerID {
			return -1
		}
		return 1
	})
	return out
}
