package log

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
)

// Bounds of one round.
const (
	roundAppends = 1024
	roundBytes   = 4 << 20 // or one batch
	copyBytes    = 8 << 10 // batches up to this size are copied into the round's buffer, larger ones written from where they are
	patchedBytes = 16      // base offset, length, leader epoch: what is set in a copy
	maxRounds    = 4       // in a row by one goroutine that only wanted to append
)

// A round is the appends that are written, and under SyncOnAck synced, at once. It belongs to whoever has the turn.
type round struct {
	all     []*Append // taken from the queue
	in      []*Append // admitted, not written yet
	refused []*Append
	written []*Append
	bufs    [][]byte
	infos   []segment.BatchInfo
	buf     []byte
}

var rounds = sync.Pool{New: func() any { return new(round) }}

// reset makes r ready for another round.
func (r *round) reset() {
	r.all, r.in, r.refused, r.written, r.bufs = r.all[:0], r.in[:0], r.refused[:0], r.written[:0], r.bufs[:0]
}

// put is reset for a round that goes to anybody: it must not keep the appends it had alive.
func (r *round) put() {
	clear(r.all)
	clear(r.in)
	clear(r.refused)
	clear(r.written)
	clear(r.bufs)
	r.reset()
	if cap(r.buf) <= maxPooledBytes {
		rounds.Put(r)
	}
}

// An appendQueue holds appends that wait for a round, first come, first served.
type appendQueue struct{ head, tail *Append }

func (q *appendQueue) push(a *Append) {
	if a.next = nil; q.head == nil {
		q.head = a
	} else {
		q.tail.next = a
	}
	q.tail = a
}

func (q *appendQueue) pop() *Append {
	a := q.head
	if a != nil {
		q.head, a.next = a.next, nil
	}
	return a
}

// takeTurn waits until nobody else writes. ErrClosed says that the log was closed meanwhile, and the turn is not the caller's.
// It waits on a channel and not on a mutex. passTurn must follow.
func (l *Log) takeTurn() error {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return ErrClosed
	}
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		return nil
	}
	ch := make(chan struct{})
	l.turns = append(l.turns, ch)
	l.mu.Unlock()
	<-ch
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return ErrClosed
	}
	return nil
}

// passTurn hands the turn to whoever waits for it. If only appends wait it returns true, and the turn stays with the caller.
func (l *Log) passTurn() (more bool) {
	l.mu.Lock()
	l.counted.add(&l.appended)
	if len(l.turns) > 0 {
		close(l.turns[0])
		l.turns = l.turns[1:]
	} else if more = l.queue.head != nil; !more {
		l.turns, l.busy = nil, false
	}
	l.mu.Unlock()
	return more
}

// giveTurn is passTurn for who is no appender: a round that waits is led by a worker.
func (l *Log) giveTurn() {
	if l.passTurn() {
		l.dir.syncer.add(job{l, (*Log).leadThere})
	}
}

// endTurns ends all writing for ever, with the turn: those who wait for one, or for a round, are sent away.
func (l *Log) endTurns() {
	l.mu.Lock()
	l.ended = true
	for _, ch := range l.turns {
		close(ch)
	}
	queue := l.queue
	l.turns, l.queue = nil, appendQueue{}
	l.mu.Unlock()
	for a := queue.pop(); a != nil; a = queue.pop() {
		a.Err = ErrClosed
		a.complete()
	}
}

// leadHere leads rounds on the goroutine of an appender that found no round under way and may lead one; the first is for a. With the turn, which
// it gives up. Under SyncOnAck it syncs without handing over to anybody, having entered the syncer; what comes meanwhile is for the syncer's workers.
func (l *Log) leadHere(a *Append) {
	entered := l.cfg.Load().Sync == SyncOnAck
	if a.call != nil { // a round of its own: what it leaves there belongs to the same call
		a.call.here = true
		l.runRound(&a.call.round, a)
		a.call.round.reset()
	} else {
		r := rounds.Get().(*round)
		l.runRound(r, a)
		r.put()
	}
	if entered {
		l.dir.syncer.leave()
		l.giveTurn()
		return
	}
	l.leadOn(1)
}

// leadOn passes the turn on after n rounds, or leads the next ones, up to a bound: then a worker does, to let the caller go.
func (l *Log) leadOn(n int) {
	for ; l.passTurn(); n++ {
		if n >= maxRounds {
			l.dir.syncer.add(job{l, (*Log).leadThere})
			return
		}
		l.round()
	}
}

