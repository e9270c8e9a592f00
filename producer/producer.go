package producer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// A Producer writes records through a Backend. All methods are safe for concurrent use. The caller
// must close it before its backend.
type Producer struct {
	cfg        settings
	backend    Backend
	endSession func()    // of an Opener; else it does nothing
	versioned  versioned // the backend, if it has MetadataVersion; else nil
	start      time.Time // origin of the producer's clock, see now
	clock      atomic.Pointer[clock]
	coarse     coarseClock
	memory     memory
	sender     sender
	ids        identity
	txn        *transactions // nil: not transactional
	stats      counters
	batches    freeBatches
	calls      sync.Pool // of *sendCall

	accepting context.Context // ends when closing begins: waits to add a record end
	refuse    context.CancelFunc
	living    context.Context // ends when all records are settled
	stop      context.CancelFunc
	closing   atomic.Bool
	closed    chan struct{} // closed when Shutdown has completed
	closeErr  error         // valid when closed is closed
	wg        sync.WaitGroup

	// held while metadata are applied to topics, so that newer ones win; taken before all other
	// locks
	updating sync.Mutex

	// error of follow since its last success; nil: none
	unfollowed atomic.Pointer[error]

	topics topicTable
	// topic of the last record: usually also the topic of the next
	latest atomic.Pointer[topicParts]

	mu       sync.Mutex // guards the fields below; never held while waiting
	watching bool
	sealed   bool // no topics are added: closing has begun
	ended    bool // no goroutines are started any more
}

// New returns a producer that writes to b. It returns a *ConfigError, or several joined, if cfg is
// invalid, and the error of an Opener. It calls no other method of b, and does not block.
func New(b Backend, cfg Config) (*Producer, error) {
	s, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	end := func() {}
	if o, ok := b.(Opener); ok {
		if b, end, err = o.OpenProducer(Session{ClientID: s.ClientID, TransactionalID: s.TransactionalID, Acks: s.Acks}); err != nil {
			return nil, err
		}
	}
	v, _ := b.(versioned)
	p := &Producer{cfg: s, backend: b, endSession: end, versioned: v, start: time.Now(), closed: make(chan struct{})}
	p.clock.Store(&clock{at: p.start, wall: p.start.UnixNano()})
	p.coarse.alarm.Do = p.coarse.tick
	if s.TransactionalID != "" {
		t, ok := b.(TxnBackend)
		if !ok {
			end()
			return nil, &ConfigError{Key: "TransactionalID", Value: s.TransactionalID, Reason: "the backend has no transactions"}
		}
		p.txn = newTransactions(p, t.TxnCoordinator())
	}
	p.memory.limit = int64(s.MaxBufferedBytes)
	p.accepting, p.refuse = context.WithCancel(context.Background())
	p.living, p.stop = context.WithCancel(context.Background())
	p.sender.wake = make(chan struct{}, 1)
	p.wg.Go(func() { p.sender.run(p) })
	return p, nil
}

// ClusterID returns the id of the cluster that the producer writes to. It is empty if the backend
// has no method ClusterID. It does not block.
func (p *Producer) ClusterID() string {
	if b, ok := p.backend.(identified); ok {
		return b.ClusterID()
	}
	return ""
}

// now is the time on the producer's monotonic clock, in nanoseconds.
func (p *Producer) now() int64 { return int64(time.Since(p.start)) }

// spawn starts a goroutine that Shutdown waits for; fn must end with p.living. It returns false if
// the producer has ended.
func (p *Producer) spawn(fn func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.wg.Go(fn)
	}
	return !p.ended
}

// sealTopics prevents the addition of topics.
func (p *Producer) sealTopics() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sealed = true
}

// endSpawning prevents the start of goroutines.
func (p *Producer) endSpawning() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// SendAsync accepts r and returns. done, which may be nil, is called exactly once with the outcome
// of r: a nil error when r is written as Config.Acks requires. done's record is r with Partition
// (-1: none was chosen), Offset and LeaderEpoch (-1: unknown) and Timestamp filled in; Timestamp is
// unchanged if r was not accepted.
//
// Calls of done for one partition have the order of the SendAsync calls and never overlap. They run
// on goroutines of the producer or the backend, without locks, and must not block: Send, Flush and
// Close are not allowed in done. SendAsync is allowed, but may wait for memory.
//
// SendAsync waits while MaxBufferedBytes are buffered, and while the topic or its partition is
// unknown, until ctx ends or MaxBlock has passed. For a record that is not accepted
// (ErrMessageTooLarge, ErrRefused, ErrTimeout, ErrClosed, ctx's error, ...) done is called before
// SendAsync returns. Once r is accepted, ctx has no effect. The bytes of r are borrowed until
// SendAsync returns. With a TransactionalID every record fails with ErrNoTransaction.
func (p *Producer) SendAsync(ctx context.Context, r record.Record, done func(record.Record, error)) {
	if p.txn != nil {
		p.refused(r, done, ErrNoTransaction)
		return
	}
	pt, err := p.accept(ctx, &r, recipient{done: done})
	if err != nil {
		p.refused(r, done, err)
		return
	}
	if pt != nil {
		p.sender.hand(pt)
	}
}

