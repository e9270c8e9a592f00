package coordinator

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

// A Shard owns the machines of one partition as long as one broker leads it in one epoch: it is
// loaded in that epoch, its appends are bound to it, and with it the Shard ends. The next leader's
// Shard begins with what is in the log.
//
// Whoever has a request runs the machine itself, under mu, which is only ever held to compute: no
// goroutine waits for work, and no request waits for another one's disk. Records go into the open
// write. A writer goroutine, which lives as long as there is something to write, hands one write
// after the other to the log; replies are parked on the write their machine last took part in.
type Shard[M machine.Machine[E, R], E, R any] struct {
	r         *Runtime[M, E, R]
	partition int32
	led       Leadership
	logger    *slog.Logger
	alarm     alarm.Alarm // tick; armed while there are machines. Stopped by end
	linger    alarm.Alarm // stopLingering; armed while lingering is set. Stopped by end

	mu         sync.Mutex // guards the fields below; see also the comment above
	state      shardState
	changed    chan struct{} // closed when state next leaves loading; nil otherwise
	over       error         // why, if state is ended
	loadErr    error         // of the last load, or of the append that led to unloaded
	failures   int           // of loads, since the last that did not fail
	refusals   int           // appends that failed and that nobody had asked for, since the last that did not
	retryAt    time.Time     // no load before this
	whenLoaded []E           // events that all machines get once they are loaded
	entries    map[string]*entry[M, E]
	calls      map[machine.Ticket]*call
	lastTicket machine.Ticket
	writes     []*write // in order; the first is the oldest without an answer
	sent       int      // writes at the front of writes that the log has
	writing    bool     // the writer goroutine is there
	lingering  bool     // what is in writes behind sent goes when linger fires, or with the next that cannot wait
	builder    record.Builder
	producers  producers // of transactions, with all that was accepted
	watchers   map[string]map[chan struct{}]struct{}
	nextExpiry time.Time
}

type shardState uint8

const (
	unloaded shardState = iota
	loading
	active
	ended
)

// An entry is a machine with what the runtime knows of it.
type entry[M, E any] struct {
	id       string
	m        M
	wakeAt   time.Time
	last     *write        // its newest records; nil or committed: there is nothing to wait for
	deferred []deferred[E] // in the order in which they came
}

func newShard[M machine.Machine[E, R], E, R any](r *Runtime[M, E, R], partition int32, led Leadership) *Shard[M, E, R] {
	s := &Shard[M, E, R]{r: r, partition: partition, led: led, logger: r.cfg.Logger.With("topic", r.cfg.Topic, "partition", partition),
		entries: make(map[string]*entry[M, E]), calls: make(map[machine.Ticket]*call), watchers: make(map[string]map[chan struct{}]struct{})}
	s.alarm.Do, s.linger.Do = s.tick, s.stopLingering
	return s
}

// awaitAlarms returns when neither alarm of a Shard that has ended will call anything any more.
func (s *Shard[M, E, R]) awaitAlarms() {
	s.alarm.Wait()
	s.linger.Wait()
}

// Partition returns the number of the shard's partition.
func (s *Shard[M, E, R]) Partition() int32 { return s.partition }

// Leadership returns who leads the partition, in the epoch of the Shard.
func (s *Shard[M, E, R]) Leadership() Leadership { return s.led }

// ID tells the Shard from all others of its Runtime.
func (s *Shard[M, E, R]) ID() ShardID { return ShardID{s.partition, s.led} }

// end ends the Shard for good: all who wait get err, and so does who comes. It does not wait.
func (s *Shard[M, E, R]) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == ended {
		return
	}
	if s.state == loading {
		close(s.changed)
	}
	s.state, s.over = ended, err
	s.failCallsLocked(err)
	s.writes, s.sent, s.lingering = nil, 0, false
	clear(s.entries)
	s.alarm.Stop()
	s.linger.Stop()
	s.notifyLocked("")
}

