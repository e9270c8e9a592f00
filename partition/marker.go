package partition

import (
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// A TxnMarker ends the part of a transaction that is on one partition.
type TxnMarker struct {
	ProducerID    int64
	ProducerEpoch int16
	// CoordinatorEpoch is the leader epoch of the coordinator's own partition. It fences earlier
	// coordinators.
	CoordinatorEpoch int32
	Commit           bool          // false: abort
	Timeout          time.Duration // as in ProduceRequest

	// Version is the transaction.version that ends the transaction. From 2 on, a marker has the
	// epoch after that of its records, which is the epoch of the producer's next transaction. If a
	// transaction in that epoch is open, the marker is a late one of the previous transaction, and
	// is rejected with ErrInvalidProducerEpoch.
	Version int16
}

// EndTransaction appends a transaction marker for the transaction coordinator. It does not block.
// done is called once, without locks, when every in-sync replica has the marker. The marker is also
// appended if the producer has no open transaction in this partition.
//
// Errors: ErrNotLeader, ErrInvalidProducerEpoch, ErrCoordinatorFenced, ErrTimeout, ErrClosed, and
// errors of the log.
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
