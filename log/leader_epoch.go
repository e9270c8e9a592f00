package log

import (
	"fmt"
	"path/filepath"
)

// SetLeaderEpoch records that a leader epoch begins at the log end offset, before anything is
// appended in it. It is on stable storage on return. It returns ErrStaleEpoch if the log has
// recorded a higher epoch. TruncateTo removes epochs that began at its offset or later.
func (l *Log) SetLeaderEpoch(epoch int32) error { return l.setLeaderEpoch(epoch, durable) }

// LeadInEpoch is SetLeaderEpoch for an epoch that is on stable storage elsewhere, as a partition's
// epoch is in the metadata. In a new log that is not under SyncOnAck, the epoch is only as durable
// as the records. ErrStaleEpoch comes with a *CorruptError here. A log can be ahead of the
// metadata only if its leader-epoch-checkpoint is damaged, or if the metadata has lost changes.
func (l *Log) LeadInEpoch(epoch int32) error { return l.setLeaderEpoch(epoch, asRecord) }

func (l *Log) setLeaderEpoch(epoch int32, how safety) error {
	return l.exclusively(func(w *writer) error {
		if err := l.durability.failed(); err != nil { // the end may differ from the files
			return err
		}
		if err := w.checkEpoch(epoch); err != nil {
			if how == asRecord {
				err = fmt.Errorf("%w: %w", err, &CorruptError{Path: filepath.Join(l.path, epochFile), Reason: "its last leader epoch is above the one to lead in"})
			}
			return fmt.Errorf("leader epoch %d of %s: %w", epoch, l.path, err)
		}
		if err := w.beginEpoch(epoch, how); err != nil {
			return fmt.Errorf("leader epoch %d of %s: %w", epoch, l.path, err)
		}
		w.epoch = epoch
		return nil
	})
}

// checkEpoch returns ErrStaleEpoch if the log has recorded a higher epoch.
func (w *writer) checkEpoch(epoch int32) error {
	if latest, ok := w.log.epochs.Latest(); ok && epoch < latest {
		return fmt.Errorf("%w: %d", ErrStaleEpoch, latest)
	}
	return nil
}

// beginEpoch records that epoch begins at the log's end. The first epoch of a new log goes into its
// state, which the first append would have to write anyway: a file and two syncs less for each of
// thousands of new logs.
func (w *writer) beginEpoch(epoch int32, how safety) error {
	l := w.log
	if how == durable && w.provisional { // the epoch may be in it
		if err := w.markOpen(); err != nil {
			return err
		}
	}
	_, known := l.epochs.Latest()
	if epoch >= 0 && !known && l.epochs.absent && l.segments.end.Load() == 0 {
		return l.epochs.begin(epoch, func() error {
			w.marked = false // it does not have the epoch
			if how == asRecord {
				return w.mark(how)
			}
			return w.writeState(l.list(), false)
		})
	}
	if err := w.addEpoch(epoch, l.segments.end.Load()); err != nil {
		return err
	}
	if !known && epoch >= 0 {
		// The first epoch has written its file, and with that synced the directory.
		w.unlisted = false
	}
	return nil
}

// addEpoch records in the file that epoch begins at start. A state that held the first epoch must
// not do so any more: should the file get lost, the epochs are found in the batches.
func (w *writer) addEpoch(epoch int32, start int64) error {
	l := w.log
	was := l.epochs.inState
	if err := l.epochs.assign(epoch, start); err != nil {
		return err
	}
	if was && !l.epochs.inState {
		return w.writeState(l.list(), false)
	}
	return nil
}

// assignEpoch chooses the leader epoch that a is stamped with and records a new one.
func (w *writer) assignEpoch(a *Append, first int64) error {
	l := w.log
	if err := l.epochs.storeAgain(); err != nil {
		return err
	}
	epoch := a.LeaderEpoch
	switch {
	case a.KeepOffsets:
		epoch = a.Info.LeaderEpoch
	case epoch < 0:
		epoch = w.epoch
		a.epoch = epoch
		return nil // without an epoch of its own nothing needs to be recorded
	}
	a.epoch = epoch
	if epoch == w.epoch && w.epochKnown {
		return nil
	}
	if err := w.checkEpoch(epoch); err != nil {
		return err
	}
	if err := w.addEpoch(epoch, first); err != nil {
		return err
	}
	w.epoch, w.epochKnown = epoch, true
	return nil
}
