package log

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/stratalog/strata/internal/segment"
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

// mustRoll reports whether b does not fit into the active segment any more (Kafka:
// LogSegment.shouldRoll). size is the segment's size, including data to be written before b.
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
		waited = now() - w.log.segments.created.Load()
	}
	return waited > cfg.segmentAge().Milliseconds()-w.log.segments.jitter.Load(), nil
}

// rollBase returns the base of the segment for a batch of offsets first to last, in a log that
// ends at end. It is end, also if the batch leaves a gap after end, as a follower's batch from a
// compacted leader does. If the base were first and the batch were not written, records of another
// leader in the gap would have no segment. Only if the indexes of a segment at end could not
// express the batch, the base is first (Kafka: always, UnifiedLog.maybeRoll).
func rollBase(end, first, last int64) int64 {
	if segment.Reaches(end, last) {
		return end
	}
	return first
}

// Roll closes the active segment, unless it is empty, and opens the next one.
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
	w.noteAborted(old, base)
	if err := w.writeState(list, false); err != nil {
		// The file stays, since the state may be on the disk nevertheless.
		w.strays = append(w.strays, base)
		w.gapless = was
		return fmt.Errorf("roll %s: %w", l.path, errors.Join(err, fresh.Close()))
	}
	l.durability.mu.Lock()
	if cfg.Sync != SyncOnAck {
		l.durability.dirty = append(slices.Clone(l.durability.dirty), old)
	}
	l.segments.current.Store(&list)
	l.durability.mu.Unlock()
	w.rolled(cfg, old, base)
	return nil
}

// rolled completes a roll, when old is closed and a segment with the given base has replaced it: no
// part of it can fail the roll.
func (w *writer) rolled(cfg *Config, old *segment.Segment, base int64) {
	l := w.log
	l.segments.created.Store(now())
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
}

// createNext creates the file of a segment to append to, or uses the empty file of a failed roll,
// without its indexes. If the directory cannot be synced, it is unknown whether the file's entry is
// on the disk, and a later sync may succeed without it: that breaks the log.
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

// epochAt lets segments check the leader epoch of their batches, which no CRC covers.
func (l *Log) epochAt(offset int64) int32 {
	if l.epochs == nil { // being opened
		return -1
	}
	return l.epochs.At(offset)
}

func (l *Log) segmentConfig(cfg *Config) segment.Config {
	return segment.Config{
		IndexIntervalBytes: cfg.IndexIntervalBytes, IndexBytes: cfg.IndexBytes,
		FS: cfg.FS, Files: l.dir.files, ReadOnly: l.readOnly, EpochAt: l.epochAt,
	}
}
