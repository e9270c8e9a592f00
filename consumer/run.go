package consumer

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/stratalog/strata/record"
)

// A Handler processes one record. A nil error means processed. ctx is cancelled, with cause ErrRebalanced, when the record's partition
// has gone to another member before the handler was done, and when Run's own end has waited for DrainTimeout.
type Handler func(ctx context.Context, r record.Record) error

// RunOrder says which records are processed one after the other.
type RunOrder uint8

const (
	ByPartition RunOrder = iota // the records of a partition, in offset order
	ByKey                       // the records of a key, in offset order; those without a key by partition
)

// Defaults of RunConfig.
const (
	DefaultMaxInFlight  = 1000
	DefaultMinBackoff   = 100 * time.Millisecond
	DefaultMaxBackoff   = 10 * time.Second
	DefaultDrainTimeout = 30 * time.Second
)

// RunConfig describes a Run. The zero RunConfig is valid.
type RunConfig struct {
	Workers     int      // goroutines that run the handler. 0: GOMAXPROCS
	Order       RunOrder // ByPartition
	MaxInFlight int      // records of a partition handed to workers and not done; fetching it pauses there. 0: 1000

	// A handler that fails is called again, up to Retries times (0: not again), after MinBackoff (0: 100 ms) doubling up to MaxBackoff
	// (0: 10 s), with jitter. Records behind it in its order wait.
	Retries                int
	MinBackoff, MaxBackoff time.Duration
	// DeadLetter gets a record that failed for good; nil from it counts as processed. An error, or no DeadLetter, ends Run with the
	// handler's error. DeadLetterTopic makes one.
	DeadLetter func(ctx context.Context, r record.Record, err error) error

	// DrainTimeout bounds the wait for handlers at work when a partition is revoked and when Run ends. 0: 30 s.
	DrainTimeout time.Duration
}

func (c RunConfig) withDefaults() (RunConfig, error) {
	if c.Workers < 0 || c.MaxInFlight < 0 || c.Retries < 0 || c.MinBackoff < 0 || c.MaxBackoff < 0 || c.DrainTimeout < 0 || c.Order > ByKey {
		return c, &ConfigError{"RunConfig", "a number is negative, or the order is unknown"}
	}
	setDefault(&c.Workers, runtime.GOMAXPROCS(0))
	setDefault(&c.MaxInFlight, DefaultMaxInFlight)
	setDefault(&c.MinBackoff, DefaultMinBackoff)
	setDefault(&c.MaxBackoff, max(DefaultMaxBackoff, c.MinBackoff))
	setDefault(&c.DrainTimeout, DefaultDrainTimeout)
	return c, nil
}

// Run processes records with a pool of workers until ctx is done, Wakeup or Close (nil), or something fails for good.
//
// Records may be done in any order; the offset that counts as processed is the end of the contiguous prefix of done ones, so nothing
// is skipped: with CommitProcessed that is what is committed. When a partition is revoked, its waiting records are dropped, handlers at
// work get DrainTimeout, then it goes. Run returns when the last handler has returned.
func (c *Consumer) Run(ctx context.Context, h Handler, cfg RunConfig) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	if c.cfg.Commit == CommitBeforeDelivery {
		return &ConfigError{"Commit", "CommitBeforeDelivery loses what workers have in hand in any order: use Records or Poll"}
	}
	if err := c.startPolling(true); err != nil {
		return err
	}
	defer c.stopPolling()
	defer context.AfterFunc(ctx, c.lookUp)()
	r := &runner{c: c, cfg: cfg, handle: h, seed: maphash.MakeSeed(), tracks: map[*part]*track{}}
	for range cfg.Workers {
		w := &worker{ready: make(chan struct{}, 1)}
		r.workers = append(r.workers, w)
		r.wg.Go(func() { r.work(w) })
	}
	c.setRunner(r)
	err = r.dispatch(ctx)
	r.stop()
	c.setRunner(nil)
	if c.quiet(ctx, err) {
		return nil
	}
	return err
}

func (c *Consumer) setRunner(r *runner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runner = r
}

// A runner is one Run at work.
type runner struct {
	c       *Consumer
	cfg     RunConfig
	handle  Handler
	seed    maphash.Seed
	workers []*worker
	wg      sync.WaitGroup

	mu     sync.Mutex // guards the fields below and the workers' queues; taken after Consumer.mu
	tracks map[*part]*track
	failed error
	ended  bool
}

// A worker takes jobs in order. Its queue is bounded by MaxInFlight of each partition.
type worker struct {
	queue []job
	ready chan struct{} // capacity 1
}

type job struct {
	t   *track
	seq int64
	r   record.Record
}

// dispatch hands records to the workers.
func (r *runner) dispatch(ctx context.Context) error {
	for {
		p, err := r.c.next(ctx)
		if failed := r.err(); failed != nil {
			return failed
		}
		if err != nil {
			if isFinal(err) && !r.c.isFatal(err) {
				r.c.cfg.Logger.Error("partition cannot be read, going on without it", "err", err)
				continue
			}
			return err
		}
		if err := r.feed(p); err != nil {
			r.c.cfg.Logger.Error("partition cannot be read, going on without it", "err", err)
		}
	}
}

