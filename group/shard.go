package group

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/record"
)

// A shard owns the groups of one partition of the offsets topic.
//
// Whoever has a request runs the state machine itself, under mu, which is only ever held to compute: no goroutine waits for work, and
// no request waits for another one's disk. Records go into the open write. A writer goroutine, which lives as long as there is something
// to write, hands one write after the other to the log; replies are parked on the write their group last took part in.
type shard struct {
	c         *Coordinator
	partition int32
	logger    *slog.Logger

	mu       sync.Mutex // guards the fields below; see also the comment above
	state    shardState
	changed  chan struct{} // closed when state next leaves loading; nil otherwise
	loadErr  error         // of the last load, if state is unloaded
	retryAt  time.Time     // no load before this
	groups   map[string]*entry
	calls    map[Ticket]*call
	lastID   Ticket
	writes   []*write // in order; the first is the oldest that is not settled
	sent     int      // writes at the front of writes that the log has
	writing  bool     // the writer goroutine is there
	builder  record.Builder
	watchers map[string]map[chan struct{}]struct{}

	alarm      alarm.Alarm // tick; armed while there are groups. Stopped by close
	nextExpiry time.Time
}

type shardState uint8

const (
	unloaded shardState = iota
	loading
	active
	closed
)

// An entry is a group with what the runtime knows of it.
type entry struct {
	*Group
	wakeAt time.Time
	last   *write // its newest records; nil or committed: there is nothing to wait for
}

// A call is a request whose caller waits.
type call struct{ result chan result } // capacity 1

type result struct {
	value any
	err   error
}

// A write is one batch on its way into the log.
type write struct {
	records []encoded
	size    int
	replies []parked // to be sent when it is committed
	settled bool     // the log has answered

	committed bool // the log has it, and all before it
}

type encoded struct{ key, value []byte } // value nil: a tombstone

type parked struct {
	call *call
	result
}

func newShard(c *Coordinator, partition int32) *shard {
	s := &shard{c: c, partition: partition, logger: c.cfg.Logger.With("topic", OffsetsTopic, "partition", partition), groups: make(map[string]*entry),
		calls: make(map[Ticket]*call), watchers: make(map[string]map[chan struct{}]struct{})}
	s.alarm.Do = s.tick
	return s
}

// do runs a request: begin is called with mu held once the shard is loaded, and steps the group with the ticket it is given. do returns
// the reply to that ticket. If ctx is done first, the request is taken back as far as it can be: a join or sync is no longer
// waited for, records that were accepted stay.
func (s *shard) do(ctx context.Context, group string, begin func(now time.Time, t Ticket) hooked) (any, error) {
	if err := s.lockLoaded(ctx); err != nil {
		return nil, err
	}
	s.lastID++
	t, c := s.lastID, &call{result: make(chan result, 1)}
	s.calls[t] = c
	after := begin(time.Now(), t)
	s.mu.Unlock()
	s.c.run(after)

	select {
	case r := <-c.result:
		return r.value, r.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	select {
	case r := <-c.result: // both at once: the answer counts
		s.mu.Unlock()
		return r.value, r.err
	default:
	}
	delete(s.calls, t)
	if e := s.groups[group]; e != nil && s.state == active {
		after = s.step(e, time.Now(), EventCancel{t})
	}
	s.mu.Unlock()
	s.c.run(after)
	return nil, ctx.Err()
}

// hooked is what is to be told to hooks once mu is released.
type hooked = []Rebalanced

// step feeds ev to e and carries out its effects. mu is held.
func (s *shard) step(e *entry, now time.Time, ev Event) hooked {
	eff := e.Step(now, ev)
	if err := s.enqueue(e, eff.Records); err != nil {
		for i := range eff.Replies {
			eff.Replies[i].Value, eff.Replies[i].Err = nil, err
		}
	}
	for _, r := range eff.Replies {
		s.answer(e, r)
	}
	if e.wakeAt = eff.WakeAt; !e.wakeAt.IsZero() {
		s.alarm.By(e.wakeAt)
	}
	if e.forgotten() {
		delete(s.groups, e.id)
	}
	s.notifyLocked(e.id)
	if eff.Rebalanced == nil {
		return nil
	}
	s.c.counters.rebalances.Add(1)
	s.logger.Info("rebalanced", "group", e.id, "generation", eff.Rebalanced.Generation, "members", eff.Rebalanced.Members, "protocol", eff.Rebalanced.Protocol)
	return hooked{*eff.Rebalanced}
}

// answer sends a reply, or parks it on the group's last write.
func (s *shard) answer(e *entry, r Reply) {
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
		return
	}
	c.result <- result{r.Value, r.Err}
}

