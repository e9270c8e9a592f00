package mirror

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	// grace is the time for which the transaction in progress may continue when Run is to end.
	grace = 5 * time.Second
	// closeWait bounds the closing of the producer, and of the consumer.
	closeWait = 5 * time.Second
	// idleWait is the time without records after which the position is moved past control batches
	// and aborted transactions.
	idleWait = time.Second
	// claimWait is the time for another mirror to claim the position after it has taken the
	// transactional id.
	claimWait = 5 * time.Second
	// minBackoff and maxBackoff bound the pauses between attempts.
	minBackoff, maxBackoff = 100 * time.Millisecond, 5 * time.Second

	// batchRecords and batchBytes bound one poll, and so each of its transactions. The bytes are
	// those of stored batches; one batch of each partition may exceed them.
	batchRecords = 5000
	batchBytes   = 8 << 20
	// largestRecord is the largest record that can be forwarded, before compression.
	largestRecord = 32 << 20
)

// A Forward forwards topics. It holds nothing between its calls, so it need not be closed. Its
// methods are safe for concurrent use. While it runs it has three goroutines and those of one
// producer and one consumer, and at most 8 MiB of stored batches and 32 MiB of records on their
// way, or one larger batch.
type Forward struct {
	source Source
	target Target
	cfg    ForwardConfig
	flows  []*flow
	limit  limiter

	mu      sync.Mutex // guards the fields below, and parts of flows
	running bool
	resumed chan struct{} // closed by Resume; nil: not paused
	stats   counters
}

// A flow is one topic. Its fields belong to the goroutine of Run, except where noted. Names do not
// change.
type flow struct {
	source, target string
	id, targetID   topic.ID
	missing        int // checks in a row in which the target topic was missing; of the watcher

	reached []reached  // by partition: the committed position. Written under Forward.mu
	state   []progress // by partition. Guarded by Forward.mu
}

// reached is the position of a partition.
type reached struct {
	next  int64  // offset of the next record to forward
	epoch int32  // leader epoch of the record before it; -1: unknown
	last  int64  // offset of the last forwarded record; -1: none
	sum   uint64 // fingerprint of that record
}

// forwarded makes r the last forwarded record.
func (at *reached) forwarded(r *record.Record) {
	at.epoch, at.last, at.sum = max(at.epoch, r.LeaderEpoch), r.Offset, fingerprint(r)
}

// NewForward returns a mirror. It makes no request. The error is a *topic.ConfigError. source and
// target are used while Run or Drain is active, and stay open.
func NewForward(source Source, target Target, cfg ForwardConfig) (*Forward, error) {
	targets, err := cfg.check(source, target)
	if err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	f := &Forward{source: source, target: target, cfg: cfg}
	f.limit = limiter{records: cfg.RecordsPerSecond, bytes: cfg.BytesPerSecond}
	for i, name := range cfg.Topics {
		f.flows = append(f.flows, &flow{source: name, target: targets[i]})
	}
	return f, nil
}

// Run forwards records until ctx ends; then it returns nil, also if the clusters are closed at the
// same time. It first finishes the transaction in progress, within 5 s. It returns after at most
// 20 s, or 30 s if the source does not respond when Run begins. Run may be called again.
//
// Unreachable clusters, elections and aborted transactions are retried, with pauses that grow to
// 5 s; Stats has the last error. Run ends with the others:
//
//   - a *StopError: see the errors of the package;
//   - a *topic.ConfigError: source and target topic have different numbers of partitions, the
//     target topic or the position topic has unsuitable settings, or the target rejects the
//     source's settings;
//   - replication.ErrUnknownTopic for a topic that the source does not have;
//   - an error of a cluster that excludes a retry, such as remote.ErrNotAuthorized;
//   - ErrRunning.
func (f *Forward) Run(ctx context.Context) error {
	return f.alone(func() error { return f.run(ctx, false) })
}

// Drain is Run that ends with nil when everything is forwarded that was committed in the source
// when Drain had connected. If ctx ends first, it returns ctx's error.
func (f *Forward) Drain(ctx context.Context) error {
	return f.alone(func() error { return f.run(ctx, true) })
}

// alone calls fn unless another call of it is active.
func (f *Forward) alone(fn func() error) error {
	f.mu.Lock()
	if f.running {
		f.mu.Unlock()
		return ErrRunning
	}
	f.running = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.running, f.stats.since = false, time.Time{}
	}()
	return fn()
}

// Pause stops forwarding after the transaction in progress. It does not wait.
func (f *Forward) Pause() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.resumed == nil {
		f.resumed = make(chan struct{})
	}
}

// Resume ends Pause.
func (f *Forward) Resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.resumed != nil {
		close(f.resumed)
		f.resumed = nil
	}
}

