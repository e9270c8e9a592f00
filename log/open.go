package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// unsyncedWindow is the most that a log under SyncOnAck has written and not synced, generously: one round, or one batch.
const unsyncedWindow = 64 << 20

// A RecoveryReport tells what Open found and repaired.
type RecoveryReport struct {
	Clean           bool  // the log was closed in order: nothing needed to be looked at
	SameBoot        bool  // the machine has not been restarted since: only the process had died
	ScannedBytes    int64 // of segments
	CutBytes        int64 // behind the last good batch, removed
	CutOffset       int64 // next offset after the cut; -1: nothing was cut
	RemovedSegments int   // behind the cut
	RebuiltIndexes  int
}

// Open opens the log in dir, creating it if there is none, and recovers it first.
//
// After a killed process only an incomplete last batch is cut; after a power cut, what the sync policy did not promise. Recovery says what. Any
// other invalid byte that is looked at is a *CorruptError that names file, position and offset; nothing is changed then. Sealed segments are
// checked when they are read.
//
// It returns ErrLocked if the log is open already, here or in another process, or its directory lies in an open Directory that is not
// Config.Dir; also ErrNewerFormat, ErrMissingSegment, or errors of the file system.
func Open(dir string, cfg Config) (*Log, error) {
	return open(dir, cfg, false)
}

func open(dir string, cfg Config, readOnly bool) (_ *Log, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{path: dir, dir: cfg.Dir, readOnly: readOnly, closed: make(chan struct{})}
	l.token.writer.log = l
	l.intervalAlarm.Do, l.idleAlarm.Do, l.expiryAlarm.Do = l.syncDue, l.trimIdle, l.expire
	if l.dir == nil {
		if l.dir, err = OpenDirectory(dir, DirectoryConfig{FS: cfg.FS, Logger: cfg.Logger}); err != nil {
			return nil, err
		}
		l.ownsDir, l.dir.solo = true, true
	} else if !readOnly {
		if err := l.dir.makeLogDir(cfg.FS, dir); err != nil {
			return nil, fmt.Errorf("open log: %w", err)
		}
	}
	if !readOnly {
		if l.claim, err = l.dir.claim(cfg.FS, dir); err != nil {
			err = fmt.Errorf("open log %s: %w", dir, err)
			if l.ownsDir {
				err = errors.Join(err, l.dir.Close())
			}
			return nil, err
		}
	}
	l.cfg.Store(&cfg)
	l.segments.highWatermark.Store(-1)
	l.recovery.CutOffset = -1
	if err := l.load(&cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("open log %s: %w", dir, err), l.abandon())
	}
	return l, nil
}

// makeDir makes dir, durably. If it holds the given file, which is written only after that, it has been done before: an fsync less.
func makeDir(fsys vfs.FS, dir, file string) error {
	if _, err := fsys.Stat(filepath.Join(dir, file)); err == nil {
		return nil
	}
	return vfs.MakeDir(fsys, dir, 0o755)
}