// enqueue applies records and puts them into the write that goes next. All records of one call share a batch.
func (s *shard) enqueue(e *entry, records []Record) error {
	if len(records) == 0 {
		return nil
	}
	w := &write{}
	for _, r := range records {
		rec := encoded{key: r.Key.AppendTo(nil)}
		switch {
		case r.Offset != nil:
			rec.value = r.Offset.AppendTo(nil)
		case r.Group != nil:
			rec.value = r.Group.AppendTo(nil)
		}
		w.records = append(w.records, rec)
		w.size += len(rec.key) + len(rec.value) + recordOverhead
	}
	if w.size+record.HeaderSize > s.c.cfg.MaxBatchBytes {
		return fmt.Errorf("%w: %d bytes for group %s", ErrTooLarge, w.size, e.id)
	}
	for _, r := range records {
		e.Apply(r)
		if r.Offset != nil {
			s.c.counters.commits.Add(1)
		}
	}
	if n := len(s.writes); n > s.sent && s.writes[n-1].size+w.size+record.HeaderSize <= s.c.cfg.MaxBatchBytes {
		open := s.writes[n-1]
		open.records = append(open.records, w.records...)
		open.size += w.size
		w = open
	} else {
		s.writes = append(s.writes, w)
	}
	e.last = w
	if !s.writing {
		s.writing = true
		s.c.wg.Go(s.write)
	}
	return nil
}

// recordOverhead bounds what a record in a batch takes besides key and value: five varints of at most 5 bytes, one of 10, attributes.
const recordOverhead = 36

// write is the writer goroutine: it hands over writes until there are none.
func (s *shard) write() {
	for {
		s.mu.Lock()
		if s.state != active || s.sent == len(s.writes) {
			s.writing = false
			s.mu.Unlock()
			return
		}
		w := s.writes[s.sent]
		s.sent++
		s.mu.Unlock()

		batch, err := s.encode(w)
		var l OffsetsLog
		if err == nil {
			l, err = s.c.store.OffsetsLog(s.partition)
		}
		if err != nil {
			s.settle(w, err)
			continue
		}
		l.Append(batch, func(err error) { s.settle(w, err) })
	}
}

// encode is called by the writer goroutine only.
func (s *shard) encode(w *write) ([]byte, error) {
	now := time.Now().UnixMilli()
	s.builder.Reset(0)
	for _, r := range w.records {
		s.builder.AppendKV(now, r.key, r.value, nil)
	}
	w.records = nil
	return s.builder.Build(record.None)
}

// settle takes note of the log's answer to w and sends the replies that waited for it.
func (s *shard) settle(w *write, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.settled = true
	s.c.counters.appends.Add(1)
	if err != nil {
		s.c.counters.failures.Add(1)
	}
	switch {
	case s.state == closed:
		return
	case s.state != active:
		s.reloadWhenSettledLocked()
		return
	case err != nil:
		s.logger.Error("append failed, loading the groups again", "err", err)
		s.unloadLocked(coordinatorError(err))
		return
	}
	for len(s.writes) > 0 && s.writes[0].settled {
		done := s.writes[0]
		s.writes = s.writes[1:]
		s.sent--
		done.committed = true
		for _, p := range done.replies {
			p.call.result <- p.result
		}
	}
	if len(s.writes) == 0 {
		s.writes = nil
	}
	s.notifyLocked("")
}

// tick lets time pass for the groups whose time has come.
func (s *shard) tick() {
	s.mu.Lock()
	now := time.Now()
	if s.state != active {
		s.mu.Unlock()
		return
	}
	var after hooked
	expire := !s.nextExpiry.IsZero() && !now.Before(s.nextExpiry)
	for _, e := range s.groups {
		if due(e.wakeAt, now) {
			after = append(after, s.step(e, now, EventTick{})...)
		}
		if expire {
			after = append(after, s.step(e, now, EventExpire{})...)
		}
	}
	if expire {
		s.nextExpiry = now.Add(s.c.cfg.ExpiryInterval)
	}
	s.rearmLocked(now)
	s.mu.Unlock()
	s.c.run(after)
}

// rearmLocked arms the timer for what comes next; a shard without groups has no timer.
func (s *shard) rearmLocked(now time.Time) {
	if len(s.groups) == 0 {
		s.nextExpiry = time.Time{}
		return
	}
	if s.nextExpiry.IsZero() {
		s.nextExpiry = now.Add(s.c.cfg.ExpiryInterval)
	}
	next := s.nextExpiry
	for _, e := range s.groups {
		if !e.wakeAt.IsZero() && e.wakeAt.Before(next) {
			next = e.wakeAt
		}
	}
	s.alarm.By(next)
}

// entryLocked returns a group, which it makes if there is none; the caller steps it at once, and step drops it again if it came to nothing.
func (s *shard) entryLocked(id string, now time.Time) *entry {
	e := s.groups[id]
	if e == nil {
		e = &entry{Group: newGroup(id, &s.c.cfg)}
		s.groups[id] = e
		if len(s.groups) == 1 {
			s.rearmLocked(now)
		}
	}
	return e
}

// notifyLocked tells those who watch a group, "" all groups, that it may have changed.
func (s *shard) notifyLocked(group string) {
	for id, chans := range s.watchers {
		if group != "" && id != group {
			continue
		}
		for ch := range chans {
			select {
			case ch <- struct{}{}:
			default: // it has not looked since the last time
			}
		}
	}
}