// Each calls f with every machine, with the shard's lock held, once the shard is loaded.
func (s *Shard[M, E, R]) Each(ctx context.Context, f func(id string, m M)) error {
	if err := s.lockLoaded(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for id, e := range s.entries {
		f(id, e.m)
	}
	return nil
}

// EachLoaded is Each for the machines that are there at the moment. It does not wait.
func (s *Shard[M, E, R]) EachLoaded(f func(id string, m M)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.entries {
		f(id, e.m)
	}
}

// StepAll feeds ev to every machine: at once, or as soon as the shard is loaded. It does not wait.
func (s *Shard[M, E, R]) StepAll(ev E) {
	s.mu.Lock()
	var notices []any
	switch s.state {
	case active:
		notices = s.stepAllLocked(time.Now(), ev)
	case unloaded, loading:
		s.whenLoaded = append(s.whenLoaded, ev)
	}
	s.mu.Unlock()
	s.notify(notices)
}

// Tell feeds ev to the machine of that id, unless the shard is not loaded or has none. It does not
// wait.
func (s *Shard[M, E, R]) Tell(id string, ev E) {
	s.mu.Lock()
	var notices []any
	if e := s.entries[id]; e != nil && s.state == active {
		notices = s.stepLocked(e, time.Now(), ev, 0)
	}
	s.mu.Unlock()
	s.notify(notices)
}

func (s *Shard[M, E, R]) stepAllLocked(now time.Time, ev E) (notices []any) {
	for _, e := range s.entries {
		notices = append(notices, s.stepLocked(e, now, ev, 0)...)
	}
	return notices
}

// retryRefused is when a tick comes again whose records the log did not take.
const retryRefused = time.Second

// stepLocked feeds ev, on behalf of the request by, to e and carries out its effects. It returns
// what to notify of once mu is released.
func (s *Shard[M, E, R]) stepLocked(e *entry[M, E], now time.Time, ev E, by machine.Ticket) (notices []any) {
	eff := e.m.Step(now, ev)
	if err := s.enqueueLocked(e, now, eff); err != nil {
		e.m.Discard()
		s.logger.Warn("refused", "id", e.id, "err", err)
		if by != 0 {
			s.answerLocked(e, machine.Reply{To: by, Err: err})
		} else if !e.wakeAt.IsZero() && !e.wakeAt.After(now) { // a tick must not come again at once
			e.wakeAt = now.Add(retryRefused)
			s.alarm.By(e.wakeAt)
		}
		s.dropForgottenLocked(e)
		return nil
	}
	e.m.Accept()
	for _, r := range eff.Replies {
		if r.Later.IsZero() {
			s.answerLocked(e, r)
		} else {
			e.deferred = append(e.deferred, deferred[E]{ev, r.To, r.Later})
			s.alarm.By(r.Later)
		}
	}
	if e.wakeAt = eff.WakeAt; !e.wakeAt.IsZero() {
		s.alarm.By(e.wakeAt)
	}
	s.dropForgottenLocked(e)
	s.notifyLocked(e.id)
	if eff.Notice != nil {
		notices = append(notices, eff.Notice)
	}
	switch {
	case eff.Committed == nil:
	case e.last == nil || e.last.committed:
		notices = append(notices, eff.Committed)
	default:
		e.last.told = append(e.last.told, eff.Committed)
	}
	if len(eff.Records) > 0 {
		notices = append(notices, s.feedDeferredLocked(e, now)...)
	}
	return notices
}

func (s *Shard[M, E, R]) dropForgottenLocked(e *entry[M, E]) {
	if e.m.Forgotten() {
		delete(s.entries, e.id)
	}
}

// answerLocked sends a reply, or parks it on the machine's last write.
func (s *Shard[M, E, R]) answerLocked(e *entry[M, E], r machine.Reply) {
	c := s.calls[r.To]
	if c == nil {
		return // its caller has gone
	}
	delete(s.calls, r.To)
	if e.last != nil && e.last.committed {
		e.last = nil
	}
	if e.last != nil && !r.Now {
		e.last.replies = append(e.last.replies, parked{c, result{r.Value, r.Err}})
		if s.lingering && slices.Contains(s.writes[s.sent:], e.last) {
			s.startWriterLocked()
		}
		return
	}
	c.result <- result{r.Value, r.Err}
}

// entryLocked returns a machine, which it makes if there is none; the caller steps it at once, and
// that drops it again if it came to nothing.
func (s *Shard[M, E, R]) entryLocked(id string, now time.Time) *entry[M, E] {
	e := s.entries[id]
	if e == nil {
		e = &entry[M, E]{id: id, m: s.r.kind.New(id)}
		s.entries[id] = e
		if len(s.entries) == 1 {
			s.rearmLocked(now)
		}
	}
	return e
}

// Idle reports whether nothing is under way and nothing is waited for: no write, timer, call or
// watcher.
func (s *Shard[M, E, R]) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.writing && len(s.writes)+len(s.calls)+len(s.watchers) == 0 && !s.alarm.Armed()
}
