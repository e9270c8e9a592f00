package producer

import (
	"errors"
	"fmt"
	"sync"

	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// A partitionQueue collects and sends the records of one partition.
//
// Its batches form a queue, in the order in which they are to appear in the log: first some that
// are done or with the backend, or held to be sent again, then complete ones, at the end perhaps an
// open one. Only the goroutine that has claimed the part (draining) takes batches to the backend,
// so their order there is the queue's; only the one that has claimed reporting runs callbacks.
type partitionQueue struct {
	p     *Producer
	topic string
	index int32
	timer watermark.Entry[*partitionQueue] // in sender.timers, guarded by sender.mu, as is timerAt
	// timerAt is the key of timer.
	timerAt int64

	// guards the fields below; never held while waiting, nor in a call of the backend or a callback
	mu   sync.Mutex
	head *batch
	tail *batch // the open one, if it is open

	gathering       bool // gathered will be called
	unreportedBytes int  // bytes of chosen records since the last growth that was told

	draining  bool
	reporting *batch // its callbacks are running
	armed     int64  // when tick comes; never: not at all

	topicID     topic.ID
	gone        bool  // the topic has no such partition now
	layout      int64 // of the view that moved was called with
	leader      int32 // -1: none
	leaderEpoch int32

	outstanding int   // batches with the backend
	held        bool  // some batch is to be sent again: first let all outstanding ones come back
	retryAt     int64 // and then wait until then
	failures    int   // in a row, for the back-off

	producerID    int64 // -1: none yet
	producerEpoch int16
	sequence      int32 // of the next record
	// the leader has seen this epoch: before, it would take any first sequence, so one batch goes
	// ahead
	confirmed bool
	restart   restart
	unnamed   bool // waits for another producer id, or to be in the transaction
	txn       *Txn // of the last batch that was sent, if the producer is transactional
	stopped   bool // a batch of the transaction has failed: nothing behind it is sent
}

func newPart(p *Producer, name string, index int32, id topic.ID, md replication.PartitionMetadata) *partitionQueue {
	pt := &partitionQueue{p: p, topic: name, index: index, topicID: id, leader: md.Leader, leaderEpoch: md.LeaderEpoch, producerID: -1, armed: never}
	pt.timer.Value = pt
	return pt
}

func (pt *partitionQueue) String() string { return fmt.Sprintf("%s-%d", pt.topic, pt.index) }

// growth is what appends of chosen records did to the batches of a partition.
type growth struct {
	bytes int
	full  bool // no open batch is left
	told  bool // the partitioner is to be told: one was begun or filled, or it was an eighth of one
}

// notifyFraction is how often at least a partitioner is told of what makes a batch.
const notifyFraction = 8

// errMoved says that the partitions have changed since a record was placed: the caller looks again
// where it belongs.
var errMoved = errors.New("producer: partitions have changed")

// append puts r into the open batch, or a new one. If it returns a part, which is pt, the caller
// has claimed it. It returns ErrClosed and errMoved.
func (pt *partitionQueue) append(r *record.Record, e *entry) (drain *partitionQueue, g growth, err error) {
	pt.mu.Lock()
	defer pt.mu.Unlock()
	// checked under the lock: Shutdown takes it after it has set closing, and then finds what came
	// before
	if pt.p.closing.Load() {
		return nil, g, ErrClosed
	}
	if pt.gone || pt.layout != e.layout {
		return nil, g, errMoved
	}
	b, turned := pt.tail, false // turned: there may be something to send now
	if b != nil && b.state == open {
		before := b.builder.Size()
		if b.add(r, e) {
			g.bytes = b.builder.Size() - before
		} else {
			pt.p.coarse.full(b.count, pt.p.now()-b.created)
			b.state, b, turned = queued, nil, true
		}
	} else {
		b = nil
	}
	if b == nil {
		now := pt.p.now()
		b = pt.p.newBatch(pt, now)
		if turned { // the one before is full: so will be this one
			b.builder.Expect(min(pt.p.cfg.BatchBytes, maxPooledBytes))
		}
		if !b.add(r, e) {
			return nil, g, fmt.Errorf("%w: %d bytes for topic %s", ErrMessageTooLarge, e.size, pt.topic)
		}
		g.bytes, turned = b.builder.Size(), true
		b.gathers = pt.gatherLocked()
		pt.pushLocked(b, now)
	}
	if e.call != nil && b.gathers {
		b.gathers, turned = false, true // its caller waits
	}
	if b.builder.Size() >= pt.p.cfg.BatchBytes {
		b.state, turned = queued, true
	}
	g.full = b.state != open
	if turned && pt.claimLocked() {
		g.full = g.full || !b.gathers // it goes as it is
		drain = pt
	}
	pt.noteGrowthLocked(&g, e.chosen, turned)
	return drain, g, nil
}

// gatherLocked reports whether a new batch is to gather records. While batches fill up within
// milliseconds, one that went as soon as the sender is idle would have few of them, and each costs
// a write; the next tick of the coarse clock sends it at the latest.
func (pt *partitionQueue) gatherLocked() bool {
	if !pt.gathering && pt.p.cfg.Linger == 0 {
		pt.gathering = pt.p.coarse.gather(pt)
	}
	return pt.gathering
}

// gathered ends the gathering of the open batch.
func (pt *partitionQueue) gathered() {
	pt.mu.Lock()
	pt.gathering = false
	if pt.tail != nil {
		pt.tail.gathers = false
	}
	drain := pt.claimLocked()
	pt.mu.Unlock()
	if drain {
		pt.p.sender.hand(pt)
	}
}

func (pt *partitionQueue) pushLocked(b *batch, now int64) {
	if pt.tail == nil {
		pt.head, pt.tail = b, b
	} else {
		pt.tail.next = b
		pt.tail = b
	}
	pt.armLocked(now)
}

// tick is called when the time has come that armLocked asked for.
func (pt *partitionQueue) tick() {
	now := pt.p.now()
	pt.mu.Lock()
	pt.armed = never
	pt.expireLocked(now)
	report, drain := pt.claimReportLocked(), pt.claimLocked()
	pt.armLocked(now)
	pt.mu.Unlock()
	if report {
		pt.report()
	}
	if drain {
		pt.drain()
	}
}

// armLocked has tick come in time for the next thing that only time brings: the end of a batch's
// deadline, of a pause or of lingering. What is due already and cannot be done, because it waits
// for an answer or a leader, is not asked for again.
func (pt *partitionQueue) armLocked(now int64) {
	if pt.head == nil {
		return
	}
	at := never
	for b := pt.head; b != nil; b = b.next {
		if b.state != done { // those that are done only wait for their report
			at = b.deadline
			break
		}
	}
	if pt.held && pt.outstanding == 0 && pt.retryAt > now {
		at = min(at, pt.retryAt)
	}
	if l := pt.tail.created + int64(pt.p.cfg.Linger); pt.tail.state == open && l > now {
		at = min(at, l)
	}
	if at < pt.armed {
		pt.armed = at
		pt.p.sender.schedule(pt, at)
	}
}

// hurry completes the open batch, so that it is sent without company. A w that is not nil gets to
// wait for everything there is.
func (pt *partitionQueue) hurry(w *flushWait) {
	pt.mu.Lock()
	if pt.tail != nil && pt.tail.state == open {
		pt.tail.state = queued
	}
	if last := pt.lastLocked(); w != nil && last != nil {
		w.left.Add(1)
		last.flushes = append(last.flushes, w)
	}
	drain := pt.claimLocked()
	pt.mu.Unlock()
	if drain {
		pt.p.sender.hand(pt)
	}
}

// lastLocked returns the newest batch that has not told everyone yet.
func (pt *partitionQueue) lastLocked() *batch {
	if pt.tail != nil {
		return pt.tail
	}
	return pt.reporting
}