func (f *Forward) stop(topic string, p int32, offset int64, err error) error {
	return &StopError{Mirror: f.cfg.ID, Topic: topic, Partition: p, Offset: offset, Err: err}
}

// An engine is one active Run.
type engine struct {
	*Forward
	id   string                  // random; in the positions of this run
	ctx  context.Context         // ends when Run is to end
	fail context.CancelCauseFunc // ends ctx and work with an error
	work context.Context         // of the transaction in progress: ends a while after ctx

	producer *producer.Producer
	consumer *consumer.Consumer
	version  int64             // of the source's metadata that were checked
	verify   bool              // the stored position is checked before the next transaction
	claimed  bool              // the target has a position of this run
	ends     map[*flow][]int64 // for Drain; nil: no end
	bound    bound             // of one transaction
	buffer   []record.Record
}

func (f *Forward) run(ctx context.Context, drain bool) (err error) {
	e := &engine{Forward: f, id: rand.Text()}
	e.ctx, e.fail = context.WithCancelCause(ctx)
	defer e.fail(nil)
	var endWork context.CancelCauseFunc
	e.work, endWork = context.WithCancelCause(context.WithoutCancel(ctx))
	defer endWork(nil)
	late := time.AfterFunc(1<<62, func() { endWork(nil) })
	defer late.Stop()
	defer context.AfterFunc(e.ctx, func() {
		if ctx.Err() != nil {
			late.Reset(grace)
		} else {
			endWork(nil)
		}
	})()
	defer e.close()
	err = e.forward(drain)
	cause := context.Cause(e.ctx)
	var stop *StopError
	switch {
	case err == nil:
		return nil
	case errors.As(cause, &stop) || cause != nil && ctx.Err() == nil:
		err = cause // the watcher's, before ctx ended
	case ctx.Err() != nil:
		// An error now is often a consequence: its program closes the clusters, too. If it is not,
		// the next Run returns it.
		if isFinal(err) {
			f.noteError(err)
		}
		if drain {
			return ctx.Err()
		}
		return nil
	}
	f.noteError(err)
	return err
}

// forward runs sessions until one ends for a reason other than the loss of the transactional id.
//
// Another mirror takes the id, and then claims the position at once. A late request of this mirror,
// or of its predecessor, takes the id and claims nothing: then this mirror takes it again.
func (e *engine) forward(drain bool) error {
	for {
		err := e.session(drain)
		var stop *StopError
		if !errors.Is(err, ErrFenced) || errors.As(err, &stop) || e.ctx.Err() != nil {
			return err
		}
		e.noteError(err)
		e.close()
		if !sleep(e.ctx, claimWait) {
			return e.ctx.Err()
		}
	}
}

