package producer

import (
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// claimLocked claims the draining of pt if there is something to drain and no goroutine drains it.
// If it returns true, the caller must call drain, or hand pt to the sender.
func (pt *partitionQueue) claimLocked() bool {
	if pt.draining || pt.head == nil || !pt.restartableLocked() && pt.pickLocked() == nil {
		return false
	}
	pt.draining = true
	return true
}

// drain sends the batches that can be sent. The caller has claimed pt.
func (pt *partitionQueue) drain() {
	for pt.sendOne() {
	}
}

// drainSome is drain for a goroutine with other work: after some batches it leaves the rest to the
// sender.
func (pt *partitionQueue) drainSome() {
	for range 4 {
		if !pt.sendOne() {
			return
		}
	}
	pt.p.sender.hand(pt)
}

// sendOne sends one batch. If there is none to be sent now, it gives up the claim and returns
// false.
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
	pt.held, pt.grew = false, b.extended()
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
	req.Built = true // rename has written the fields that the builder did not, with a new CRC
	if p.txn != nil {
		req.TransactionalID, req.TxnVersion = p.cfg.TransactionalID, version
	}
	req.Batch, req.Acks, req.Timeout, req.Done = b.bytes, p.cfg.Acks, p.cfg.RequestTimeout, b.doneFn
	b.handedAt = p.now()
	p.backend.Produce(req)
	return true
}

// pickLocked returns the batch to be sent next, nil if there is none now. The package comment has
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
			if b.extended() || pt.lingeredLocked(b, n) {
				return b // it accepts records until it is sent
			}
		case sent, done: // done ones count: the leader stores only its last five batches
		}
	}
	return nil
}

// windowLocked returns the number of batches from the head of the queue that may be sent.
func (pt *partitionQueue) windowLocked() int {
	if pt.p.cfg.idempotent && !pt.confirmed {
		return 1
	}
	if !pt.p.cfg.idempotent && pt.head.attempts > 0 {
		return 1 // no batch may overtake a retried one
	}
	return pt.p.cfg.MaxInFlight
}

// lingeredLocked reports whether an open batch, with n batches before it, has waited long enough:
// for Linger, or until the others are done and it no longer gathers.
func (pt *partitionQueue) lingeredLocked(b *batch, n int) bool {
	if pt.p.cfg.Linger > 0 {
		return pt.p.now() >= b.created+int64(pt.p.cfg.Linger)
	}
	return n == 0 && !b.gathers
}

// unclearLocked is called when sequence numbers have to restart. It returns a batch that may be in
// the log under its old numbers. Such batches are first sent again with the old numbers, one at a
// time, until the leader accepts each, or rejects it as out of order, which means that it is not in
// the log.
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

// restartableLocked reports whether sequence numbers have to restart and can: no batch may be in
// the log under its old numbers.
func (pt *partitionQueue) restartableLocked() bool {
	return pt.restart != noRestart && !pt.unnamed && pt.outstanding == 0 && pt.unclearLocked() == nil
}
