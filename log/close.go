package log

import (
	"errors"
	"path/filepath"

	"github.com/stratalog/strata/internal/alarm"
)

// Close refuses new calls with ErrClosed, lets the appends under way end, wakes who waits, syncs
// and closes the files. It is idempotent; later callers wait for the first and get its result.
func (l *Log) Close() error { return l.shut((*writer).closeFiles) }

// Remove closes the log and deletes its directory. A read-only log stays open, and it returns
// ErrReadOnly.
func (l *Log) Remove() error {
	if l.readOnly {
		return ErrReadOnly
	}
	return l.shut(func(*writer) error {
		for _, s := range l.list() {
			_ = s.Close() // whatever state it is in: it goes
		}
		cfg := l.cfg.Load()
		err := cfg.FS.RemoveAll(l.path)
		return errors.Join(err, cfg.FS.SyncDir(filepath.Dir(l.path)))
	})
}

func (l *Log) shut(end func(w *writer) error) error {
	if !l.closing.CompareAndSwap(false, true) {
		<-l.closed
		return l.err
	}
	alarms := []*alarm.Alarm{&l.intervalAlarm, &l.idleAlarm, &l.expiryAlarm}
	for _, a := range alarms {
		a.Stop()
	}
	l.cleaning.lock() // a compaction under way ends at its next batch
	defer l.cleaning.unlock()
	w, _ := l.token.acquire() // no error: only we retire it
	l.token.retire()          // appends accepted before have been written, or wait in the queue
	l.tail.reset()
	l.wakeAll()
	for _, a := range alarms {
		a.Wait()
	}
	l.wg.Wait() // syncs in the background
	if !l.readOnly {
		l.err = l.syncNow()
		if l.err == nil && w.marked { // also what a failed write left and was cut off: the state is going to say where the log ends
			l.err = l.active().Sync()
		}
	}
	l.err = errors.Join(l.err, end(w))
	if !l.readOnly {
		l.dir.wasClosed(l, l.err)
		l.err = errors.Join(l.err, l.dir.release(l.claim)) // after the last write to its files
	}
	if l.ownsDir {
		l.err = errors.Join(l.err, l.dir.Close())
	}
	close(l.closed)
	return l.err
}

func (w *writer) closeFiles() error {
	l := w.log
	var errs []error
	marked := !l.readOnly && (w.marked || !l.recovery.Clean) // what a reader saw is old: its state would undo the writer's
	if marked && l.Err() == nil {
		if err := w.snapshot(l.segments.end.Load()); err != nil {
			errs = append(errs, err)
		}
	}
	for _, s := range l.list() {
		errs = append(errs, s.Close())
	}
	if marked && l.epochs.inState && l.Err() == nil { // Kafka looks for them in their file
		if err := l.epochs.store(l.epochs.list()); err != nil {
			errs = append(errs, err)
		}
	}
	if marked && l.Err() == nil && errors.Join(errs...) == nil {
		errs = append(errs, w.writeState(l.list(), true))
	}
	return errors.Join(errs...)
}
