package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/segment"
)

// A log under SyncOnAck reserves disk space in steps, so that a sync need not write the file's
// size: small ones first, since there may be many logs.
const (
	minPreallocation = 32 << 10
	maxPreallocation = 64 << 20
)

// preallocation returns the step for a segment of the given size: never more than a segment may
// become.
func preallocation(cfg *Config, size int64) int64 {
	return min(max(size, minPreallocation), maxPreallocation, cfg.SegmentBytes)
}

// mustRoll reports whether b does not go into the active segment any more (Kafka:
// LogSegment.shouldRoll). size is that of the segment with what is about to be written before b.
func (w *writer) mustRoll(cfg *Config, active *segment.Segment, size int64, b *segment.BatchInfo) (bool, error) {
	switch {
	case size+int64(b.Size) > cfg.SegmentBytes && size > 0:
		return true, nil
	case active.Sealed(), // by a roll that failed later on
		active.Overflows(b.LastOffset), active.IndexFull():
		return true, nil
	case size == 0:
		return false, nil
	}
	first, ok, err := active.FirstTimestamp()
	if err != nil || !ok {
		return false, err
	}
	waited := b.MaxTimestamp - first
	if first < 0 { // no timestamps: by the clock
		waited = now() - w.created
	}
	return waited > cfg.segmentAge().Milliseconds()-w.jitter, nil
}

// Roll closes the active segment, if it holds anything, and opens the next one.
func (l *Log) Roll() error {
	return l.exclusively(func(w *writer) error {
		if err := l.durability.failed(); err != nil {
			return err
		}
		if l.active().Size() == 0 {
			return nil
		}
		return w.roll(l.segments.end.Load())
	})
}

// roll closes the active segment and opens a new one with the given base.
func (w *writer) roll(base int64) error {
	l := w.log
	cfg, old := l.cfg.Load(), l.active()
	if base == old.Base() { // an empty segment can only be replaced by one further on
		if old.Sealed() { // by a roll to one further on, which failed later
			return old.Unseal()
		}
		return nil
	}
	if err := w.markOpen(); err != nil {
		return err
	}
	var err error
	if cfg.Sync == SyncOnAck {
		err = old.Seal()
	} else {
		err = old.Finish()
	}
	if err != nil {
		if old.Err() != nil {
			err = l.breakWith(err)
		}
		return fmt.Errorf("roll %s: %w", l.path, err)
	}
	fresh, err := w.createNext(cfg, base)
	if err != nil {
		w.strays = append(w.strays, base)
		return fmt.Errorf("roll %s: %w", l.path, err)
	}
	list := append(slices.Clone(l.list()), fresh)
	was := w.gapless
	w.gapless = true
	if cfg.Sync == SyncOnAck {
		l.durableTo(l.segments.end.Load(), l.durability.cuts.Load())
	}
	if err := w.writeState(list, false); err != nil {
		w.strays = append(w.strays, base) // the file stays: the state may be on the disk all the same
		w.gapless = was
		return fmt.Errorf("roll %s: %w", l.path, errors.Join(err, fresh.Close()))
	}
	l.durability.mu.Lock()
	if cfg.Sync != SyncOnAck {
		l.durability.dirty = append(slices.Clone(l.durability.dirty), old)
	}
	l.segments.current.Store(&list)
	l.durability.mu.Unlock()
	w.created = now()
	w.drawJitter()
	l.segments.rolls.Add(1)
	if err := w.snapshot(base); err != nil {
		cfg.Logger.Warn("snapshot failed: recovery replays more of the log", "path", l.path, "offset", base, "err", err)
	}
	if cfg.Sync != SyncOnAck { // in the background: the segment will not change any more
		l.wg.Add(1)
		l.dir.syncer.add(job{closed: l})
	}
	if cfg.Hooks.OnRolled != nil {
		cfg.Hooks.OnRolled(infoOf(old))
	}
	cfg.Logger.Info("segment rolled", "path", l.path, "offset", base)
	return nil
}

