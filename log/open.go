package log

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/log/internal/recovery"
	"github.com/stratalog/strata/segment"
)

// Open opens the log in dir, creating it if there is none, and recovers it first.
//
// After a killed process only an incomplete last batch is cut; after a power cut, what the sync
// policy did not promise. Recovery says what. Any other invalid byte that is looked at is a
// *CorruptError that names file, position and offset; nothing is changed then. Sealed segments are
// checked when they are read.
//
// It returns ErrLocked if the log is open already, here or in another process, or its directory
// lies in an open Directory that is not Config.Dir; also ErrNewerFormat, ErrMissingSegment,
// ErrJournaled, or errors of the file system. Where that cannot tell whether the log is open, for
// want of permission, say, it is taken to be: OpenReadOnly needs no lock.
func Open(dir string, cfg Config) (*Log, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{path: dir, name: filepath.Base(dir), dir: cfg.Dir}
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

// load brings the directory, in which entries were found, in order and opens what
// belongs to the log: package recovery plans, and what it plans is carried out here
// before anything else looks at the files.
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
	list, err := o.segments(plan)
	if err != nil {
		return err
	}
	o.takeOver(&plan, list)
	must := o.facts.State.Epochs || plan.Adopted
	if err := l.findEpochs(cfg, l.epochs, o.epochs, must); err != nil {
		return err
	}
	beyond := func(offset int64) bool { return offset > plan.End }
	if len(plan.Steps) == 0 { // else the directory is not what it was
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
		if err := w.resetAborted(plan.End, nil, false); err != nil {
			return err
		}
	}
	if plan.Adopted || o.provisional {
		return w.writeState(list, plan.Clean) // nobody else knows the log yet
	}
	return nil
}

// takeOver makes what was found the log's: its segments, how far they are on stable storage, and
// what its writer has to know of the state on the disk. Nobody else knows the log yet.
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
	w.unlisted = o.facts.State.Version == 0 || o.provisional // nobody says that the names of the segments are durable
	w.created = now()
	w.drawJitter()
}

// forgetBesideSegments ends what lies beside the segments, for a log that begins anew.
func (l *Log) forgetBesideSegments(cfg *Config) error {
	epochs, _, err := loadEpochs(cfg.FS, l.path, &manifest.State{}, l.EndOffset)
	if err != nil {
		return err
	}
	return errors.Join(epochs.truncateFromEnd(0, noEpoch), lowerCleanerOffset(cfg.FS, l.path, 0), l.dropSnapshots(func(int64) bool { return true }))
}

// loadEpochs reads the leader epochs. If must says that some were recorded and their file is
// missing, it is made anew from the batches: without it a follower could not tell where it parted
// from its leader, and wrong epochs in batches, which no CRC covers, would not be noticed.
func (l *Log) loadEpochs(cfg *Config, st *manifest.State, must bool) error {
	epochs, found, err := loadEpochs(cfg.FS, l.path, st, l.EndOffset)
	if err != nil {
		return err
	}
	return l.findEpochs(cfg, epochs, found, must)
}

// findEpochs makes epochs those of the log; if they must be there and were not found, it finds them
// in the batches.
func (l *Log) findEpochs(cfg *Config, epochs *EpochCache, found, must bool) error {
	if !found && must {
		entries, err := epochsOf(l.list())
		if err != nil {
			return fmt.Errorf("leader epochs: %w", err)
		}
		if len(entries) > 0 {
			cfg.Logger.Warn("leader-epoch-checkpoint was missing, and made anew from the batches", "path", l.path, "epochs", len(entries))
			if err := epochs.rebuild(entries, l.readOnly); err != nil {
				return err
			}
		}
	}
	l.epochs = epochs
	return nil
}

// loadRest brings what lies beside the segments in line with them. suspect is the mark of a failed
// sync, nil if there is none.
func (l *Log) loadRest(cfg *Config, suspect *manifest.State) error {
	w := &l.token.writer // nobody else knows the log yet
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
		return l.syncNow() // what is readable must not disappear again
	}
	return nil
}

// unchanged returns what the directory holds if that is what was listed: nothing has been done to
// the files since. nil: it is not known.
func (o *opening) unchanged(plan *recovery.Plan) listing {
	if len(plan.Steps) > 0 || plan.Restart {
		return nil
	}
	return o.entries
}

// create makes the first segment of a new log, or of one that was emptied. What the directory
// holds, if found says so, is not looked for: thousands of new logs have nothing.
func (l *Log) create(cfg *Config, base int64, suspect *manifest.State, found listing) error {
	w := &l.token.writer // nobody else knows the log yet
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
	w.created = now()
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
