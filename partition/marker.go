package partition

import (
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// A TxnMarker ends the part of a transaction that lies on one partition.
type TxnMarker struct {
	ProducerID    int64
	ProducerEpoch int16
	// CoordinatorEpoch is the leader epoch of the coordinator's own partition. It fences the
	// coordinator's predecessors.
	CoordinatorEpoch int32
	Commit           bool          // false: abort
	Timeout          time.Duration // as in ProduceRequest

	// Version is the transaction.version by which the transaction ends. From 2 on its markers have
	// the epoch above that of its records, which is the one of the producer's next transaction:
	// while something is open in that epoch, the marker is a late one of the transaction before,
	// and is refused with ErrInvalidProducerEpoch.
	Version int16
}

// EndTransaction appends a transaction marker, as the transaction coordinator asks for it. It does
// not block; done is called once, without locks, when every in-sync replica has the marker. A
// producer that has nothing open here gets its marker too.
//
// Errors: ErrNotLeader, ErrInvalidProducerEpoch, ErrCoordinatorFenced, ErrTimeout, ErrClosed, and
// those of the log.
func (p *Partition) EndTransaction(m TxnMarker, done func(ProduceResult)) {
	epoch, err := p.checkEpoch(-1)
	req := &ProduceRequest{Acks: record.AcksAll, Timeout: m.Timeout, Done: done, p: p}
	req.result = ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: epoch}
	if err != nil {
		req.result.Err = p.wrap("end transaction", err)
		done(req.result)
		return
	}
	kind, now := record.ControlAbort, time.Now().UnixMilli()
	if m.Commit {
		kind = record.ControlCommit
	}
	req.marker = &marker{producerID: m.ProducerID, epoch: m.ProducerEpoch, coordinatorEpoch: m.CoordinatorEpoch, timestamp: now, aborted: !m.Commit, version: m.Version}
	batch := record.ControlBatch(nil, kind, m.CoordinatorEpoch, record.ControlInfo{
		LeaderEpoch: -1, TimestampMs: now, ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch,
	})
	req.append = log.Append{Batch: batch}
	req.append.Info, _ = record.ParseUnverified(batch)
	p.submit(req)
}
