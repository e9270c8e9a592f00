package log

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/internal/segment"
)

// write writes the appends in r.all and publishes the new end. It completes none.
func (w *writer) write(r *round) {
	r.cfg = w.log.cfg.Load()
	if err := w.log.durability.failed(); err != nil { // since they were queued
		for _, a := range r.all {
			r.refuse(a, err)
		}
		return
	}
	for rest := r.all; len(rest) > 0; {
		rest = w.writeSome(r, rest)
	}
	r.end = w.log.segments.end.Load()
}

// writeSome admits and writes appends up to where a new segment is needed, and returns the others.
func (w *writer) writeSome(r *round, as []*Append) (rest []*Append) {
	l, cfg := w.log, r.cfg
	next, active := l.segments.end.Load(), l.active()
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
		if last < first || last >= maxEnd {
			r.refuse(a, fmt.Errorf("%w: append at %d, a log ends below %d", ErrOffsetOutOfRange, first, int64(maxEnd)))
			continue
		}
		a.BaseOffset, a.LastOffset = first, last
		info := a.info()
		roll, err := w.mustRoll(cfg, active, size, &info)
		if err == nil && roll && len(r.in) > 0 { // write the admitted appends; this one begins the next part
			w.writeAdmitted(r)
			return as[i:]
		}
		if err == nil && cfg.Owner != nil {
			err = cfg.Owner.Admit(a)
		}
		if err != nil {
			r.refuse(a, err)
			continue
		}
		if roll { // only now: a segment created for a rejected append has no room for the next one
			err = w.roll(rollBase(next, first, last))
			active, size = l.active(), 0
		}
		if err == nil {
			err = w.assignEpoch(a, first)
		}
		if err != nil {
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
		w.writeAdmitted(r)
	}
	return nil
}

func (r *round) refuse(a *Append, err error) {
	a.Err, a.BaseOffset, a.LastOffset = err, -1, -1
	r.refused = append(r.refused, a)
}

// writeAdmitted is one write for all of r.in.
func (w *writer) writeAdmitted(r *round) {
	l, cfg := w.log, r.cfg
	active := l.active()
	if w.gapless && r.leavesGap(active.NextOffset()) {
		w.gapless, w.marked = false, false // the state has to record it first
	}
	err := w.mark(asRecord)
	pos := active.Size()
	var whole []byte // the written data, if it is one piece
	if err == nil && cfg.Sync == SyncOnAck {
		err = r.reserve(cfg, active)
	}
	if err == nil {
		r.gather()
		if len(r.bufs) == 1 {
			whole = r.bufs[0]
		}
		if r.frame != nil {
			r.pieces = append(r.pieces[:0], r.bufs...)
		}
		if err = active.Append(r.bufs, r.infos); err != nil {
			w.countCut() // readers may have read whole batches of it
			err = w.syncCut(cfg, active, err)
		}
	}
	if err != nil {
		w.failRound(r, cfg, active, err)
		return
	}
	if r.frame != nil {
		w.addToFrame(r, active.Base(), pos)
	}
	end := r.in[len(r.in)-1].LastOffset + 1
	l.tail.push(l.dir.tails, l.segments.end.Load(), whole, r.infos)
	l.segments.end.Store(end)
	w.count(r)
	if cfg.Owner != nil {
		cfg.Owner.Written(r.in)
		if l.aborts.news.Load() > 0 {
			w.indexAborted()
		}
	}
	r.written = append(r.written, r.in...)
	r.in = r.in[:0]
}

// leavesGap reports whether the batches to be written after offset next leave offsets out.
func (r *round) leavesGap(next int64) bool {
	for _, a := range r.in {
		if a.BaseOffset != next {
			return true
		}
		next = a.LastOffset + 1
	}
	return false
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

// count adds up the written appends; Stats shows them before any of them is completed.
func (w *writer) count(r *round) {
	l := w.log
	c := &w.appended
	c.rounds++
	c.appends += int64(len(r.in))
	for _, a := range r.in {
		c.records += int64(a.Info.RecordCount)
		c.bytes += int64(len(a.Batch))
	}
	if a := r.in[0]; len(r.in) == 1 && a.call != nil && a.call.inline {
		return // it returns to its caller after the token was given up
	}
	l.token.mu.Lock()
	c.moveTo(&l.token.counted)
	l.token.mu.Unlock()
}

// syncCut makes the cut durable that undid a failed write, and returns the write's error, or the
// one that breaks the log. An append that is rejected under SyncOnAck must not be there after a
// power failure, which can leave any part of it on the disk, whole batches too.
func (w *writer) syncCut(cfg *Config, active *segment.Segment, cause error) error {
	l := w.log
	if cfg.Sync != SyncOnAck || active.Err() != nil {
		return cause
	}
	l.durability.syncs.Add(1)
	return errors.Join(cause, active.Sync()) // a failure is the segment's sticky error
}

// failRound refuses appends whose write failed. The segment was cut back, or is broken.
func (w *writer) failRound(r *round, cfg *Config, active *segment.Segment, err error) {
	err = w.writeFailed(active, err)
	if cfg.Owner != nil {
		cfg.Owner.Refused(r.in, err)
	}
	for _, a := range r.in {
		r.refuse(a, err)
	}
	r.in = r.in[:0]
}

// writeFailed returns the error of an append whose write failed with err; if the segment could not
// be cut back it is the sticky one.
func (w *writer) writeFailed(active *segment.Segment, err error) error {
	l := w.log
	err = fmt.Errorf("append to %s: %w", l.path, err)
	if active.Err() != nil {
		// Stored before failed is read: a goroutine that breaks the log afterwards finds it and
		// records it, too.
		news := l.durability.torn.CompareAndSwap(nil, &tornWrite{active, w.incarnation, w.journalTag})
		noted := l.durability.failed() != nil
		err = l.breakWith(err)
		if news && noted {
			l.noteSuspect()
		}
	}
	return err
}
