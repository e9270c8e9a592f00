package producer

import (
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// claimLocked claims the draining of pt if there is something to drain and nobody at it. Who gets
// true has to call drain, or hand pt to the sender.
func (pt *partitionQueue) claimLocked() bool {
	if pt.draining || pt.head == nil || !pt.restartableLocked() && pt.pickLocked() == nil {
		return false
	}
	pt.draining = true
	return true
}

// drain sends what can be sent. The caller has claimed pt.
func (pt *partitionQueue) drain() {
	for pt.sendOne() {
	}
}

// drainSome is drain for a goroutine that has other things to do: after some batches it hands the
// rest to the sender.
func (pt *partitionQueue) drainSome() {
	for range 4 {
		if !pt.sendOne() {
			return
		}
	}
	pt.p.sender.hand(pt)
}

// sendOne sends one batch. It returns false if there is none to be sent now; the claim is given up
// then.
func (pt *partitionQueue) sendOne() bool {
	p := pt.p
	pt.mu.Lock()
	if p.txn != nil {
		pt.inTransactionLocked()
	}
	if pt.restartableLocked() {
		pt.restartLocked()
	}
	b := pt.pickLocked()
	if b == nil {
		pt.draining = false
		pt.mu.Unlock()
		return false
	}
	pt.assignLocked(b)
	b.state, b.leaderEpoch, b.topicID = sent, pt.leaderEpoch, pt.topicID
	pt.held = false
	var version int16
	if pt.txn != nil {
		version = pt.txn.version
	}
	pt.outstanding++
	pt.mu.Unlock()

	if b.bytes == nil {
		p.stats.batches.Add(1)
	} else {
		p.stats.retries.Add(1)
	}
	if err := b.encode(p.cfg.Compression, p.txn != nil); err != nil {
		b.attemptEnded(partition.ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1, Err: err})
		return true
	}
	req := b.req
	req.TopicPartition, req.TopicID = record.TopicPartition{Topic: pt.topic, Partition: pt.index}, b.topicID
	req.Built = true // what the builder has not written itself, rename has, with a new CRC
	if p.txn != nil {
		req.TransactionalID, req.TxnVersion = p.cfg.TransactionalID, version
	}
	req.Batch, req.Acks, req.Timeout, req.Done = b.bytes, p.cfg.Acks, p.cfg.RequestTimeout, b.doneFn
	b.handedAt = p.now()
	p.backend.Produce(req)
	return true
}

// pickLocked returns the batch to be sent next, nil if none can be now. See the package comment for
// the rules.
func (pt *partitionQueue) pickLocked() *batch {
	if pt.head == nil || pt.leader < 0 || pt.unnamed || pt.stopped {
		return nil
	}
	if pt.held && (pt.outstanding > 0 || pt.retryAt > 0 && pt.p.now() < pt.retryAt) {
		return nil
	}
	if pt.restart != noRestart {
		return pt.unclearLocked()
	}
	window := pt.windowLocked()
	for b, n := pt.head, 0; b != nil && n < window; b, n = b.next, n+1 {
		switch b.state {
		case queued:
			return b
		case open:
			if pt.lingeredLocked(b, n) {
				return b // it takes records until it is sent
			}
		case sent, done: // done ones count: the leader remembers only its last five batches
		}
	}
	return nil
}

// windowLocked is how far from the head of the queue batches may be sent.
func (pt *partitionQueue) windowLocked() int {
	if pt.p.cfg.idempotent && !pt.confirmed {
		return 1
	}
	if !pt.p.cfg.idempotent && pt.head.attempts > 0 {
		return 1 // nothing overtakes a batch that is tried again
	}
	return pt.p.cfg.MaxInFlight
}

// lingeredLocked reports whether an open batch, with n batches before it, has waited enough: for
// Linger, or until the others are through and it gathers no longer.
func (pt *partitionQueue) lingeredLocked(b *batch, n int) bool {
	if pt.p.cfg.Linger > 0 {
		return pt.p.now() >= b.created+int64(pt.p.cfg.Linger)
	}
	return n == 0 && !b.gathers
}

// unclearLocked returns, when sequence numbers have to start anew, a batch that may be in the log
// under its old ones: it is sent again with these first, one at a time, until the leader has taken
// it, or refused it as out of order, which says that it is not there.
func (pt *partitionQueue) unclearLocked() *batch {
	if pt.outstanding > 0 {
		return nil
	}
	for b := pt.head; b != nil; b = b.next {
		if b.state == queued && b.possiblyWritten {
			return b
		}
	}
	return nil
}

// restartableLocked reports whether sequence numbers have to start anew and can: no batch may be in
// the log under its old ones.
func (pt *partitionQueue) restartableLocked() bool {
	return pt.restart != noRestart && !pt.unnamed && pt.outstanding == 0 && pt.unclearLocked() == nil
}
