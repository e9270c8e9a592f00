package log

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/stratalog/strata/internal/segment"
)

// durableTo records that everything below end is on stable storage, and notifies owner and readers,
// unless the log was truncated since cuts was read.
func (l *Log) durableTo(end, cuts int64) {
	if l.durability.advance(end, cuts) {
		l.tellDurable(end)
	}
}

// tellDurable notifies the owner and readers that the durable end has moved.
func (l *Log) tellDurable(end int64) {
	if owner := l.cfg.Load().Owner; owner != nil {
		owner.Durable(end)
	}
	l.wake()
}

// A state is three small syncs. It pays off when it saves the next recovery from reading more than
// this, and from mistaking damage to synced data for a torn write.
const (
	// persistBytes is after how much was synced: by then it is a small part of the cost.
	persistBytes = unsyncedWindow
	// persistEvery is the minimum time since the last state after which a call of Sync writes one.
	persistEvery = time.Second
)

// Sync waits until everything appended before the call is on stable storage. Appends continue
// meanwhile. A failure is sticky: every later Sync and append returns it. The exception is a lack
// of file descriptors (EMFILE, ENFILE), since the disk was not used: the next Sync tries again, and
// SyncInterval retries within a second.
//
// The first Sync in a second, and one that covers 64 MiB, also puts the recovery point on stable
// storage. The next Open does not read records below the recovery point, and never mistakes damage
// to them for a torn end. Under SyncOnAck the recovery point moves with every new segment.
func (l *Log) Sync() error {
	if err := l.SyncRecords(); err != nil {
		return err
	}
	if l.cfg.Load().Sync != SyncOnAck {
		l.persist(persistEvery)
	}
	return nil
}

// SyncRecords is Sync without the recovery point. It waits for the disk once, also in a log that
// was never synced, where the first Sync waits three times.
func (l *Log) SyncRecords() error {
	if l.readOnly {
		return ErrReadOnly
	}
	if l.closing.Load() {
		return ErrClosed
	}
	d := &l.durability
	if d.offset.Load() < l.segments.end.Load() { // else it is all durable, perhaps in the journal
		if err := l.syncNow(); err != nil {
			return err
		}
	}
	return d.failed()
}

// persist writes a state with the present recovery point, if so much was synced since the last one,
// or if that is so long ago. A failure is no failure of the sync: the next append or state makes up
// for it.
func (l *Log) persist(every time.Duration) {
	p := &l.durability.persisted
	bytes := l.token.counts().bytes
	if news := bytes - p.bytes.Load(); news <= 0 || news < persistBytes && time.Since(time.Unix(0, p.at.Load())) < every {
		return
	}
	err := l.exclusively(func(w *writer) error {
		if !w.marked {
			return nil
		}
		err := w.writeState(l.list(), false)
		if err == nil {
			p.note(bytes) // appends since the sync are for the next one
		}
		return err
	})
	if err != nil && !errors.Is(err, ErrClosed) {
		l.cfg.Load().Logger.Warn("recovery point was not written: recovery looks at more of the log", "path", l.path, "err", err)
	}
}

// syncNow has everything on stable storage in the log's own files, also of a log that is being
// closed. Its error is sticky unless it is unasked.
func (l *Log) syncNow() error {
	d := &l.durability
	d.syncing.Lock()
	defer d.syncing.Unlock()
	d.mu.Lock()
	cuts := d.cuts.Load()
	// After cuts, or it could be that of before a truncation; before the segments, or a roll could
	// put its end behind them.
	end := l.segments.end.Load()
	dirty, active := d.dirty, l.active()
	// The start can have been moved past the dirty segments.
	done := d.inFiles.Load() >= end && len(dirty) == 0
	d.mu.Unlock()
	if err := d.failed(); err != nil || done {
		return err
	}
	defer l.dir.observeSync(time.Now())
	d.syncs.Add(1)
	for _, s := range dirty {
		if err := l.syncClosed(s); err != nil {
			return err
		}
	}
	if err := l.syncNamesBeside(active.Sync); err != nil {
		return l.syncFailed(err)
	}
	l.durableTo(end, cuts)
	return nil
}

