package log

import (
	"fmt"
	"time"
)

// completeWritten completes rejected appends, and appends that are as safe as their callers want
// when they are written. It reports whether the round must be made durable: then complete must
// follow for the appends left in r.written.
func (w *writer) completeWritten(r *round) (unsynced bool) {
	l := w.log
	for _, a := range r.refused {
		a.complete()
	}
	if len(r.written) == 0 {
		return false
	}
	w.armIdle(r.cfg)
	if r.cfg.Sync != SyncOnAck {
		w.armSync(r.cfg)
		l.wake()
		for _, a := range r.written {
			a.complete()
		}
		return false
	}
	waiting := r.written[:0]
	for _, a := range r.written {
		if a.Wait == WaitWritten {
			a.complete()
		} else {
			waiting = append(waiting, a)
		}
	}
	r.written = waiting
	return true
}

// sync makes everything below r.end durable. Segments that a roll of this round has closed were
// synced then.
func (w *writer) sync(*round) error {
	defer w.log.dir.observeSync(time.Now())
	w.log.durability.syncs.Add(1)
	return w.log.active().Sync()
}

// complete records that everything below r.end is on stable storage, or, with an error, that this
// is unknown. It completes the appends that waited for it.
func (w *writer) complete(r *round, err error) {
	l := w.log
	if err != nil {
		err = l.breakWith(fmt.Errorf("append to %s: %w", l.path, err))
	} else {
		l.durableTo(r.end, l.durability.cuts.Load())
	}
	for _, a := range r.written {
		a.Err = err
		a.complete()
	}
}
