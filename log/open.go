package log

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/log/internal/recovery"
)

// Open opens the log in dir and recovers it; if there is none, it creates one.
//
// After a killed process, recovery truncates only an incomplete last batch. After a power failure,
// it truncates only data that the sync policy did not promise. Recovery returns a report. Any other
// invalid byte that Open reads is a *CorruptError with file, position and offset, and then no file
// is changed. Closed segments are verified when they are read.
//
// Open returns ErrLocked if the log is open already, in this process or another, or if its
// directory is in an open Directory other than Config.Dir. If the file system cannot determine
// whether the log is open, for example for lack of permission, it also returns ErrLocked;
// OpenReadOnly needs no lock. Other errors: ErrNewerFormat, ErrMissingSegment, ErrOtherLog, an
// *IncompleteError if the directory contradicts Config.Known, ErrJournaled, and errors of the file
// system.
func Open(dir string, cfg Config) (*Log, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{location: location{path: dir, name: filepath.Base(dir), dir: cfg.Dir}, identity: cfg.Identity}
	l.token.writer.log = l
	l.intervalAlarm.Do, l.idleAlarm.Do, l.expiryAlarm.Do = l.syncDue, l.trimIdle, l.expire
	if l.dir == nil {
		if l.dir, err = OpenDirectory(dir, DirectoryConfig{FS: cfg.FS, Logger: cfg.Logger}); err != nil {
			return nil, err
		}
		l.ownsDir, l.dir.solo = true, true
	}
	found, err := l.dir.enter(l, cfg.FS)
	if err != nil {
		err = fmt.Errorf("open log %s: %w", dir, err)
		if l.ownsDir {
			err = errors.Join(err, l.dir.Close())
		}
		return nil, err
	}
	l.journaled = l.dir.canJournal(&cfg, dir)
	l.cfg.Store(&cfg)
	l.segments.highWatermark.Store(-1)
	l.recovery = &RecoveryReport{CutOffset: -1}
	if err := l.load(&cfg, found); err != nil {
		return nil, errors.Join(fmt.Errorf("open log %s: %w", dir, err), l.abandon())
	}
	l.recovery = l.recovery.shared()
	return l, nil
}

// abandon undoes a failed open.
func (l *Log) abandon() error {
	var errs []error
	if list := l.segments.current.Load(); list != nil {
		for _, s := range *list {
			errs = append(errs, s.Close())
		}
	}
	errs = append(errs, l.noteAgain(), l.dir.release(l.claim))
	if l.ownsDir {
		errs = append(errs, l.dir.Close())
	}
	return errors.Join(errs...)
}

// load brings the directory, in which entries were found, in order and opens the segments that
// belong to the log. Package recovery makes the plan, and load carries it out before any other code
// uses the files.
func (l *Log) load(cfg *Config, found listing) error {
	done, err := l.replay(cfg)
	if err != nil {
		return err
	}
	l.recovery.JournalBytes = done.bytes
	suspect, err := l.suspicion(cfg, l.claim.name, found.has(suspectFile))
	if err != nil {
		return err
	}
	if suspect != nil {
		l.shareSuspicion(cfg, suspect, found.has(suspectFile))
		if err := l.cutTornWrite(cfg.FS, suspect); err != nil {
			return err
		}
		found = nil // sizes have changed
	}
	o := &opening{log: l, cfg: cfg, scanned: map[int64]scanned{}, entries: found, replayed: done}
	defer o.drop()
	plan, err := o.plan()
	if err == nil {
		err = o.compare(&plan)
	}
	if err != nil {
		return err
	}
	if err := o.carryOut(plan.Steps); err != nil {
		return err
	}
	l.segments.start.Store(plan.Start)
	w := &l.token.writer
	w.stateless = o.facts.State.Version == 0 && !plan.Restart
	if len(plan.Segments) == 0 {
		w.made = plan.Start == 0 && suspect == nil
		if !plan.Restart {
			if err := l.outliveNamesake(cfg, plan.Start); err != nil {
				return err
			}
		}
		return l.create(cfg, plan.Start, suspect, o.unchanged(&plan))
	}
	return o.loadSegments(&plan, suspect)
}