// syncDirty syncs closed segments in the background, which a roll does not do under SyncNever and
// SyncInterval.
func (l *Log) syncDirty() {
	defer l.wg.Done()
	d := &l.durability
	d.syncing.Lock()
	defer d.syncing.Unlock()
	d.mu.Lock()
	cuts, dirty := d.cuts.Load(), d.dirty
	d.mu.Unlock()
	if d.failed() != nil {
		return
	}
	for _, s := range dirty {
		// Before the sync: a truncation can have made the segment active again.
		end := s.NextOffset()
		if l.syncClosed(s) != nil {
			return // every append returns the error, or the next sync covers the segments
		}
		l.durableTo(end, cuts)
	}
}

// syncClosed syncs a closed segment. It ignores a segment that was removed or truncated meanwhile.
func (l *Log) syncClosed(s *segment.Segment) error {
	err := s.SyncSealed()
	l.durability.mu.Lock()
	asked := slices.Contains(l.durability.dirty, s) && slices.Contains(l.list(), s)
	l.durability.mu.Unlock()
	if err != nil && asked {
		return l.syncFailed(err)
	}
	l.durability.forget(s)
	return nil
}

// syncFailed returns the error of a sync that failed with err, and makes it sticky unless it can be
// tried again.
func (l *Log) syncFailed(err error) error {
	err = fmt.Errorf("sync %s: %w", l.path, err)
	if unasked(err) {
		return err
	}
	return l.breakWith(err)
}

// unasked reports whether err is only a lack of descriptors: a file that could not be opened was
// not synced, and the system has dropped nothing.
func unasked(err error) bool {
	switch e := err.(type) {
	case syscall.Errno:
		return e == syscall.EMFILE || e == syscall.ENFILE
	case interface{ Unwrap() []error }:
		return len(e.Unwrap()) > 0 && !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !unasked(err) })
	case interface{ Unwrap() error }:
		return unasked(e.Unwrap())
	}
	return false
}

// breakWith makes the log read-only with a sticky error and returns it, or an earlier one.
func (l *Log) breakWith(err error) error {
	err, first := l.durability.fail(err)
	if first {
		l.cfg.Load().Logger.Error("log is read-only until it is opened again", "path", l.path, "err", err)
		l.noteSuspect()
	}
	return err
}

// armSync starts the timer of SyncInterval, if it is not running.
func (w *writer) armSync(cfg *Config) {
	if d := cfg.Sync.Interval(); d > 0 {
		w.log.intervalAlarm.After(d)
	}
}

func (l *Log) syncDue() {
	if err := l.syncNow(); err != nil {
		// Every append returns the error too, or the sync is retried.
		l.cfg.Load().Logger.Warn("periodic sync failed", "path", l.path, "err", err)
		if unasked(err) {
			l.intervalAlarm.By(time.Now().Add(unaskedAgain))
		}
		return
	}
	l.persist(math.MaxInt64)
}

// unaskedAgain is when a periodic sync is tried again that had no descriptor.
const unaskedAgain = time.Second

// idleAfter is how long a log is not written to before its preallocated space is given back and its
// file closed.
const idleAfter = 10 * time.Second

// armIdle has the log tidied up when nothing is written any more.
func (w *writer) armIdle(cfg *Config) {
	if cfg.Sync == SyncOnAck {
		w.log.idleAlarm.After(idleAfter)
	}
}

// trimIdle frees resources that only a busy log needs, or checks again later if the log was written
// to meanwhile.
func (l *Log) trimIdle() {
	w, err := l.token.acquire()
	if err != nil {
		return
	}
	defer w.release()
	cfg, rounds := l.cfg.Load(), l.Stats().Rounds
	switch {
	case rounds != w.idleRounds:
		w.idleRounds = rounds
		w.armIdle(cfg)
	case l.durability.offset.Load() == l.segments.end.Load():
		err := l.syncNow() // it may be in the journal only
		if err == nil {
			err = l.active().TrimTail()
		}
		if err != nil {
			cfg.Logger.Warn("preallocated space was not given back", "path", l.path, "err", err)
		}
	}
}