// round writes what is queued, up to a bound, and completes it. It returns how many appends that was, and whether any caller is blocked in one.
// With the turn.
func (l *Log) round() (n int, blocking bool) {
	r := rounds.Get().(*round)
	l.takeQueued(r)
	n = len(r.all)
	blocking = slices.ContainsFunc(r.all, func(a *Append) bool { return a.call != nil })
	l.runRound(r, nil)
	r.put()
	return n, blocking
}

// runRound writes and completes what is in r, and first. With the turn.
func (l *Log) runRound(r *round, first *Append) {
	cfg := l.cfg.Load()
	if first != nil {
		r.all = append(r.all, first)
	}
	for rest := r.all; len(rest) > 0; {
		rest = l.writeSome(r, cfg, rest)
	}
	for _, a := range r.refused {
		a.complete()
	}
	if len(r.written) > 0 {
		l.settle(r, cfg)
	}
}

// takeQueued moves the front of the queue into the round.
func (l *Log) takeQueued(r *round) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for bytes := 0; len(r.all) < roundAppends; {
		a := l.queue.head
		if a == nil || len(r.all) > 0 && bytes+len(a.Batch) > roundBytes {
			return
		}
		bytes += len(a.Batch)
		r.all = append(r.all, l.queue.pop())
	}
}

// writeSome admits and writes appends up to where a new segment is needed, and returns the others. With the turn.
func (l *Log) writeSome(r *round, cfg *Config, as []*Append) (rest []*Append) {
	next, active := l.end.Load(), l.active()
	size := active.Size()
	for i, a := range as {
		first := next
		if a.KeepOffsets {
			if first = a.Info.BaseOffset; first < next {
				r.refuse(a, fmt.Errorf("%w: append at %d, the log ends at %d", ErrOffsetOutOfRange, first, next))
				continue
			}
		}
		last := first + int64(a.Info.LastOffsetDelta)
		a.BaseOffset, a.LastOffset = first, last
		info := a.info()
		roll, err := l.mustRoll(cfg, active, size, &info)
		if err == nil && roll {
			if len(r.in) > 0 { // write what there is; this one begins the next part
				l.writeAdmitted(r, cfg)
				return as[i:]
			}
			err = l.roll(first)
			active, size = l.active(), 0
		}
		if err != nil {
			r.refuse(a, err)
			continue
		}
		if cfg.Owner != nil {
			if err := cfg.Owner.Admit(a); err != nil {
				r.refuse(a, err)
				continue
			}
		}
		if err := l.assignEpoch(a, first); err != nil {
			if cfg.Owner != nil {
				cfg.Owner.Refused([]*Append{a}, err)
			}
			r.refuse(a, err)
			continue
		}
		next = last + 1
		size += int64(len(a.Batch))
		r.in = append(r.in, a)
	}
	if len(r.in) > 0 {
		l.writeAdmitted(r, cfg)
	}
	return nil
}

func (r *round) refuse(a *Append, err error) {
	a.Err, a.BaseOffset, a.LastOffset = err, -1, -1
	r.refused = append(r.refused, a)
}

// writeAdmitted is one write for all of r.in. With the turn.
func (l *Log) writeAdmitted(r *round, cfg *Config) {
	err := l.markOpen()
	active := l.active()
	var whole []byte // what is written, if it is one piece
	if err == nil && cfg.Sync == SyncOnAck {
		err = r.reserve(cfg, active)
	}
	if err == nil {
		r.gather()
		if len(r.bufs) == 1 {
			whole = r.bufs[0]
		}
		if err = active.Append(r.bufs, r.infos); err != nil {
			err = l.sealCut(cfg, active, err)
		}
	}
	if err != nil {
		l.failRound(r, cfg, active, err)
		return
	}
	end := r.in[len(r.in)-1].LastOffset + 1
	l.tail.push(l.dir.tails, l.end.Load(), whole, r.infos)
	l.end.Store(end)
	l.count(r)
	if cfg.Owner != nil {
		cfg.Owner.Written(r.in)
	}
	r.written = append(r.written, r.in...)
	r.in = r.in[:0]
}

// reserve prepares the segment so that the sync after the write need not change more than the data.
func (r *round) reserve(cfg *Config, active *segment.Segment) error {
	if err := active.Preallocate(preallocation(cfg, active.Size())); err != nil {
		return err
	}
	bytes := 0
	for _, a := range r.in {
		bytes += len(a.Batch)
	}
	return active.ZeroAhead(bytes)
}

