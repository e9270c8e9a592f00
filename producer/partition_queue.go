package producer

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// A partitionQueue collects and sends the records of one partition.
//
// Its batches form a queue, in the order in which they are to appear in the log. First come batches
// that are done, with the backend, or held for another attempt; then complete ones; at the end
// there may be an open one. Only the goroutine that has claimed the part (draining) sends batches
// to the backend, so they have the queue's order there. Only the goroutine that has claimed
// reporting runs callbacks.
type partitionQueue struct {
	p     *Producer
	topic string
	index int32
	timer watermark.Entry[*partitionQueue] // in sender.timers, guarded by sender.mu, as is timerAt
	// timerAt is the key of timer.
	timerAt int64

	// guards the fields below; never held during waits, calls of the backend or callbacks
	mu   sync.Mutex
	head *batch
	tail *batch // the open one, if it is open

	gathering       bool // gathered will be called
	unreportedBytes int  // bytes of chosen records since the last notification of growth

	draining  bool
	reporting *batch // its callbacks are running
	armed     int64  // time of tick; never: none

	topicID     topic.ID
	gone        bool  // the topic has no such partition at present
	layout      int64 // of the view of the last call of moved
	leader      int32 // -1: none
	leaderEpoch int32

	grew        bool  // the last batch that was sent is extended
	largest     int   // size up to which a batch that waits for MaxInFlight others grows
	outstanding int   // batches with the backend
	latency     int64 // shortest time from a request to its success, of one leader; 0: none yet
	measured    bool  // latency is of the present leader
	held        bool  // a batch is to be sent again: first wait for all outstanding ones
	retryAt     int64 // and then wait until then
	failures    int   // consecutive failures, for the back-off
	failure     error // the last one; nil: none since a success

	producerID    int64 // -1: none yet
	producerEpoch int16
	sequence      int32 // of the next record
	// the leader has seen this epoch. Until then it would accept any first sequence, so only one
	// batch is sent
	confirmed bool
	restart   restart
	unnamed   bool // waits for another producer id, or to be added to the transaction
	txn       *Txn // of the last batch that was sent, if the producer is transactional
	stopped   bool // a batch of the transaction has failed: later ones are not sent
}

func newPart(p *Producer, name string, index int32, id topic.ID, md replication.PartitionMetadata) *partitionQueue {
	pt := &partitionQueue{p: p, topic: name, index: index, topicID: id, leader: md.Leader, leaderEpoch: md.LeaderEpoch, largest: p.cfg.extendTo, producerID: -1, armed: never}
	pt.timer.Value = pt
	return pt
}

func (pt *partitionQueue) String() string { return fmt.Sprintf("%s-%d", pt.topic, pt.index) }

// growth is the effect of appends of chosen records on the batches of a partition.
type growth struct {
	bytes  int
	full   bool // no open batch is left, or it has BatchBytes and waits for others
	notify bool // the partitioner is to be notified: a batch was begun or filled, or grew by an eighth
}

// notifyFraction: a BatchAware partitioner is notified at least when this fraction of a batch has
// accumulated.
const notifyFraction = 8

// errMoved is returned when the partitions have changed since a record's partition was chosen: the
// caller chooses again.
var errMoved = errors.New("producer: partitions have changed")