// session connects and forwards.
func (e *engine) session(drain bool) error {
	if err := e.retry(e.ctx, func() error { return e.connect(drain) }); err != nil {
		return err
	}
	watching, stop := context.WithCancel(e.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { e.watch(watching) })
	defer func() {
		stop()
		wg.Wait()
	}()
	backoff := minBackoff
	for {
		done, err := e.drained()
		if done || err != nil {
			return err
		}
		if err := e.gate(); err != nil {
			return err
		}
		switch err := e.step(); {
		case err == nil:
			backoff = minBackoff
		case e.ctx.Err() != nil || isFinal(err):
			return err
		default:
			e.noteError(err)
			sleep(e.ctx, backoff)
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// gate waits for the end of Pause, and for the limits.
func (e *engine) gate() error {
	for {
		e.mu.Lock()
		resumed := e.resumed
		e.mu.Unlock()
		if resumed == nil {
			break
		}
		select {
		case <-resumed:
		case <-e.ctx.Done():
			return e.ctx.Err()
		}
	}
	sleep(e.ctx, e.limit.wait(time.Now()))
	return e.ctx.Err()
}

// step forwards the next records, or moves the position past batches without any.
func (e *engine) step() error {
	wait := idleWait
	if e.ends != nil {
		wait /= 5
	}
	ctx, cancel := context.WithTimeout(e.ctx, wait)
	b, err := e.consumer.Poll(ctx)
	idle := err != nil && ctx.Err() != nil
	cancel()
	switch {
	case e.ctx.Err() != nil:
		return e.ctx.Err()
	case idle:
		b = nil
	case errors.Is(err, consumer.ErrNoOffset):
		return e.outOfRange(err)
	case err != nil:
		return err
	}
	// A topic that was created again has changed the version of the metadata before the consumer
	// read it. So the records belong to the topics that the mirror knows.
	if err := e.retry(e.ctx, e.sourceUnchanged); err != nil {
		return err
	}
	moves := e.moves(b)
	if len(moves) == 0 {
		return e.stalled(idle)
	}
	return e.transact(moves, b)
}

// outOfRange returns the reason why the source does not have the position.
func (e *engine) outOfRange(cause error) error {
	return e.retry(e.ctx, func() error {
		if err := e.sourceUnchanged(); err != nil {
			return err
		}
		for _, fl := range e.flows {
			if err := e.checkSource(e.ctx, fl); err != nil {
				return err
			}
		}
		var p *consumer.PartitionError
		if errors.As(cause, &p) && errors.Is(cause, ErrTruncated) {
			return e.stop(p.TopicPartition.Topic, p.TopicPartition.Partition, p.Offset, cause)
		}
		return e.stop(e.flows[0].source, -1, -1, cause)
	})
}

// sourceUnchanged returns an error if a topic of the source was deleted since the mirror began
// to read it, or has other partitions.
func (e *engine) sourceUnchanged() error {
	version, err := e.source.WaitMetadata(e.ctx, -1)
	if err != nil || version == e.version {
		return err
	}
	for _, fl := range e.flows {
		id, n, err := e.describeSource(e.ctx, fl)
		switch {
		case err != nil:
			return err
		case replaced(fl.id, id):
			return e.stop(fl.source, -1, -1, fmt.Errorf("%w at the source", ErrTopicReplaced))
		case n != len(fl.reached):
			return e.partitionsDiffer(fl, n, len(fl.reached))
		}
	}
	e.version = version
	return nil
}

func (f *Forward) partitionsDiffer(fl *flow, source, target int) error {
	return fmt.Errorf("mirror %q: %w", f.cfg.ID, configError("partitions", fmt.Sprint(target),
		"topic %s has %d partitions at the source and %s has %d at the target: give both the same number, then start the mirror again", fl.source, source, fl.target, target))
}

// moves returns the new positions of the topics that have moved, with the end of b.
func (e *engine) moves(b *consumer.Batch) map[*flow][]reached {
	var moves map[*flow][]reached
	var ends record.Offsets
	last := map[record.TopicPartition]record.Record{}
	if b != nil {
		ends = b.Offsets()
		for tp, rs := range b.Partitions() {
			last[tp] = rs[len(rs)-1]
		}
	}
	for _, fl := range e.flows {
		var next []reached
		for p, at := range fl.reached {
			tp := record.TopicPartition{Topic: fl.source, Partition: int32(p)}
			to := max(ends[tp], e.consumer.Position(tp))
			if to <= at.next {
				continue
			}
			if next == nil {
				next = slices.Clone(fl.reached)
			}
			next[p].next = to
			if r, ok := last[tp]; ok {
				next[p].forwarded(&r)
			}
		}
		if next != nil {
			if moves == nil {
				moves = map[*flow][]reached{}
			}
			moves[fl] = next
		}
	}
	return moves
}

// drained reports whether Drain is done.
func (e *engine) drained() (bool, error) {
	if e.ends == nil {
		return false, nil
	}
	for _, fl := range e.flows {
		for p, end := range e.ends[fl] {
			if fl.reached[p].next < end {
				return false, nil
			}
		}
	}
	return true, nil
}

// stalled handles a poll of Drain that has moved nothing. Compaction can leave the end of a
// partition without records: then there is nothing up to the end that Drain waits for.
func (e *engine) stalled(idle bool) error {
	if !idle || e.ends == nil {
		return nil
	}
	for _, fl := range e.flows {
		for p, at := range fl.reached {
			if at.next >= e.ends[fl][p] {
				continue
			}
			tp := record.TopicPartition{Topic: fl.source, Partition: int32(p)}
			for _, err := range consumer.Read(e.ctx, e.source, consumer.ReadConfig{
				Topic: fl.source, Partitions: []int32{int32(p)}, Start: record.Offsets{tp: at.next}, MaxBytes: 1,
			}) {
				return err // there is a record: the consumer returns it, too
			}
			e.ends[fl][p] = at.next
		}
	}
	return nil
}

// retry calls fn until it succeeds, or fails with an error that a repetition cannot resolve, or ctx
// ends.
func (e *engine) retry(ctx context.Context, fn func() error) error {
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		err := fn()
		if err == nil || isFinal(err) || ctx.Err() != nil {
			return err
		}
		e.noteError(err)
		sleep(ctx, backoff)
	}
}

// close closes the producer and the consumer. An open transaction is aborted.
func (e *engine) close() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), closeWait)
	defer cancel()
	var wg sync.WaitGroup
	if c := e.consumer; c != nil {
		wg.Go(func() { _ = c.Shutdown(ctx) })
	}
	if p := e.producer; p != nil {
		wg.Go(func() { _ = p.Shutdown(ctx) })
	}
	wg.Wait()
	e.producer, e.consumer = nil, nil
}