// createNext makes the file of a segment to be appended to, or takes the empty one that a roll has
// left which failed later on, without the indexes that may be left there. If the directory cannot
// be synced, nobody knows whether it has the file's entry, and a sync that is tried again may say
// that it has: that breaks the log.
func (w *writer) createNext(cfg *Config, base int64) (*segment.Segment, error) {
	l := w.log
	fresh, err := segment.Create(l.path, base, l.segmentConfig(cfg))
	if errors.Is(err, fs.ErrExist) {
		info, statErr := cfg.FS.Stat(filePath(l.path, base, segment.LogSuffix))
		if statErr != nil || info.Size() > 0 {
			return nil, errors.Join(err, statErr)
		}
		if err := removeFiles(cfg.FS, l.path, base, indexSuffixes); err != nil {
			return nil, err
		}
		fresh, err = segment.Open(l.path, base, l.segmentConfig(cfg), segment.OpenOptions{Clean: true, NextOffset: base})
	}
	if err != nil {
		return nil, err
	}
	if err := cfg.FS.SyncDir(l.path); err != nil {
		return nil, errors.Join(l.breakWith(err), fresh.Close())
	}
	return fresh, nil
}

// blankState returns a state with what is the same in every state of this log until it is begun
// anew.
func (w *writer) blankState() manifest.State {
	return manifest.State{Incarnation: w.incarnation, JournalTag: w.journalTag, Cuts: w.cuts, BootID: w.log.dir.bootID}
}

// writeState makes the state say that the log consists of the given segments; of those in gone, if
// any, it says that they are obsolete: recovery deletes them if a crash leaves them.
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
	// A Kafka broker that goes on here as a follower leaves gaps where its leader has compacted.
	s.Gapless = w.gapless && !cfg.Cleanup.Compacts()
	active := list[len(list)-1]
	// At most what recovery will find: no batch tells of a gap at the end.
	s.RecoveryPoint = min(s.RecoveryPoint, w.firstUnsynced(cfg, list), active.NextOffset())
	if end := l.segments.end.Load(); end > max(l.active().NextOffset(), list[len(list)-1].Base()) {
		s.End = end // no batch and no name says that offsets below were given
	}
	if clean {
		s.End, s.Size, s.RecoveryPoint = l.segments.end.Load(), active.Size(), l.segments.end.Load()
	}
	for i, seg := range list {
		size := seg.Size()
		if i == len(list)-1 {
			size = -1
		}
		s.Segments = append(s.Segments, manifest.Segment{Base: seg.Base(), Size: size})
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

// obsolete returns what the state says of segments that are removed. One that may have been active
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
func (w *writer) storeState(s manifest.State) error {
	l := w.log
	cfg := l.cfg.Load()
	if l.durability.settled() { // the journal is not needed for what is in it of this log: it is void when this state is on the disk
		w.journalTag = newIncarnation()
	}
	s.JournalTag = w.journalTag
	var err error
	if w.unlisted || l.unentered.Load() {
		err = w.storeFirstState(cfg, s)
	} else {
		err = storeState(cfg.FS, l.path, s)
	}
	w.marked = !s.Clean && err == nil
	if err == nil {
		w.cutPending = false
		w.installing = s.Installs()
		if bytes := l.token.counts().bytes + w.appended.bytes; bytes > 0 && s.RecoveryPoint == l.segments.end.Load() {
			l.durability.persisted.note(bytes)
		}
	}
	return err
}

// removeStrays removes what rolls have left that failed, now that the state on the disk is one that
// does not name it. list names the others.
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

// markOpen makes the state say that the log is being written to, before the first write.
func (w *writer) markOpen() error {
	l := w.log
	if w.marked && !w.cutPending {
		return nil
	}
	err := w.writeState(l.list(), false)
	w.marked = err == nil
	return err
}

// epochAt lets segments check the leader epoch of their batches, which no CRC covers.
func (l *Log) epochAt(offset int64) int32 {
	if l.epochs == nil { // being opened
		return -1
	}
	return l.epochs.At(offset)
}

func (l *Log) segmentConfig(cfg *Config) segment.Config {
	c := cfg.Segment
	c.FS, c.Files, c.ReadOnly = cfg.FS, l.dir.files, l.readOnly
	c.EpochAt = l.epochAt
	return c
}
