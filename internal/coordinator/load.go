package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

// RetryLoadAfter is the longest pause before a shard retries a failed load; the first ones are
// shorter, since a leader may not be ready yet. Until then it returns machine.ErrNotAvailable. It
// retries without requests: machines may have work to do.
const RetryLoadAfter = time.Second

const firstRetryLoadAfter = 5 * time.Millisecond

// firstIsError returns the log level of a failure after the given number of others. Only the first
// is logged as an error.
func firstIsError(failures int) slog.Level {
	if failures > 0 {
		return slog.LevelDebug
	}
	return slog.LevelError
}

// retryLoadAfter returns the pause after the given number of failures.
func retryLoadAfter(failures int) time.Duration {
	return min(firstRetryLoadAfter<<min(failures, 10), RetryLoadAfter)
}

// lockLoaded returns with mu held and the machines loaded, or with an error and without mu.
func (s *Shard[M, E, R]) lockLoaded(ctx context.Context) error {
	for {
		s.mu.Lock()
		switch s.state {
		case active:
			return nil
		case ended:
			s.mu.Unlock()
			return s.over
		case unloaded:
			if !s.mayLoadLocked() {
				err, at, awaited := s.loadErr, s.retryAt, s.awaited
				s.mu.Unlock()
				if !awaited {
					return fmt.Errorf("%w: %w", machine.ErrNotAvailable, err)
				}
				if err := s.awaitRetry(ctx, at); err != nil {
					return err
				}
				continue
			}
			s.startLoadLocked()
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitRetry waits until a load may be tried again.
func (s *Shard[M, E, R]) awaitRetry(ctx context.Context, at time.Time) error {
	due := time.NewTimer(time.Until(at))
	defer due.Stop()
	select {
	case <-due.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.r.ctx.Done():
		return machine.ErrClosed
	}
}

// mayLoadLocked reports whether an unloaded shard may be loaded now.
func (s *Shard[M, E, R]) mayLoadLocked() bool {
	return s.loadErr == nil || !time.Now().Before(s.retryAt)
}

// preload starts to load the shard unless a load is running or pausing.
func (s *Shard[M, E, R]) preload() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == unloaded && s.mayLoadLocked() {
		s.startLoadLocked()
	}
}

// startLoadLocked starts to load an unloaded shard.
func (s *Shard[M, E, R]) startLoadLocked() {
	s.state, s.changed = loading, make(chan struct{})
	s.r.wg.Go(s.load)
}

// unloadLocked drops all state after a failed append: records that were applied may not be in the
// log. All waiting calls get err. The shard is loaded again once the log has answered all writes.
// It pauses first if no caller waited for the failed records, since loaded machines may write the
// same at once. It also pauses if the append before failed: on a full or broken disk all appends
// fail, and members in this process retry at once. Requests wait during the pause, which slows
// their callers down.
func (s *Shard[M, E, R]) unloadLocked(err error, asked bool) {
	s.state, s.changed, s.loadErr = loading, make(chan struct{}), nil
	if !asked || s.refusals > 0 {
		s.loadErr, s.retryAt, s.awaited = err, time.Now().Add(retryLoadAfter(s.refusals)), asked
	}
	s.refusals++
	s.failCallsLocked(err)
	s.writes, s.lingering = s.writes[:s.sent], false
	clear(s.entries)
	s.producers = producers{}
	s.alarm.Disarm()
	s.linger.Disarm()
	s.nextExpiry = time.Time{}
	s.notifyLocked("")
	s.reloadWhenAnsweredLocked()
}

// failCallsLocked ends every call with err. Writes that were passed to the log, without an answer
// yet, may be stored.
func (s *Shard[M, E, R]) failCallsLocked(err error) {
	for i, w := range s.writes {
		told := err
		if i < s.sent && !w.answered {
			told = fmt.Errorf("%w: %w", err, machine.ErrUncertain)
		}
		for _, p := range w.replies {
			p.call.result <- result{err: told}
		}
		w.replies = nil
	}
	for t, c := range s.calls {
		c.result <- result{err: err}
		delete(s.calls, t)
	}
}

func (s *Shard[M, E, R]) reloadWhenAnsweredLocked() {
	for _, w := range s.writes {
		if !w.answered {
			return
		}
	}
	s.writes, s.sent = nil, 0
	if s.mayLoadLocked() {
		s.r.wg.Go(s.load)
		return
	}
	s.state = unloaded
	close(s.changed)
	s.alarm.By(s.retryAt)
}

// load replays the partition. The state is loading meanwhile.
func (s *Shard[M, E, R]) load() {
	p, err := s.replay()
	s.notify(s.loaded(p, err))
}

func (s *Shard[M, E, R]) loaded(p *replayer[M, E, R], err error) (notices []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == ended {
		return nil
	}
	defer close(s.changed)
	now := time.Now()
	if err != nil {
		s.state, s.loadErr, s.retryAt, s.awaited = unloaded, err, now.Add(retryLoadAfter(s.failures)), false
		s.alarm.By(s.retryAt)
		s.logger.Log(context.Background(), firstIsError(s.failures), "loading failed", "err", err)
		s.failures++
		return nil
	}
	s.r.counters.loads.Add(1)
	s.state, s.loadErr, s.failures, s.entries, s.producers = active, nil, 0, p.entries, p.producers
	notices = s.stepAllLocked(now, s.r.kind.Loaded)
	for _, ev := range s.whenLoaded {
		notices = append(notices, s.stepAllLocked(now, ev)...)
	}
	s.whenLoaded = nil
	s.rearmLocked(now)
	s.notifyLocked("")
	return notices
}

// replay reads the partition from its start to its end.
func (s *Shard[M, E, R]) replay() (*replayer[M, E, R], error) {
	p := &replayer[M, E, R]{s: s, now: time.Now(), entries: make(map[string]*entry[M, E])}
	l, err := s.r.store.Log(s.partition, s.led)
	if err != nil {
		return nil, err
	}
	from, end, err := l.Bounds()
	if err != nil {
		return nil, err
	}
	var buf []byte
	for from < end {
		if s.r.ctx.Err() != nil {
			return nil, machine.ErrClosed
		}
		if buf, err = l.Read(buf[:0], from, 1<<20); err != nil {
			return nil, err
		}
		next, err := p.batches(buf)
		if err != nil {
			return nil, err
		}
		if next <= from {
			break // the rest was compacted away
		}
		from = next
	}
	for id, e := range p.entries {
		if e.m.Forgotten() {
			delete(p.entries, id)
		}
	}
	return p, nil
}

// A replayer builds machines from the records of a partition.
type replayer[M machine.Machine[E, R], E, R any] struct {
	s         *Shard[M, E, R]
	now       time.Time
	entries   map[string]*entry[M, E]
	producers producers
}

func (p *replayer[M, E, R]) batches(b []byte) (next int64, err error) {
	for len(b) > 0 {
		batch, n, err := record.Parse(b)
		if errors.Is(err, record.ErrShort) {
			break
		}
		if err != nil {
			return 0, err
		}
		if err := p.batch(batch); err != nil {
			return 0, err
		}
		next, b = batch.NextOffset(), b[n:]
	}
	return next, nil
}

func (p *replayer[M, E, R]) batch(b *record.Batch) error {
	if b.IsControl() {
		return p.control(b)
	}
	for rec, err := range b.All() {
		if err != nil {
			return err
		}
		x, known, err := p.s.r.kind.Decode(rec.Key, rec.Value)
		switch {
		case err != nil:
			p.s.logger.Warn("skipped a record that cannot be read", "offset", rec.Offset, "err", err)
		case !known: // of another protocol
		case b.IsTransactional() && b.HasProducerID():
			p.pending(machine.Producer{ID: b.ProducerID, Epoch: b.ProducerEpoch}, x)
		default:
			p.entry(x).m.Apply(x)
		}
	}
	return nil
}

// control applies the outcome of a transaction.
func (p *replayer[M, E, R]) control(b *record.Batch) error {
	kind, coordinatorEpoch, err := b.Control()
	switch {
	case errors.Is(err, record.ErrEmpty): // compaction has kept only the header: the transaction's records were removed
		return nil
	case err != nil:
		return err
	case kind != record.ControlCommit && kind != record.ControlAbort:
		return nil
	}
	m := Marker{ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, CoordinatorEpoch: coordinatorEpoch, Commit: kind == record.ControlCommit}
	for id := range p.producers.end(m, p.now) {
		any(p.entries[id].m).(machine.Transactional[R]).ApplyEnd(m.ProducerID, m.Commit)
	}
	return nil
}

// pending applies a record in a transaction.
func (p *replayer[M, E, R]) pending(in machine.Producer, x R) {
	e := p.entry(x)
	if m, ok := any(e.m).(machine.Transactional[R]); ok {
		m.ApplyPending(in.ID, x)
		p.producers.wrote(in, e.id, p.now)
	}
}

// entry returns the machine of a record, and creates it if there is none.
func (p *replayer[M, E, R]) entry(x R) *entry[M, E] {
	id := p.s.r.kind.ID(x)
	e := p.entries[id]
	if e == nil {
		e = &entry[M, E]{id: id, m: p.s.r.kind.New(id)}
		p.entries[id] = e
	}
	return e
}

// retriable converts the error of an append so that clients retry.
func retriable(err error) error {
	if errors.Is(err, machine.ErrNotAvailable) || errors.Is(err, machine.ErrNotLeader) || errors.Is(err, machine.ErrTooLarge) {
		return err
	}
	return fmt.Errorf("%w: %w", machine.ErrNotLeader, err)
}