// makeLogDir is makeDir for a log's directory, with one fsync if that lies in d: d's own entry is durable since OpenDirectory.
func (d *Directory) makeLogDir(fsys vfs.FS, dir string) error {
	if filepath.Dir(dir) != filepath.Clean(d.path) {
		return makeDir(fsys, dir, stateFile)
	}
	if _, err := fsys.Stat(filepath.Join(dir, stateFile)); err == nil {
		return nil
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return fsys.SyncDir(d.path) // also if it was there: whoever made it may have been killed before syncing
}

// abandon undoes a failed open.
func (l *Log) abandon() error {
	var errs []error
	if list := l.segments.current.Load(); list != nil {
		for _, s := range *list {
			errs = append(errs, s.Close())
		}
	}
	if !l.readOnly {
		errs = append(errs, l.dir.release(l.claim))
	}
	if l.ownsDir {
		errs = append(errs, l.dir.Close())
	}
	return errors.Join(errs...)
}

func (l *Log) load(cfg *Config) error {
	w := &l.token.writer // nobody else knows the log yet
	if !l.readOnly {
		if err := finishCompaction(cfg.FS, l.path); err != nil {
			return err
		}
	}
	st, known, err := readState(cfg.FS, l.path)
	if err != nil {
		return err
	}
	bases, err := listSegments(cfg.FS, l.path)
	if err != nil {
		return err
	}
	foreign := !known && len(bases) > 0 // Kafka keeps an epoch file for every log
	if foreign {
		st, known = l.dir.kafkaState(l.path)
	}
	if err := checkMissing(l.path, st, bases); err != nil {
		return err
	}
	if st.Emptied && !l.readOnly {
		if err := l.finishRestart(cfg, bases); err != nil {
			return err
		}
		bases = nil
	}
	w.incarnation, w.journalFloor = st.Incarnation, st.JournalFloor
	if w.incarnation == 0 { // new, or of a version without: written with the next state, which comes before the next append
		w.incarnation = newIncarnation()
	}
	l.segments.start.Store(st.Start)
	if len(bases) == 0 {
		return l.create(cfg, st.Start)
	}
	if !known && st.RecoveryPoint == 0 && len(bases) == 1 { // made and never written to: there is nothing that could be wrong
		info, err := cfg.FS.Stat(filePath(l.path, bases[0], segment.LogSuffix))
		if err != nil {
			return err
		}
		known, st = info.Size() == 0, manifest.State{Clean: info.Size() == 0, Start: bases[0], RecoveryPoint: bases[0], End: bases[0], Segments: nil, BootID: l.dir.bootID}
	}
	l.recovery.Clean = known && st.Clean
	l.recovery.SameBoot = known && st.BootID != "" && st.BootID == l.dir.bootID
	// Recovery asks for the epochs. If their file is missing they are made anew afterwards.
	if l.epochs, _, err = loadEpochs(cfg.FS, l.path, l.EndOffset); err != nil {
		return err
	}
	list, err := l.openSegments(cfg, st, bases)
	if err != nil {
		return err
	}
	l.segments.current.Store(&list)
	l.segments.end.Store(max(l.active().NextOffset(), l.active().Base()))
	if st.Clean {
		l.segments.end.Store(max(st.End, l.segments.end.Load()))
	}
	if st.Start > l.segments.end.Load() && !l.readOnly { // a power cut took all that DeleteRecords had left (Kafka: UnifiedLog restarts there, too)
		return l.restartAbove(cfg, st, bases)
	}
	l.segments.start.Store(min(max(st.Start, list[0].Base()), l.segments.end.Load()))
	l.durability.offset.Store(min(max(st.RecoveryPoint, l.segments.start.Load()), l.segments.end.Load()))
	w.created = now()
	w.drawJitter()
	return l.loadRest(cfg, st.Epochs || foreign)
}

// restartAbove begins anew at the start offset: what was found ends below it.
func (l *Log) restartAbove(cfg *Config, st manifest.State, bases []int64) error {
	w := &l.token.writer // nobody else knows the log yet
	var errs []error
	for _, s := range l.list() {
		errs = append(errs, s.Close())
	}
	l.durability.dirty = nil
	w.incarnation = newIncarnation()
	begin := st.Start
	st = w.blankState()
	st.Emptied, st.Start, st.RecoveryPoint = true, begin, begin
	if err := errors.Join(append(errs, storeState(cfg.FS, l.path, st))...); err != nil {
		return err
	}
	if err := l.finishRestart(cfg, bases); err != nil {
		return err
	}
	l.segments.start.Store(st.Start)
	return l.create(cfg, st.Start)
}

// finishRestart removes what a crash in the middle of TruncateFully has left.
func (l *Log) finishRestart(cfg *Config, bases []int64) error {
	for _, base := range bases {
		if err := l.removeSegment(cfg, base); err != nil {
			return err
		}
	}
	epochs, _, err := loadEpochs(cfg.FS, l.path, l.EndOffset)
	if err != nil {
		return err
	}
	return errors.Join(epochs.truncateFromEnd(0), lowerCleanerOffset(cfg.FS, l.path, 0), l.dropSnapshots(func(int64) bool { return true }))
}

// loadEpochs reads the leader epochs. If must says that some were recorded and their file is missing, it is made anew from the batches: without
// it a follower could not tell where it parted from its leader, and wrong epochs in batches, which no CRC covers, would not be noticed.
func (l *Log) loadEpochs(cfg *Config, must bool) error {
	epochs, found, err := loadEpochs(cfg.FS, l.path, l.EndOffset)
	if err != nil {
		return err
	}
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

// loadRest brings what lies beside the segments in line with them; epochs says that some were recorded.
func (l *Log) loadRest(cfg *Config, epochs bool) error {
	w := &l.token.writer // nobody else knows the log yet
	if err := l.loadEpochs(cfg, epochs); err != nil || l.readOnly {
		return err
	}
	if err := errors.Join(l.epochs.truncateFromEnd(l.segments.end.Load()+1), l.epochs.truncateFromStart(l.segments.start.Load())); err != nil {
		return err
	}
	if epoch, ok := l.epochs.Latest(); ok {
		w.epoch, w.epochKnown = epoch, true
	}
	if err := l.dropSnapshots(func(offset int64) bool { return offset > l.segments.end.Load() }); err != nil {
		return err
	}
	if l.recovery.CutBytes > 0 || l.recovery.RemovedSegments > 0 {
		cfg.Logger.Warn("log was cut behind its last good batch", "path", l.path, "offset", l.segments.end.Load(), "bytes", l.recovery.CutBytes, "segments", l.recovery.RemovedSegments)
	}
	if err := l.resolveSuspect(cfg); err != nil {
		return err
	}
	if !l.recovery.Clean && cfg.Sync == SyncOnAck && l.durability.offset.Load() < l.segments.end.Load() {
		return l.syncNow() // what is readable must not disappear again
	}
	return nil
}

// create makes the first segment of a new log, or of one that was emptied.
func (l *Log) create(cfg *Config, base int64) error {
	w := &l.token.writer // nobody else knows the log yet
	if l.readOnly {
		return fmt.Errorf("no segments: %w", fs.ErrNotExist)
	}
	s, err := segment.Create(l.path, base, l.segmentConfig(cfg))
	if err != nil {
		return err
	}
	w.unlisted = true // until there is something to be lost: the epochs or the state are written first
	list := []*segment.Segment{s}
	l.segments.current.Store(&list)
	l.segments.end.Store(base)
	l.segments.start.Store(base)
	l.durability.offset.Store(base)
	w.created = now()
	w.drawJitter()
	l.recovery.Clean = true
	return l.loadRest(cfg, false)
}

// openSegments opens all segments; those that the end of a process or of power can have left unfinished are recovered.
func (l *Log) openSegments(cfg *Config, st manifest.State, bases []int64) (list []*segment.Segment, err error) {
	defer func() {
		if err != nil {
			for _, s := range list {
				err = errors.Join(err, s.Close())
			}
		}
	}()
	for i, base := range bases {
		next, last := int64(-1), i == len(bases)-1
		if !last {
			next = bases[i+1]
		}
		s, err := l.openSegment(cfg, st, base, next)
		if err != nil {
			return list, err
		}
		list = append(list, s)
		if !last && !l.readOnly && !l.recovery.Clean && next > st.RecoveryPoint { // closed, and the process killed before it was synced
			s.MarkUnsynced()
			l.durability.dirty = append(l.durability.dirty, s)
		}
		if last || l.recovery.Clean || l.recovery.SameBoot || next <= st.RecoveryPoint || s.NextOffset() == next {
			continue
		}
		// Power loss took the end of this segment: what follows cannot be joined to it.
		if err := l.cutState(cfg, st, bases[i]); err != nil {
			return list, err
		}
		for _, gone := range bases[i+1:] {
			if err := l.removeSegment(cfg, gone); err != nil {
				return list, err
			}
			l.recovery.RemovedSegments++
		}
		l.recovery.CutOffset = s.NextOffset()
		return list, nil
	}
	return list, nil
}

// cutState makes the state ask for no segment behind the one with the given base. The rest stays: the next Open, should this one not get far,
// has to find out the same.
func (l *Log) cutState(cfg *Config, st manifest.State, base int64) error {
	if l.readOnly {
		return nil
	}
	st.Segments = slices.DeleteFunc(slices.Clone(st.Segments), func(s manifest.Segment) bool { return s.Base > base })
	return storeState(cfg.FS, l.path, st)
}

func (l *Log) removeSegment(cfg *Config, base int64) error {
	if l.readOnly {
		return nil
	}
	return errors.Join(removeFiles(cfg.FS, l.path, base, ""), cfg.FS.SyncDir(l.path))
}

// openSegment opens one segment; next is the base of the one after it, -1 for the last.
func (l *Log) openSegment(cfg *Config, st manifest.State, base, next int64) (*segment.Segment, error) {
	sc := l.segmentConfig(cfg)
	info, err := cfg.FS.Stat(filePath(l.path, base, segment.LogSuffix))
	if err != nil {
		return nil, err
	}
	o := segment.OpenOptions{}
	switch {
	case next >= 0 && (l.recovery.Clean || l.recovery.SameBoot || next <= st.RecoveryPoint):
		if want := sizeOf(&st, base); want >= 0 && want != info.Size() {
			return nil, &CorruptError{Path: filePath(l.path, base, segment.LogSuffix), Pos: min(want, info.Size()), Offset: base,
				Reason: fmt.Sprintf("file has %d bytes, %d were written", info.Size(), want)}
		}
		o = segment.OpenOptions{Clean: true, NextOffset: next, Size: info.Size()}
	case next < 0 && info.Size() == 0 && st.RecoveryPoint <= base && (!l.recovery.Clean || st.End <= base): // never written to
		o = segment.OpenOptions{Clean: true, NextOffset: base, Size: 0}
	case next < 0 && l.recovery.Clean && info.Size() == st.Size && st.End >= base:
		o = segment.OpenOptions{Clean: true, NextOffset: st.End, Size: st.Size}
	}
	s, err := segment.Open(l.path, base, sc, o)
	if err == nil && o.Clean && next < 0 && !l.recovery.Clean && !l.readOnly { // empty: perhaps by a cut that is not on the disk
		s.MarkUnsynced()
		if err = s.Sync(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if err != nil || o.Clean {
		return s, err
	}
	ro := segment.RecoverOptions{SameBoot: l.recovery.SameBoot || l.recovery.Clean, RecoveryPoint: st.RecoveryPoint, KeepTail: l.readOnly, Active: next < 0}
	if st.Strict {
		ro.UnsyncedWindow = unsyncedWindow
	}
	rep, err := s.Recover(ro)
	if err == nil && s.NextOffset() < min(st.RecoveryPoint, upper(next)) && !ro.SameBoot {
		err = &CorruptError{Path: s.Path(), Pos: s.Size(), Offset: s.NextOffset(), Reason: fmt.Sprintf("file ends, although everything below offset %d was on stable storage", st.RecoveryPoint)}
	}
	if err == nil && l.recovery.Clean && next < 0 && s.NextOffset() < st.End {
		err = &CorruptError{Path: s.Path(), Pos: s.Size(), Offset: s.NextOffset(), Reason: fmt.Sprintf("file ends, although the log was closed at offset %d", st.End)}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if !l.readOnly {
		s.MarkUnsynced()
		if err := s.Sync(); err != nil { // a cut, ours or a killed process', must be on the disk before the state says that the log ends here
			return nil, errors.Join(err, s.Close())
		}
	}
	l.recovery.ScannedBytes += rep.ScannedBytes
	l.recovery.CutBytes += rep.CutBytes
	if rep.CutBytes > 0 {
		l.recovery.CutOffset = s.NextOffset()
	}
	if rep.RebuiltIndex {
		l.recovery.RebuiltIndexes++
	}
	return s, nil
}

func upper(next int64) int64 {
	if next < 0 {
		return 1<<63 - 1
	}
	return next
}

// sizeOf returns the bytes that a closed segment must have, -1 if that is not known.
func sizeOf(st *manifest.State, base int64) int64 {
	if seg, ok := st.Find(base); ok {
		return seg.Size
	}
	return -1
}

// listSegments returns the base offsets of the .log files in dir, ascending. Other files are none of our business.
func listSegments(fsys vfs.FS, dir string) (bases []int64, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), segment.LogSuffix)
		if !ok || len(name) != 20 || e.IsDir() {
			continue
		}
		if base, err := strconv.ParseInt(name, 10, 64); err == nil && base >= 0 {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return bases, nil
}

// checkMissing compares what is there with what must be.
func checkMissing(dir string, st manifest.State, bases []int64) error {
	for i, seg := range st.Segments {
		if _, ok := slices.BinarySearch(bases, seg.Base); ok {
			continue
		}
		if i+1 < len(st.Segments) && st.Segments[i+1].Base <= st.Start {
			continue // below the start: it was being removed
		}
		return fmt.Errorf("%w: %s: restore it, or remove the directory to give the log up", ErrMissingSegment, filepath.Join(dir, segment.FileName(seg.Base, segment.LogSuffix)))
	}
	return nil
}
