package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/vfs"
)

// Close rejects new calls with ErrClosed, waits for appends in progress, wakes all waiting readers,
// and syncs and closes the files. It is idempotent: later calls wait for the first and return its
// result.
func (l *Log) Close() error {
	_, e := l.shut((*writer).closeFiles)
	return e.err
}

// removedSuffix ends the name that the directory of a removed log has until it is deleted:
// <dir>.<16 hex digits>.removed.
const removedSuffix = ".removed"

// Remove closes the log and deletes its directory. It renames the directory first, durably. A crash
// leaves the whole log or none; a directory that it leaves under the new name is never opened as a
// log and can be removed. A later Close or Remove waits and returns the same result.
//
// After an error the log is complete or removed. If only the sync of the new name failed, the log
// is removed, but a power failure may bring it back. That is possible until a log that was opened
// in its place has something on stable storage; removing the latter removes both.
//
// Remove returns ErrClosed for a log that Close has closed or is closing, since another owner may
// have opened the directory since. It returns ErrReadOnly for a read-only log, which stays open.
func (l *Log) Remove() error {
	if l.readOnly {
		return ErrReadOnly
	}
	first, e := l.shut(func(w *writer) error {
		l.ending.Load().removed = true
		for _, s := range l.list() {
			_ = s.Close() // errors do not matter: its files are deleted
		}
		return w.removeDir()
	})
	if !first && !e.removed {
		return fmt.Errorf("remove %s: %w", l.path, ErrClosed)
	}
	return e.err
}

// removeDir deletes the log's directory, and the symbolic link that it was opened by, if any.
func (w *writer) removeDir() error {
	l := w.log
	fsys, real := l.cfg.Load().FS, l.claim.name
	gone := vfs.WithSuffix(real, fmt.Sprintf(".%016x%s", rand.Uint64(), removedSuffix))
	if err := fsys.Rename(real, gone); err != nil { // it is to be opened again, as after Close
		return errors.Join(fmt.Errorf("remove %s: %w", l.path, err), l.noteAgain())
	}
	vfs.RemoveNote(fsys, filepath.Join(real, suspectFile))
	errs := []error{fsys.SyncDir(filepath.Dir(real))}
	// Before the rename is durable, a power cut may restore the name, and the files under it must
	// be complete.
	if errs[0] == nil {
		errs = append(errs, fsys.RemoveAll(gone))
	}
	if err := fsys.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// shut ends the log; end is called in the place where its files are closed. first reports whether
// this call ended the log; otherwise it has waited for the call that does. e is the result of that
// call.
func (l *Log) shut(end func(w *writer) error) (first bool, e *ending) {
	e = &ending{done: make(chan struct{})}
	if !l.ending.CompareAndSwap(nil, e) {
		e = l.ending.Load()
		<-e.done
		return false, e
	}
	l.closing.Store(true)
	alarms := []*alarm.Alarm{&l.intervalAlarm, &l.idleAlarm, &l.expiryAlarm}
	for _, a := range alarms {
		a.Stop()
	}
	l.cleaning.Lock() // a compaction under way ends at its next batch
	defer l.cleaning.Unlock()
	w, _ := l.token.acquire() // no error: only we retire it
	l.token.retire()          // appends accepted before have been written, or wait in the queue
	l.tail.reset()
	l.wakeAll()
	for _, a := range alarms {
		a.Wait()
	}
	l.wg.Wait() // syncs in the background
	if !l.readOnly {
		if e.err = l.syncNow(); e.err != nil {
			e.err = l.breakWith(e.err) // there is no later attempt: the next open recovers the log
		}
		// Also if a failed write left bytes that were cut off: the state will record where the log
		// ends.
		if e.err == nil && w.marked {
			if err := l.active().Sync(); err != nil {
				e.err = l.breakWith(fmt.Errorf("sync %s: %w", l.path, err))
			}
		}
	}
	e.err = errors.Join(e.err, end(w))
	if !l.readOnly {
		l.dir.wasClosed(l, e.err)
		e.err = errors.Join(e.err, l.dir.release(l.claim)) // after the last write to its files
	}
	if l.ownsDir {
		e.err = errors.Join(e.err, l.dir.Close())
	}
	close(e.done)
	return true, e
}

func (w *writer) closeFiles() error {
	l := w.log
	errs := []error{l.noteAgain()}
	// Not for a reader: the state that it read may be old, and would undo the writer's.
	marked := !l.readOnly && (w.marked || !l.recovery.Clean)
	if marked && l.Err() == nil {
		if err := w.snapshot(l.segments.end.Load()); err != nil {
			errs = append(errs, err)
		}
		w.noteAborted(l.active(), l.segments.end.Load())
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
