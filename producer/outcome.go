package producer

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// answered handles the backend's response for b.
func (b *batch) answered(res partition.ProduceResult) {
	p := b.part.p
	b.took = p.now() - b.handedAt
	p.stats.answered.Add(1)
	p.stats.requestTime.Add(b.took)
	b.attemptEnded(res)
}

// attemptEnded handles the outcome of an attempt to send b. It runs on any goroutine of the
// backend, also from within Produce.
func (b *batch) attemptEnded(res partition.ProduceResult) {
	pt := b.part
	pt.mu.Lock()
	if b.orphan {
		pt.mu.Unlock()
		return
	}
	pt.outstanding--
	pt.decideLocked(b, res)
	report, drain := pt.claimReportLocked(), pt.claimLocked()
	pt.armLocked(pt.p.now())
	pt.mu.Unlock()
	if report {
		pt.report()
	}
	if drain {
		pt.p.sender.hand(pt)
	}
}

// decideLocked decides the next state of b: done, sent again, or split.
func (pt *partitionQueue) decideLocked(b *batch, res partition.ProduceResult) {
	p := pt.p
	if p.cfg.Acks == record.AcksNone { // losses go unnoticed
		res.Err, res.BaseOffset, res.LogAppendTimeMs, res.Records = nil, -1, -1, nil
	}
	if res.Err == nil {
		if res.Duplicate {
			p.stats.duplicates.Add(1)
		}
		pt.failures, pt.failure = 0, nil
		if b.took < pt.latency || !pt.measured {
			pt.latency, pt.measured = b.took, true
		}
		// the log of an earlier topic has no information about the new one's
		pt.confirmed = pt.confirmed || b.topicID == pt.topicID
		b.state, b.result, b.err = done, res, nil
		return
	}
	v := classify(res.Err)
	if !v.absent {
		b.tainted = true
		// else it may be in the log of the earlier topic, which was deleted
		b.possiblyWritten = b.possiblyWritten || b.topicID == pt.topicID
	}
	switch {
	case b.lost != nil:
		pt.failLocked(b, res, b.lost)
	case retriable.Final(res.Err):
		pt.failLocked(b, res, res.Err)
	case b.sequenced && errors.Is(res.Err, partition.ErrOutOfOrderSequence):
		pt.outOfOrderLocked(b, res)
	case b.sequenced && errors.Is(res.Err, partition.ErrInvalidProducerEpoch) && p.txn == nil:
		if b.possiblyWritten {
			pt.failLocked(b, res, fmt.Errorf("%w: %w", ErrFenced, res.Err))
			return
		}
		pt.restart = newID
		pt.retryLocked(b, res)
	case errors.Is(res.Err, partition.ErrRecordTooLarge) && b.count > 1 && !b.possiblyWritten:
		// batches that grow have to respect the topic's max.message.bytes, which is not known
		pt.largest = min(pt.largest, b.limit/2)
		if err := pt.splitLocked(b); err != nil {
			pt.failLocked(b, res, err)
		}
	case errors.Is(res.Err, partition.ErrRecordTooLarge):
		pt.failLocked(b, res, fmt.Errorf("%w: %w", ErrMessageTooLarge, res.Err))
	case v.retriable:
		pt.retryLocked(b, res)
	default:
		pt.failLocked(b, res, res.Err)
	}
}

// outOfOrderLocked handles a batch that the leader rejected because of a gap. It is not in the log.
// If an earlier batch is not settled, that is the cause, and the batch is sent after it. Otherwise
// the leader has lost its producer state, and sequence numbers restart.
func (pt *partitionQueue) outOfOrderLocked(b *batch, res partition.ProduceResult) {
	b.possiblyWritten = false
	for before := pt.head; before != b; before = before.next {
		if before.state != done {
			b.state, pt.held = queued, true
			return
		}
	}
	if pt.p.txn != nil {
		pt.failLocked(b, res, res.Err)
		return
	}
	pt.restart = max(pt.restart, newEpoch)
	pt.retryLocked(b, res)
}

// retryLocked schedules b for another attempt after a pause, unless its retries are used up.
func (pt *partitionQueue) retryLocked(b *batch, res partition.ProduceResult) {
	if limit := pt.p.cfg.Retries; limit != 0 && b.attempts >= max(limit, 0) {
		pt.failLocked(b, res, res.Err)
		return
	}
	b.attempts++
	b.state, b.result = queued, res // the result is kept for the error of a timeout
	b.err, pt.failure = res.Err, res.Err
	pt.held = true
	pt.retryAt = pt.p.now() + int64(pt.p.backoff(pt.failures))
	pt.failures++
	if pt.leaderEpoch != b.leaderEpoch || pt.topicID != b.topicID {
		pt.retryAt = 0 // the request went to the old leader: no need to wait for the new one (KIP-951)
	}
}

