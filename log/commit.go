package log

import "fmt"

// completeWritten completes what was refused, and what is as safe as its caller wants it once it is
// written. It reports whether the round has to be made durable: complete must follow then, for what
// is left in r.written.
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

// sync makes everything below r.end durable. What a roll in this round has closed was synced then.
func (w *writer) sync(*round) error {
	w.log.durability.syncs.Add(1)
	return w.log.active().Sync()
}

// complete records that everything below r.end is on stable storage, or with an error that nobody
// can know what is, and completes the appends that waited for it.
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
