package log

import (
	"math"
	"slices"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/manifest"
)

// blankState returns a state with the fields that are the same in every state of this log until it
// is emptied.
func (w *writer) blankState() manifest.State {
	purged := w.log.Purged()
	return manifest.State{
		Identity: w.log.identity, Incarnation: w.incarnation, JournalTag: w.journalTag, Cuts: w.cuts,
		Purged: purged.Below, PurgeID: purged.ID, BootID: w.log.dir.bootID,
	}
}

// writeState writes a state in which the log consists of the given segments, and the segments in
// gone are obsolete: recovery deletes them if a crash leaves them.
func (w *writer) writeState(list []*segment.Segment, clean bool, gone ...*segment.Segment) error {
	return w.writeStateAs(w.log.cfg.Load(), list, clean, gone...)
}

// writeStateAs is writeState under settings that may not hold yet.
func (w *writer) writeStateAs(cfg *Config, list []*segment.Segment, clean bool, gone ...*segment.Segment) error {
	s := w.stateOf(cfg, list, clean)
	if err := w.storeState(s.With(s.Segments, obsolete(gone))); err != nil {
		return err
	}
	w.removeStrays(list)
	return nil
}

// stateOf returns the state of a log with the given segments under the given settings.
func (w *writer) stateOf(cfg *Config, list []*segment.Segment, clean bool) manifest.State {
	l := w.log
	s := w.blankState()
	s.Clean, s.Start, s.RecoveryPoint = clean, l.segments.start.Load(), l.durability.inFiles.Load()
	s.Strict = cfg.Sync == SyncOnAck && cfg.MaxBatchBytes+roundBytes <= unsyncedWindow
	if _, s.Epochs = l.epochs.Latest(); l.epochs.inState {
		s.Epochs, s.FirstOnly, s.FirstEpoch = true, true, l.epochs.first
	}
	// A Kafka broker that continues the log as a follower leaves gaps where its leader has
	// compacted.
	s.Gapless = w.gapless && !cfg.Cleanup.Compacts()
	active, unsynced := list[len(list)-1], w.firstUnsynced(cfg, list)
	s.RecoveryPoint = min(s.RecoveryPoint, unsynced)
	named := active.Base() >= w.unfilled.to && unsynced == math.MaxInt64
	if s.RecoveryPoint <= w.unfilled.to && s.Start <= w.unfilled.to && !named {
		// No batch will show that the offsets below were assigned.
		s.End = w.unfilled.to
		// at most the end that recovery will find
		s.RecoveryPoint = min(s.RecoveryPoint, w.unfilled.from)
	}
	if clean {
		s.EpochsHash = l.epochs.hash()
		s.End, s.Size = l.segments.end.Load(), active.Size()
		s.RecoveryPoint = s.End
		if s.End == w.unfilled.to && !named {
			s.RecoveryPoint = w.unfilled.from
		}
	}
	for i, seg := range list {
		kept := manifest.Segment{Base: seg.Base(), Size: seg.Size(), Aborted: seg.NotedAborted()}
		if i == len(list)-1 {
			kept.Size = -1
			if !clean { // it gets more entries
				kept.Aborted = 0
			}
		}
		s.Segments = append(s.Segments, kept)
	}
	return s
}

// firstUnsynced returns the base of the first closed segment in list that has not been synced
// since, math.MaxInt64 if all were: the state names its size, which a power cut can still change,
// even if none of its records is needed or all of them are durable.
func (w *writer) firstUnsynced(cfg *Config, list []*segment.Segment) int64 {
	l := w.log
	l.durability.mu.Lock()
	dirty := l.durability.dirty
	l.durability.mu.Unlock()
	closing := l.active() // if it is not the last of list: it is being closed, and synced under SyncOnAck
	for _, s := range list[:len(list)-1] {
		if slices.Contains(dirty, s) || s == closing && cfg.Sync != SyncOnAck {
			return s.Base()
		}
	}
	return math.MaxInt64
}

// obsolete returns the entries of removed segments in a state. A segment that may have been active
// has any size.
func obsolete(gone []*segment.Segment) []manifest.Segment {
	var out []manifest.Segment
	for _, s := range gone {
		size := int64(-1)
		if s.Sealed() || s.Allocated() == s.Size() {
			size = s.Size()
		}
		out = append(out, manifest.Segment{Base: s.Base(), Size: size, Role: manifest.Obsolete})
	}
	return out
}

// storeState replaces the state.
func (w *writer) storeState(s manifest.State) error { return w.storeStateBeside(s, nil) }

// storeStateBeside is storeState for the first state of a provisional log: the state gets its name
// when beside, which syncs the other files, has returned. beside is nil for any other log.
func (w *writer) storeStateBeside(s manifest.State, beside func() error) error {
	l := w.log
	cfg := l.cfg.Load()
	// The journal's entries of this log are not needed any more: they are void once this state is
	// on the disk.
	if l.durability.settled() {
		w.journalTag = newIncarnation()
	}
	s.JournalTag = w.journalTag
	w.stateless, w.provisional = false, false // also after an error: one may be there
	var err error
	if w.unlisted || l.unentered.Load() || beside != nil {
		err = w.storeFirstState(cfg, s, beside)
	} else {
		err = storeState(cfg.FS, l.path, s)
	}
	w.marked = !s.Clean && err == nil
	if err == nil {
		l.durability.unnamed.Store(false)
		l.durability.stated.Store(true)
		if w.leftover {
			w.dropProvisional(cfg)
		}
		w.cutPending = false
		w.installing = s.Installs()
		if bytes := l.token.counts().bytes + w.appended.bytes; bytes > 0 && s.RecoveryPoint == l.segments.end.Load() {
			l.durability.persisted.note(bytes)
		}
	}
	return err
}

// removeStrays removes the segments of failed rolls, once the state on the disk does not name
// them. list has the segments that it names.
func (w *writer) removeStrays(list []*segment.Segment) {
	l := w.log
	var stay []int64
	for _, base := range w.strays {
		if slices.ContainsFunc(list, func(s *segment.Segment) bool { return s.Base() == base }) { // a later roll has taken it
			continue
		}
		if err := removeSegmentFiles(l.cfg.Load().FS, l.path, base); err != nil {
			l.cfg.Load().Logger.Warn("empty file of a failed roll stays", "path", l.path, "offset", base, "err", err)
			stay = append(stay, base)
		}
	}
	w.strays = stay
}

// markOpen durably marks the log in its state as being written to, before the first change.
func (w *writer) markOpen() error {
	l := w.log
	if w.marked && !w.provisional && !w.cutPending {
		return nil
	}
	err := w.writeState(l.list(), false)
	w.marked = err == nil
	return err
}