// gather makes r.bufs hold the bytes of r.in, with offsets and epochs set: in copies, unless the bytes are the log's own.
func (r *round) gather() {
	if a := r.in[0]; len(r.in) == 1 && a.own {
		a.stamp(a.Batch)
		r.bufs, r.infos = append(r.bufs[:0], a.Batch), append(r.infos[:0], a.info())
		return
	}
	copied := 0
	for _, a := range r.in {
		copied += min(len(a.Batch), copyBytes)
	}
	if cap(r.buf) < copied {
		r.buf = make([]byte, 0, 2*copied)
	}
	buf, from := r.buf[:0], 0
	r.bufs, r.infos = r.bufs[:0], r.infos[:0]
	for _, a := range r.in {
		r.infos = append(r.infos, a.info())
		large := len(a.Batch) > copyBytes
		if large && (a.own || a.KeepOffsets) {
			if from < len(buf) {
				r.bufs = append(r.bufs, buf[from:])
				from = len(buf)
			}
			a.stamp(a.Batch)
			r.bufs = append(r.bufs, a.Batch)
			continue
		}
		at := len(buf)
		if large {
			buf = append(buf, a.Batch[:patchedBytes]...)
		} else {
			buf = append(buf, a.Batch...)
		}
		a.stamp(buf[at:])
		if large {
			r.bufs = append(r.bufs, buf[from:], a.Batch[patchedBytes:])
			from = len(buf)
		}
	}
	if from < len(buf) {
		r.bufs = append(r.bufs, buf[from:])
	}
	r.buf = buf[:0]
}

// info is a as the segment is told of it.
func (a *Append) info() segment.BatchInfo {
	return segment.BatchInfo{Size: len(a.Batch), BaseOffset: a.BaseOffset, LastOffset: a.LastOffset, MaxTimestamp: a.Info.MaxTimestamp}
}

// stamp sets what the CRC does not cover.
func (a *Append) stamp(p []byte) {
	if !a.KeepOffsets {
		record.SetBaseOffset(p, a.BaseOffset)
		record.SetLeaderEpoch(p, a.epoch)
	}
}

// count adds up what was written; it is seen by Stats before any of it is completed. With the turn.
func (l *Log) count(r *round) {
	c := &l.appended
	c.rounds++
	c.appends += int64(len(r.in))
	for _, a := range r.in {
		c.records += int64(a.Info.RecordCount)
		c.bytes += int64(len(a.Batch))
	}
	if a := r.in[0]; len(r.in) == 1 && a.call != nil && a.call.here {
		return // it returns to its caller after the turn was passed on
	}
	l.mu.Lock()
	l.counted.add(c)
	l.mu.Unlock()
}

// sealCut makes the cut durable that took a failed write back, and returns the write's error, or the one that breaks the log: what is refused under
// SyncOnAck must not be there after a power cut, which can find any part of it on the disk, whole batches too. With the turn.
func (l *Log) sealCut(cfg *Config, active *segment.Segment, cause error) error {
	if cfg.Sync != SyncOnAck || active.Err() != nil {
		return cause
	}
	l.syncs.Add(1)
	return errors.Join(cause, active.Sync()) // a failure is the segment's sticky error
}

// failRound refuses appends whose write failed. The segment was cut back, or is broken. With the turn.
func (l *Log) failRound(r *round, cfg *Config, active *segment.Segment, err error) {
	err = l.writeFailed(active, err)
	if cfg.Owner != nil {
		cfg.Owner.Refused(r.in, err)
	}
	for _, a := range r.in {
		r.refuse(a, err)
	}
	r.in = r.in[:0]
}

// writeFailed returns the error of an append whose write failed with err; if the segment could not be cut back it is the sticky one. With the turn.
func (l *Log) writeFailed(active *segment.Segment, err error) error {
	err = fmt.Errorf("append to %s: %w", l.path, err)
	if active.Err() != nil {
		err = l.breakWith(err)
	}
	return err
}

// settle completes what was written, as the sync policy says. With the turn.
func (l *Log) settle(r *round, cfg *Config) {
	l.armIdle(cfg)
	if cfg.Sync != SyncOnAck {
		l.armSync(cfg)
		l.wake()
		for _, a := range r.written {
			a.complete()
		}
		return
	}
	end := l.end.Load()
	waiting := r.written[:0]
	for _, a := range r.written {
		if a.Wait == WaitWritten {
			a.complete()
		} else {
			waiting = append(waiting, a)
		}
	}
	// What a roll in this round has closed was synced then.
	l.syncs.Add(1)
	err := l.active().Sync()
	if err != nil {
		err = l.breakWith(fmt.Errorf("append to %s: %w", l.path, err))
	} else {
		l.durableTo(end, l.cuts.Load())
	}
	for _, a := range waiting {
		a.Err = err
		a.complete()
	}
}