// append adds r to the open batch, or to a new one. If it returns a part, which is pt, the caller
// has claimed it. It returns ErrClosed and errMoved.
func (pt *partitionQueue) append(r *record.Record, e *entry) (drain *partitionQueue, g growth, err error) {
	pt.mu.Lock()
	defer pt.mu.Unlock()
	// checked under the lock: Shutdown takes it after it has set closing, and then finds earlier
	// records
	if pt.p.closing.Load() {
		return nil, g, ErrClosed
	}
	if pt.gone || pt.layout != e.layout {
		return nil, g, errMoved
	}
	b, turned, expect := pt.tail, false, 0 // turned: there may be a batch to send now
	if b != nil && b.state == open {
		before, added := b.builder.Size(), b.add(r, e)
		if !added { // BatchBytes more are full
			steps := b.limit / pt.p.cfg.BatchBytes
			pt.p.coarse.full(b.count/int32(steps), (pt.p.now()-b.created)/int64(steps))
			turned, added = true, pt.extendLocked(b, e.size) && b.add(r, e)
		}
		if added {
			g.bytes = b.builder.Size() - before
		} else {
			b.state, expect, b = queued, min(b.limit, maxPooledBytes), nil
		}
	} else {
		b = nil
	}
	if b == nil {
		now, size := pt.p.now(), max(int64(expect), e.size)
		if pt.grew { // this one probably grows, too
			size = max(size, int64(pt.p.cfg.BatchBytes)+1)
		}
		b = pt.p.newBatch(pt, now, size)
		if expect > 0 { // the previous batch is full: this one will be, too
			b.builder.Expect(expect)
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
	if b.builder.Size() >= b.limit {
		if turned = true; !pt.extendLocked(b, 0) {
			b.state = queued
		}
	}
	if turned && pt.claimLocked() {
		drain, g.full = pt, !b.gathers // it is sent without more records
	}
	pt.noteGrowthLocked(b, &g, e.chosen, turned)
	return drain, g, nil
}

// extendLocked lets the open batch b grow by about BatchBytes, so that a record of at most size
// bytes fits, and reports whether it did. Only a batch that waits for MaxInFlight others of a
// distant leader grows: if it were complete it would wait, too, and the records that arrive
// meanwhile would wait longer. A leader is distant if even its fastest response took distantFrom.
// A close one is faster with batches that stay in the processor's cache.
func (pt *partitionQueue) extendLocked(b *batch, size int64) bool {
	n := b.builder.Size() + int(size)
	if n >= pt.largest || !pt.distantLocked() {
		return false
	}
	before := pt.head
	for range pt.windowLocked() {
		if before == b {
			return false
		}
		before = before.next
	}
	b.limit = min(n+pt.p.cfg.BatchBytes, pt.largest)
	b.builder.SetLimit(b.limit)
	b.builder.Expect(min(growthFactor*b.builder.Cap(), pt.largest))
	return true
}

// growthFactor: a batch that is extended copies less than doubling its memory would.
const growthFactor = 4

// distantLocked reports whether the leader is distant. Before the first response it is if the oldest
// batch has waited that long: a queue of small batches would limit the throughput until all of them
// are sent.
func (pt *partitionQueue) distantLocked() bool {
	if pt.latency == 0 && pt.head != nil {
		return pt.p.now()-pt.head.created >= distantFrom
	}
	return pt.latency >= distantFrom
}

// distantFrom is the latency from which MaxInFlight batches of BatchBytes in each such period limit
// the throughput: 160 MiB a second with the default Config.
const distantFrom = int64(2 * time.Millisecond)

// gatherLocked reports whether a new batch is to gather records. While batches fill within
// milliseconds, a batch sent as soon as the sender is idle would have few records, and each batch
// costs a write. The next tick of the coarse clock sends it at the latest.
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

// tick is called at the time requested by armLocked.
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

// armLocked schedules tick for the next event that depends only on time: the end of a batch's
// deadline, of a pause or of lingering. Events that are due but wait for a response or a leader are
// not scheduled again.
func (pt *partitionQueue) armLocked(now int64) {
	if pt.head == nil {
		return
	}
	at := never
	for b := pt.head; b != nil; b = b.next {
		if b.state != done { // done ones only wait to be reported
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

// hurry completes the open batch, so that it is sent without more records. A w that is not nil then
// waits for all batches.
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

// lastLocked returns the newest batch that is not reported yet.
func (pt *partitionQueue) lastLocked() *batch {
	if pt.tail != nil {
		return pt.tail
	}
	return pt.reporting
}