// backoff returns the pause after the given number of earlier failures.
func (p *Producer) backoff(failures int) time.Duration {
	d := float64(p.cfg.RetryBackoff) * math.Pow(2, float64(min(failures, 62)))
	d = min(d, float64(p.cfg.RetryBackoffMax))
	return time.Duration(d * (0.8 + 0.4*rand.Float64()))
}

// failLocked settles b with an error. Its sequence numbers are reused if no later ones were
// assigned and it is certainly not in the log. Otherwise they are a gap, and sequence numbers
// restart.
func (pt *partitionQueue) failLocked(b *batch, res partition.ProduceResult, err error) {
	b.state, b.result = done, res
	b.err = fmt.Errorf("produce to %v: %w", pt, err)
	if pt.p.txn != nil { // the transaction has to be aborted, and the next one begins with sequence 0
		pt.stopped = true
		if x := pt.p.txn.open.Load(); x != nil {
			x.fail(b.err)
		}
		return
	}
	if !b.sequenced {
		return
	}
	if !b.possiblyWritten && !b.orphan && (b.next == nil || !b.next.sequenced) {
		pt.sequence = b.sequence
		return
	}
	pt.restart = max(pt.restart, newEpoch)
}

// expireLocked fails the batches at the head of the queue whose deadline has passed.
func (pt *partitionQueue) expireLocked(now int64) {
	for b := pt.head; b != nil; b = b.next {
		if b.state == done {
			continue
		}
		if now < b.deadline {
			return
		}
		err := fmt.Errorf("%w after %v, not sent", ErrTimeout, pt.p.cfg.DeliveryTimeout)
		if b.state == sent || b.possiblyWritten {
			err = fmt.Errorf("%w after %v, may be in the log", ErrTimeout, pt.p.cfg.DeliveryTimeout)
		}
		if trouble := pt.troubleLocked(b); trouble != nil {
			err = fmt.Errorf("%w: %w", err, trouble)
		}
		pt.p.stats.expired.Add(1)
		pt.giveUpLocked(b, err)
	}
}

// troubleLocked returns why b is not settled: the last error of an attempt to send it or one of its
// predecessors, and of a request that has to succeed before another attempt. It returns nil if
// there was none.
func (pt *partitionQueue) troubleLocked(b *batch) error {
	trouble := b.err
	if trouble == nil {
		trouble = pt.failure
	}
	request := pt.p.unfollowed.Load()
	if pt.unnamed {
		if err := pt.p.ids.lastError(); err != nil {
			request = &err
		}
	}
	switch {
	case request == nil:
		return trouble
	case trouble == nil:
		return *request
	}
	return fmt.Errorf("%w: %w", trouble, *request)
}

// giveUpLocked fails b in any state.
func (pt *partitionQueue) giveUpLocked(b *batch, err error) {
	if b.state == sent {
		b.orphan = true
		pt.outstanding--
	}
	pt.failLocked(b, partition.ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1}, err)
}

// abort fails all batches with cause.
func (pt *partitionQueue) abort(cause error) {
	pt.mu.Lock()
	for b := pt.head; b != nil; b = b.next {
		if b.state != done {
			pt.giveUpLocked(b, cause)
		}
	}
	report := pt.claimReportLocked()
	pt.mu.Unlock()
	if report {
		pt.report()
	}
}

// claimReportLocked claims the reporting if the head is done and no goroutine reports. If it
// returns true, the caller must call report.
func (pt *partitionQueue) claimReportLocked() bool {
	if pt.reporting != nil || pt.head == nil || pt.head.state != done {
		return false
	}
	pt.takeLocked()
	return true
}

// takeLocked moves the head of the queue to reporting.
func (pt *partitionQueue) takeLocked() {
	b := pt.head
	pt.reporting, pt.head = b, b.next
	if pt.head == nil {
		pt.tail = nil
	}
	b.next = nil
}

// report releases the batches at the head that are done, in order: first their memory, then their
// callbacks. The caller has claimed it.
func (pt *partitionQueue) report() {
	p := pt.p
	for b := pt.reporting; b != nil; {
		p.memory.release(b.memory)
		if b.err == nil {
			p.stats.acknowledged.Add(int64(b.count))
		} else {
			p.stats.failed.Add(int64(b.count))
		}
		b.report()
		pt.mu.Lock()
		pt.reporting = nil
		flushes := b.flushes // no code adds to them any more
		next := pt.claimReportLocked()
		drain := pt.claimLocked() // the window has moved
		following := pt.reporting
		pt.mu.Unlock()
		for _, w := range flushes {
			w.one()
		}
		p.recycle(b)
		if drain {
			p.sender.hand(pt)
		}
		if !next {
			return
		}
		b = following
	}
}