// feed hands out what is fetched of p, up to MaxInFlight.
func (r *runner) feed(p *part) error {
	t := r.trackOf(p)
	for !r.c.dirty.Load() {
		if !r.room(t) {
			return nil
		}
		var rec record.Record
		ok, err := p.chunk.record(p.tp, &rec)
		if err != nil {
			return r.c.damaged(p, err)
		}
		if !ok {
			p.chunkDone()
			return nil
		}
		t.d.position.Store(rec.Offset + 1)
		r.c.records.Add(1)
		r.push(t, rec)
	}
	return nil
}

// push queues a record with its worker.
func (r *runner) push(t *track, rec record.Record) {
	i := maphash.Comparable(r.seed, t.p.tp)
	if r.cfg.Order == ByKey && rec.Key != nil {
		i = maphash.Bytes(r.seed, rec.Key)
	}
	w := r.workers[i%uint64(len(r.workers))]
	r.mu.Lock()
	w.queue = append(w.queue, job{t, t.add(rec.Offset, rec.LeaderEpoch), rec})
	r.mu.Unlock()
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

func (r *runner) work(w *worker) {
	for {
		r.mu.Lock()
		if len(w.queue) == 0 {
			ended := r.ended
			r.mu.Unlock()
			if ended {
				return
			}
			<-w.ready
			continue
		}
		j := w.queue[0]
		w.queue[0] = job{}
		w.queue = w.queue[1:]
		dropped := j.t.closing
		if !dropped {
			j.t.running++
		}
		r.mu.Unlock()
		if dropped {
			continue
		}
		err := r.process(j)
		r.finish(j, err)
	}
}

// process calls the handler until it is content, or for the last time.
func (r *runner) process(j job) error {
	ctx := j.t.ctx
	backoff := r.cfg.MinBackoff
	var err error
	for try := 0; ; try++ {
		if err = r.handle(ctx, j.r); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if try == r.cfg.Retries {
			break
		}
		t := time.NewTimer(backoff/2 + rand.N(backoff/2+1))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
		backoff = min(2*backoff, r.cfg.MaxBackoff)
	}
	err = &PartitionError{j.t.p.tp, j.r.Offset, fmt.Errorf("handler: %w", err)}
	if r.cfg.DeadLetter == nil {
		return err
	}
	if dead := r.cfg.DeadLetter(ctx, j.r, err); dead != nil {
		return errors.Join(err, fmt.Errorf("consumer: dead letter: %w", dead))
	}
	return nil
}

// finish notes the outcome of a job and wakes whoever waits for it.
func (r *runner) finish(j job, err error) {
	r.mu.Lock()
	j.t.running--
	if err == nil {
		j.t.done(j.seq)
	} else if r.failed == nil && !j.t.cancelled {
		r.failed = err
	}
	wake := err != nil || j.t.throttled && j.t.inFlight() <= r.cfg.MaxInFlight/2
	if wake {
		j.t.throttled = false
	}
	if j.t.running == 0 && j.t.closing {
		j.t.closeIdle()
	}
	r.mu.Unlock()
	r.c.progress.Add(1)
	if wake {
		r.c.mu.Lock()
		r.c.wakeLocked()
		r.c.mu.Unlock()
	}
}

func (r *runner) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// room reports whether t may have one more record in flight, and remembers to be woken if not.
func (r *runner) room(t *track) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.throttled = t.inFlight() >= r.cfg.MaxInFlight
	return !t.throttled
}

// full reports whether p must not be handed out or fetched now. Called under Consumer.mu.
func (r *runner) full(p *part) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tracks[p]
	return t != nil && t.throttled
}

// drain waits for the handlers of the given partitions, then cancels them: the partitions go. Lost ones are cancelled at once.
func (r *runner) drain(ctx context.Context, parts []*part, wait bool) {
	deadline := time.NewTimer(r.cfg.DrainTimeout)
	defer deadline.Stop()
	var ts []*track
	r.mu.Lock()
	for _, p := range parts {
		if t := r.tracks[p]; t != nil {
			t.closing = true
			if t.running == 0 {
				t.closeIdle()
			}
			ts = append(ts, t)
			delete(r.tracks, p)
		}
	}
	r.mu.Unlock()
	for _, t := range ts {
		if wait {
			select {
			case <-t.idle:
			case <-deadline.C:
				wait = false
			case <-ctx.Done():
				wait = false
			}
		}
		r.mu.Lock()
		t.cancelled = true
		r.mu.Unlock()
		t.cancel(ErrRebalanced)
	}
}

// stop ends the run: waiting records are dropped, handlers at work get DrainTimeout; all goroutines have ended when it returns.
func (r *runner) stop() {
	r.mu.Lock()
	var parts []*part
	positions := map[*part]*track{}
	for p, t := range r.tracks {
		parts = append(parts, p)
		positions[p] = t
	}
	r.mu.Unlock()
	r.drain(context.Background(), parts, true)
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	for _, w := range r.workers {
		close(w.ready)
	}
	r.wg.Wait()
	for p, t := range positions { // what was not done is handed out again by the next poll
		r.c.giveBackTo(p, t)
	}
}

// giveBackTo makes p go on with its first record that was not done.
func (c *Consumer) giveBackTo(p *part, t *track) {
	if first, ok := t.firstOpen(); ok {
		t.d.undo(p, first)
	}
}
