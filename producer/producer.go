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

// A Producer writes records through a Backend. All methods are safe for concurrent use. It must be
// closed, before its backend.
type Producer struct {
	cfg       settings
	backend   Backend
	versioned versioned // the backend, if it tells the version of its metadata; else nil
	start     time.Time // origin of the producer's clock, see now
	clock     atomic.Pointer[clock]
	coarse    coarseClock
	memory    memory
	sender    sender
	ids       identity
	stats     counters
	batches   freeBatches
	calls     sync.Pool // of *sendCall

	accepting context.Context // ends when closing begins: nobody waits to get a record in any more
	refuse    context.CancelFunc
	living    context.Context // ends when everything is settled
	stop      context.CancelFunc
	closing   atomic.Bool
	closed    chan struct{} // closed when Shutdown is through
	closeErr  error         // valid then
	wg        sync.WaitGroup

	// held while topics are brought in line with metadata, so that newer ones win; taken before all
	// other locks
	updating sync.Mutex

	topics atomic.Pointer[map[string]*topicParts] // replaced under mu
	// the one of the last record: mostly the next one's, too
	latest atomic.Pointer[topicParts]

	mu       sync.Mutex // guards the fields below; never held while waiting
	watching bool
	sealed   bool // no more topics: closing has begun
	ended    bool // no more goroutines may be started
}

// New returns a producer on b. It returns a *ConfigError, or several joined, if cfg is not valid.
// It does not call b.
func New(b Backend, cfg Config) (*Producer, error) {
	s, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	v, _ := b.(versioned)
	p := &Producer{cfg: s, backend: b, versioned: v, start: time.Now(), closed: make(chan struct{})}
	p.clock.Store(&clock{at: p.start, wall: p.start.UnixNano()})
	p.coarse.alarm.Do = p.coarse.tick
	p.memory.limit = int64(s.MaxBufferedBytes)
	p.topics.Store(&map[string]*topicParts{})
	p.accepting, p.refuse = context.WithCancel(context.Background())
	p.living, p.stop = context.WithCancel(context.Background())
	p.sender.wake = make(chan struct{}, 1)
	p.wg.Go(func() { p.sender.run(p) })
	return p, nil
}

// now is the time on the producer's monotonic clock, in nanoseconds.
func (p *Producer) now() int64 { return int64(time.Since(p.start)) }

// spawn starts a goroutine that Shutdown waits for; fn must end with p.living.
func (p *Producer) spawn(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.wg.Go(fn)
	}
}

// sealTopics lets no topic be added any more.
func (p *Producer) sealTopics() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sealed = true
}

// endSpawning lets no goroutine be started any more.
func (p *Producer) endSpawning() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// SendAsync accepts r and returns; done, which may be nil, is called exactly once when r is
// settled: with a nil error when it is written as Config.Acks says. The record passed to done is r
// with Partition (-1: none was chosen), Offset and LeaderEpoch (-1: unknown) and Timestamp (as it
// was, if r is not accepted) filled in.
//
// For one partition the calls of done follow the order of the calls of SendAsync, and never
// overlap. They run on goroutines of the producer or the backend, without locks, and must not
// block: no Send, Flush or Close in there. SendAsync is allowed, but may wait for memory.
//
// SendAsync waits while MaxBufferedBytes are buffered and while the topic or its partition is
// unknown, until ctx ends or MaxBlock has passed. A record that is not accepted
// (ErrMessageTooLarge, ErrRefused, ErrTimeout, ErrClosed, ctx's error, ...) has its done called
// before SendAsync returns. Once r is accepted ctx has no influence. The bytes of r are borrowed
// until SendAsync returns.
func (p *Producer) SendAsync(ctx context.Context, r record.Record, done func(record.Record, error)) {
	pt, err := p.accept(ctx, &r, recipient{done: done})
	if err != nil {
		p.stats.refused.Add(1)
		if done != nil {
			r.Offset, r.LeaderEpoch = -1, -1
			if _, explicit := r.ExplicitPartition(); !explicit {
				r.Partition = -1
			}
			done(r, err)
		}
		return
	}
	if pt != nil {
		p.sender.hand(pt)
	}
}

// accept puts r into the open batch of its partition. If it returns a partition, the caller has the
// right and the duty to drain it. The error path leaves no trace.
func (p *Producer) accept(ctx context.Context, r *record.Record, to recipient) (drain *partitionQueue, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, view, err := p.current(ctx, r.Topic, to.call)
	if err != nil {
		return nil, err
	}
	var tsMs int64
	if r.Timestamp.IsZero() {
		tsMs = p.stamp()
	} else {
		tsMs = r.Timestamp.UnixMilli()
	}
	size := recordSize(r)
	if err := p.checkRecord(r, tsMs, size); err != nil {
		return nil, err
	}
	pt, chosen, err := p.place(ctx, t, view.parts, r, to.call)
	if err != nil {
		return nil, err
	}
	if !p.memory.tryAcquire(size) {
		p.makeRoom(to.call)
		if err := p.memory.acquire(ctx, size, p.cfg.MaxBlock); err != nil {
			return nil, err
		}
	}
	e := entry{recipient: to, tsMs: tsMs, size: size, layout: view.layout, chosen: chosen && p.cfg.aware != nil}
	drain, grown, err := pt.append(r, &e)
	for err != nil && errors.Is(err, errMoved) { // while the record was on its way to it
		p.awaitUpdate()
		if t, view, err = p.current(ctx, r.Topic, to.call); err != nil {
			break
		}
		if pt, chosen, err = p.place(ctx, t, view.parts, r, to.call); err != nil {
			break
		}
		e.layout, e.chosen = view.layout, chosen && p.cfg.aware != nil
		drain, grown, err = pt.append(r, &e)
	}
	if err != nil {
		p.memory.release(size)
		return nil, err
	}
	if grown.told {
		p.cfg.aware.Appended(topic.Appended{
			Topic: t.name, Partition: pt.index, Partitions: len(view.parts), Bytes: grown.bytes, BatchBytes: p.cfg.BatchBytes, BatchFull: grown.full,
		})
	}
	return drain, nil
}

// makeRoom sends what the caller and lingering batches hold back, before someone waits for memory.
func (p *Producer) makeRoom(c *sendCall) {
	c.sendHeld()
	if p.cfg.Linger > 0 {
		p.eachPart(func(pt *partitionQueue) { pt.hurry(nil) })
	}
}

// Flush sends what is waiting for company, and returns when every record accepted before the call
// is settled and its callback has returned. It returns ctx's error if that ends first; the records
// go on. Errors of records are reported to their callers, not here.
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
	for _, t := range *p.topics.Load() {
		for _, pt := range t.view.Load().all {
			fn(pt)
		}
	}
}
