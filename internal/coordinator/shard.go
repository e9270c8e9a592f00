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

// A Shard owns the machines of one partition in one leader epoch. It is loaded in that epoch,
// appends only in it, and ends with it. The next leader's Shard starts from the log.
//
// A request runs the machine in its own goroutine under mu, which is only held to compute: no
// request waits for another's disk. Records go into the open write. A writer goroutine, which
// exists while there are writes, passes them to the log in order. Replies are parked on the last
// write of their machine.
type Shard[M machine.Machine[E, R], E, R any] struct {
	r         *Runtime[M, E, R]
	partition int32
	led       Leadership
	logger    *slog.Logger
	alarm     alarm.Alarm // tick; armed while there are machines. Stopped by end
	linger    alarm.Alarm // stopLingering; armed while lingering is set. Stopped by end

	mu         sync.Mutex // guards the fields below
	state      shardState
	changed    chan struct{} // closed when state next leaves loading; nil otherwise
	over       error         // the error of an ended Shard
	loadErr    error         // of the last load, or of the append that led to unloaded
	failures   int           // consecutive failed loads
	refusals   int           // consecutive failed appends
	retryAt    time.Time     // no load before this
	awaited    bool          // requests wait for retryAt
	whenLoaded []E           // events for all machines at the end of the load
	entries    map[string]*entry[M, E]
	calls      map[machine.Ticket]*call
	lastTicket machine.Ticket
	writes     []*write // in order; the first is the oldest without an answer
	sent       int      // number of writes, from the first, that were passed to the log
	writing    bool     // the writer goroutine is running
	lingering  bool     // the unsent writes wait for linger, or for a record that does not linger
	builder    record.Builder
	producers  producers // of transactions, including accepted records
	watchers   map[string]map[chan struct{}]struct{}
	nextExpiry time.Time
	graceUntil time.Time // no ticks for machines before this; zero for no delay
}

type shardState uint8

const (
	unloaded shardState = iota
	loading
	active
	ended
)

// An entry is a machine with its state in the runtime.
type entry[M, E any] struct {
	id       string
	m        M
	wakeAt   time.Time
	last     *write        // with its newest records; no wait if nil or committed
	deferred []deferred[E] // in the order of arrival
}

func newShard[M machine.Machine[E, R], E, R any](r *Runtime[M, E, R], partition int32, led Leadership) *Shard[M, E, R] {
	s := &Shard[M, E, R]{r: r, partition: partition, led: led, logger: r.cfg.Logger.With("topic", r.cfg.Topic, "partition", partition),
		entries: make(map[string]*entry[M, E]), calls: make(map[machine.Ticket]*call), watchers: make(map[string]map[chan struct{}]struct{})}
	s.alarm.Do, s.linger.Do = s.tick, s.stopLingering
	return s
}

// awaitAlarms returns when the alarms of an ended Shard make no further call.
func (s *Shard[M, E, R]) awaitAlarms() {
	s.alarm.Wait()
	s.linger.Wait()
}

// Partition returns the number of the shard's partition.
func (s *Shard[M, E, R]) Partition() int32 { return s.partition }

// Leadership returns the leader and epoch of the Shard.
func (s *Shard[M, E, R]) Leadership() Leadership { return s.led }

// ID identifies the Shard in its Runtime.
func (s *Shard[M, E, R]) ID() ShardID { return ShardID{s.partition, s.led} }

// end ends the Shard for good: all present and later calls get err. It does not wait.
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

// Each waits for the shard to be loaded, and calls f with every machine under the shard's lock.
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

// EachLoaded is Each for the present machines. It does not wait.
func (s *Shard[M, E, R]) EachLoaded(f func(id string, m M)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.entries {
		f(id, e.m)
	}
}

// StepAll steps every machine with ev: at once, or as soon as the shard is loaded. It does not
// wait.
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

// Tell steps the machine with that id, unless the shard is not loaded or has none. It does not
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

// retryRefused is the pause before a tick is repeated whose records were rejected.
const retryRefused = time.Second

// stepLocked steps e with ev, for the request by, and carries out the effects. It returns the
// notices to send once mu is released.
func (s *Shard[M, E, R]) stepLocked(e *entry[M, E], now time.Time, ev E, by machine.Ticket) (notices []any) {
	eff := e.m.Step(now, ev)
	if err := s.enqueueLocked(e, now, eff); err != nil {
		e.m.Discard()
		s.logger.Warn("refused", "id", e.id, "err", err)
		if by != 0 {
			s.answerLocked(e, machine.Reply{To: by, Err: err})
		} else if !e.wakeAt.IsZero() && !e.wakeAt.After(now) { // do not repeat a tick at once
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
	notices = append(notices, s.takeEventsLocked(e)...)
	if len(eff.Records) > 0 {
		notices = append(notices, s.feedDeferredLocked(e, now)...)
	}
	return notices
}

// takeEventsLocked records the events of an Observed machine, or keeps them for the commit of its
// records. It returns the recorded events.
func (s *Shard[M, E, R]) takeEventsLocked(e *entry[M, E]) []any {
	o, ok := any(e.m).(machine.Observed)
	if !ok {
		return nil
	}
	events := o.TakeEvents()
	if len(events) > 0 && e.last != nil && !e.last.committed {
		e.last.events = append(e.last.events, events...)
		return nil
	}
	s.recordLocked(events)
	return events
}

func (s *Shard[M, E, R]) recordLocked(events []any) {
	if s.r.cfg.Record == nil {
		return
	}
	for _, ev := range events {
		s.r.cfg.Record(s.ID(), ev)
	}
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
		return // the caller has stopped waiting
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

// entryLocked returns a machine, and creates it if there is none. The caller steps it at once; a
// machine without state is dropped again then.
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

// Idle reports whether there is no write, timer, call or watcher.
func (s *Shard[M, E, R]) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.writing && len(s.writes)+len(s.calls)+len(s.watchers) == 0 && !s.alarm.Armed()
}