// loadSegments opens the segments of the plan, whose steps have been carried out, and reads the
// other files of the log.
func (o *opening) loadSegments(plan *recovery.Plan, suspect *manifest.State) error {
	l, cfg := o.log, o.cfg
	list, err := o.segments(*plan)
	if err != nil {
		return err
	}
	o.takeOver(plan, list)
	must := o.facts.State.Epochs || plan.Adopted
	if err := l.findEpochs(cfg, l.epochs, o.epochs, must); err != nil {
		return err
	}
	beyond := func(offset int64) bool { return offset > plan.End }
	if len(plan.Steps) == 0 { // else the directory has changed
		err = l.dropListed(o.entries, beyond)
	} else {
		err = l.dropSnapshots(beyond)
	}
	if err != nil {
		return err
	}
	if err := l.loadRest(cfg, suspect); err != nil {
		return err
	}
	if !plan.Clean { // the cut is on stable storage
		if err := l.token.writer.resetAborted(plan.End, nil, false); err != nil {
			return err
		}
	}
	if plan.Adopted || o.provisional {
		return l.token.writer.writeState(list, plan.Clean) // no other goroutine has the log yet
	}
	return nil
}

// takeOver sets the fields of the log from the plan: its segments, its durable offset, and the
// writer's copy of the state on the disk. No other goroutine has the log yet.
func (o *opening) takeOver(plan *recovery.Plan, list []*segment.Segment) {
	l := o.log
	l.segments.current.Store(&list)
	l.segments.end.Store(plan.End)
	l.segments.start.Store(min(max(plan.Start, list[0].Base()), plan.End))
	l.durability.set(min(max(plan.RecoveryPoint, l.segments.start.Load()), plan.End))
	if o.synced && len(l.durability.dirty) == 0 || plan.Clean && o.facts.State.Version > 0 {
		l.durability.set(plan.End)
	}
	purged, guessed := purgedBefore(o.cfg, &o.facts.State, list)
	l.purgeGuessed = guessed
	l.purged.Store(&purged)
	w := &l.token.writer
	w.installing = o.facts.State.Installs() || slices.ContainsFunc(plan.Steps, func(s recovery.Step) bool { return s.State.Installs() })
	last := plan.Segments[len(plan.Segments)-1]
	batches := last.NextOffset
	if plan.Clean && o.facts.State.Version > 0 { // closed in a gap, its recovery point is where the batches end
		batches = min(batches, o.facts.State.RecoveryPoint)
	}
	if batches < plan.End && last.Base < plan.End {
		w.unfilled = gap{batches, plan.End}
	}
	w.gapless = last.Gapless
	w.unlisted = o.facts.State.Version == 0 || o.provisional // the names of the segments may not be durable
	l.segments.created.Store(now())
	w.drawJitter()
}

// forgetBesideSegments removes the files that lie beside the segments, for a log that starts again.
func (l *Log) forgetBesideSegments(cfg *Config) error {
	epochs, _, err := loadEpochs(cfg.FS, l.path, &manifest.State{}, l.EndOffset)
	if err != nil {
		return err
	}
	return errors.Join(epochs.truncateFromEnd(0, noEpoch), lowerCleanerOffset(cfg.FS, l.path, 0), l.dropSnapshots(func(int64) bool { return true }))
}

// loadEpochs reads the leader epochs. With must, some were recorded: if their file is missing, it
// is rebuilt from the batches. Without it a follower could not find where it diverged from its
// leader, and wrong epochs in batches, which no CRC covers, would not be detected.
func (l *Log) loadEpochs(cfg *Config, st *manifest.State, must bool) error {
	epochs, found, err := loadEpochs(cfg.FS, l.path, st, l.EndOffset)
	if err != nil {
		return err
	}
	return l.findEpochs(cfg, epochs, found, must)
}