// refused reports that a record was not accepted.
func (p *Producer) refused(r record.Record, done func(record.Record, error), err error) {
	p.stats.refused.Add(1)
	if done == nil {
		return
	}
	r.Offset, r.LeaderEpoch = -1, -1
	if _, explicit := r.ExplicitPartition(); !explicit {
		r.Partition = -1
	}
	done(r, err)
}

// accept adds r to the open batch of its partition. If it returns a partition, the caller must
// drain it. On error nothing has changed.
func (p *Producer) accept(ctx context.Context, r *record.Record, to recipient) (drain *partitionQueue, err error) {
	var at placement
	if err := p.prepare(ctx, r, to.call, &at); err != nil {
		return nil, err
	}
	return p.put(ctx, r, to, &at)
}

// A placement is the partition and the size of a record.
type placement struct {
	topic  *topicParts
	view   *topicView
	part   *partitionQueue
	chosen bool // by the partitioner
	tsMs   int64
	size   int64
}

// prepare checks r and chooses its partition.
func (p *Producer) prepare(ctx context.Context, r *record.Record, c *sendCall, at *placement) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at.topic, at.view, err = p.current(ctx, r.Topic, c); err != nil {
		return err
	}
	if r.Timestamp.IsZero() {
		at.tsMs = p.stamp()
	} else {
		at.tsMs = r.Timestamp.UnixMilli()
	}
	at.size = recordSize(r)
	if err := p.checkRecord(r, at.tsMs, at.size); err != nil {
		return err
	}
	at.part, at.chosen, err = p.place(ctx, at.topic, at.view.parts, r, c)
	return err
}

// put is accept for a record that is prepared.
func (p *Producer) put(ctx context.Context, r *record.Record, to recipient, at *placement) (drain *partitionQueue, err error) {
	if !p.memory.tryAcquire(at.size) {
		p.makeRoom(to.call)
		ctx, release := p.bounded(ctx)
		err := p.memory.acquire(ctx, at.size, p.cfg.MaxBlock)
		release()
		if err != nil {
			return nil, p.explain(err)
		}
	}
	e := entry{recipient: to, tsMs: at.tsMs, size: at.size, layout: at.view.layout, chosen: at.chosen && p.cfg.aware != nil}
	drain, grown, err := at.part.append(r, &e)
	for err != nil && errors.Is(err, errMoved) { // changed while the record was on its way
		p.awaitUpdate()
		if at.topic, at.view, err = p.current(ctx, r.Topic, to.call); err != nil {
			break
		}
		if at.part, at.chosen, err = p.place(ctx, at.topic, at.view.parts, r, to.call); err != nil {
			break
		}
		e.layout, e.chosen = at.view.layout, at.chosen && p.cfg.aware != nil
		drain, grown, err = at.part.append(r, &e)
	}
	if err != nil {
		p.memory.release(at.size)
		return nil, err
	}
	p.notifyPartitioner(at, grown)
	return drain, nil
}

// explain adds to an ErrTimeout of a wait for memory why records that occupy it are not settled.
func (p *Producer) explain(err error) error {
	if !errors.Is(err, ErrTimeout) {
		return err
	}
	var trouble error
	p.eachPart(func(pt *partitionQueue) {
		pt.mu.Lock()
		defer pt.mu.Unlock()
		if trouble == nil && pt.head != nil {
			trouble = pt.troubleLocked(pt.head)
		}
	})
	return withCause(err, trouble)
}

// notifyPartitioner notifies a BatchAware partitioner of the growth caused by records that it
// placed.
func (p *Producer) notifyPartitioner(at *placement, grown growth) {
	if grown.notify {
		p.cfg.aware.Appended(topic.Appended{
			Topic: at.topic.name, Partition: at.part.index, Partitions: len(at.view.parts), Bytes: grown.bytes, BatchBytes: p.cfg.BatchBytes, BatchFull: grown.full,
		})
	}
}

// makeRoom sends batches that the caller and lingering hold back, before a caller waits for memory.
func (p *Producer) makeRoom(c *sendCall) {
	c.sendHeld()
	p.coarse.endGathering()
	if p.cfg.Linger > 0 {
		p.eachPart(func(pt *partitionQueue) { pt.hurry(nil) })
	}
}

// Flush sends open batches without lingering. It returns when every record accepted before the call
// has its outcome and its callback has returned. If ctx ends first, Flush returns ctx's error, and
// the records are still sent. Errors of records are reported only to their callers.
func (p *Producer) Flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &flushWait{done: make(chan struct{})}
	w.left.Store(1)
	p.eachPart(func(pt *partitionQueue) { pt.hurry(w) })
	w.one()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flushWait counts the batches that a Flush waits for.
type flushWait struct {
	left atomic.Int64
	done chan struct{}
}

func (w *flushWait) one() {
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
}

func (p *Producer) eachPart(fn func(*partitionQueue)) {
	for t := range p.topics.all() {
		for _, pt := range t.view.Load().all {
			fn(pt)
		}
	}
}