// findEpochs sets the log's epochs; with must, if they were not found, it reads them from the
// batches. It does so, too, if the file has changed since the close and contradicts them.
func (l *Log) findEpochs(cfg *Config, epochs *EpochCache, found, must bool) error {
	l.epochs = epochs
	what := "missing"
	switch {
	case epochs.doubted:
		agrees, err := epochs.agrees(l.list(), l.segments.start.Load())
		if agrees || err != nil {
			return err
		}
		what = "damaged"
	case found || !must:
		return nil
	}
	entries, err := epochsOf(l.list())
	if err != nil {
		return fmt.Errorf("leader epochs: %w", err)
	}
	if len(entries) == 0 && !epochs.doubted {
		return nil
	}
	cfg.Logger.Warn("leader-epoch-checkpoint was "+what+", and made anew from the batches", "path", l.path, "epochs", len(entries))
	return epochs.rebuild(entries, l.readOnly)
}

// loadRest makes the files beside the segments agree with the segments. suspect is the mark of a
// failed sync, nil if there is none.
func (l *Log) loadRest(cfg *Config, suspect *manifest.State) error {
	w := &l.token.writer // no other goroutine has the log yet
	if err := errors.Join(l.epochs.truncateFromEnd(l.segments.end.Load()+1, noEpoch), l.epochs.truncateFromStart(l.segments.start.Load())); err != nil {
		return err
	}
	if epoch, ok := l.epochs.Latest(); ok {
		w.epoch, w.epochKnown = epoch, true
	}
	if l.recovery.CutBytes > 0 || len(l.recovery.SetAside) > 0 {
		cfg.Logger.Warn("log was cut behind its last good batch", "path", l.path, "offset", l.segments.end.Load(), "bytes", l.recovery.CutBytes, "set_aside", l.recovery.SetAside)
	}
	if suspect != nil {
		if err := l.resolveSuspect(cfg, suspect); err != nil {
			return err
		}
	}
	if !l.recovery.Clean && cfg.Sync == SyncOnAck && l.durability.offset.Load() < l.segments.end.Load() {
		return l.syncNow() // readable records must not disappear again
	}
	return nil
}

// unchanged returns the listing of the directory if its files have not been changed since. nil
// means that the content is unknown.
func (o *opening) unchanged(plan *recovery.Plan) listing {
	if len(plan.Steps) > 0 || plan.Restart {
		return nil
	}
	return o.entries
}

// create creates the first segment of a new log, or of an emptied one. With found, it does not list
// the directory again: thousands of new logs have empty ones.
func (l *Log) create(cfg *Config, base int64, suspect *manifest.State, found listing) error {
	w := &l.token.writer // no other goroutine has the log yet
	makeSegment := segment.Create
	if found != nil && found.hasNone(segment.FileName(base, segment.IndexSuffix), segment.FileName(base, segment.TimeIndexSuffix), segment.FileName(base, segment.TxnIndexSuffix)) {
		makeSegment = segment.CreateAlone
	}
	s, err := makeSegment(l.path, base, l.segmentConfig(cfg))
	if err != nil {
		return err
	}
	w.gapless = true
	w.unlisted = true // until there is something to be lost: the epochs or the state are written first
	list := []*segment.Segment{s}
	l.segments.current.Store(&list)
	l.segments.end.Store(base)
	l.segments.start.Store(base)
	l.durability.set(base)
	l.segments.created.Store(now())
	w.drawJitter()
	l.recovery.Clean = true
	if found != nil && found.hasNone(epochFile) {
		l.epochs, _, err = epochsInState(cfg.FS, l.path, &manifest.State{}, l.EndOffset)
	} else {
		err = l.loadEpochs(cfg, &manifest.State{}, false)
	}
	if err != nil {
		return err
	}
	if found != nil && len(snapshotsIn(found)) == 0 {
		l.snapshots.Store(new([]int64))
	} else if err := l.dropSnapshots(func(offset int64) bool { return offset > base }); err != nil {
		return err
	}
	return l.loadRest(cfg, suspect)
}
