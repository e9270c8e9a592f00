package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/stratalog/strata/log/internal/compact"
	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/log/internal/recovery"
	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// unsyncedWindow is the most that a log under SyncOnAck has written and not synced, generously: one
// round, or one batch.
const unsyncedWindow = 64 << 20

// A RecoveryReport tells what Open found and did; OpenReadOnly and PlanRecovery, what Open would
// do.
type RecoveryReport struct {
	Clean          bool  // the log was closed in order: nothing needed to be looked at
	SameBoot       bool  // the machine has not been restarted since: only the process had died
	ScannedBytes   int64 // of segments
	CutBytes       int64 // behind the last good batch, removed
	CutOffset      int64 // next offset where something was lost behind it; -1: nothing was
	RebuiltIndexes int
	JournalBytes   int64 // written to its last segment from the directory's journal, before anything else

	// SetAside names the files of segments that are no part of the log any more and were renamed
	// (suffix .aside). Neither Strata nor Kafka reads or deletes them: that is for whoever knows
	// that they are not needed.
	SetAside []string
	// Steps is what was done to the files, in order; empty if they were as they should be.
	Steps []RecoveryStep
}

// A RecoveryStep is one change that recovery makes to a log's directory.
type RecoveryStep struct {
	Action string // what is done to what, in one line
	File   string // name in the log's directory; "" if it is none in particular
	Reason string
}

// PlanRecovery returns what Open would do to the files of the log in dir, and does nothing: it
// reads what Open reads, takes no lock and changes no file, as OpenReadOnly. Nobody may be writing
// to the log meanwhile. Its errors are those of Open but ErrLocked; fs.ErrNotExist if there is no
// log.
func PlanRecovery(dir string, cfg Config) (RecoveryReport, error) {
	if cfg.FS == nil && cfg.Dir != nil {
		cfg.FS = cfg.Dir.fs
	}
	cfg.Dir = nil
	cfg, err := cfg.withDefaults()
	if err != nil {
		return RecoveryReport{}, err
	}
	cfg.FS = vfs.ReadOnly(cfg.FS)
	l := &Log{path: dir, readOnly: true}
	l.dir = &Directory{path: dir, fs: cfg.FS, files: segment.NewFileCache(0), bootID: cfg.FS.BootID()}
	o := &opening{log: l, cfg: &cfg, scanned: map[int64]scanned{}}
	defer o.drop()
	plan, err := o.plan()
	if err == nil && len(plan.Segments) == 0 && !plan.Restart {
		err = fs.ErrNotExist
	}
	if err != nil {
		return RecoveryReport{}, fmt.Errorf("plan recovery of %s: %w", dir, err)
	}
	return l.recovery, nil
}

// An opening gathers what is known of a directory, has it planned, and carries the plan out.
type opening struct {
	log     *Log
	cfg     *Config
	facts   recovery.Facts
	scanned map[int64]scanned // by base: opened for the plan, and not handed over yet
	entries listing           // of the directory, read once: before the plan was carried out. nil: not yet
	epochs  bool              // the leader epochs were found

	replayed replayed // from the directory's journal, before anything else
	synced   bool     // the active segment is on stable storage as it is
}

// scanned is a segment that was walked over; bytes behind its end are still there.
type scanned struct {
	*segment.Segment
	suffix string // of its files' names
	report segment.Report
}

// drop closes what was opened and not handed over.
func (o *opening) drop() {
	for _, s := range o.scanned {
		_ = s.Discard() // nothing was written
	}
}

// plan reads what is needed and returns the plan, which is in the log's report too. Nothing is
// changed.
func (o *opening) plan() (recovery.Plan, error) {
	l := o.log
	if err := o.gather(); err != nil {
		return recovery.Plan{}, err
	}
	var err error
	// Recovery asks for the epochs. If their file is missing they are made anew afterwards.
	if o.entries.has(epochFile) {
		l.epochs, o.epochs, err = loadEpochs(o.cfg.FS, l.path, &o.facts.State, l.EndOffset)
	} else {
		l.epochs, o.epochs, err = epochsInState(o.cfg.FS, l.path, &o.facts.State, l.EndOffset)
	}
	if err != nil {
		return recovery.Plan{}, err
	}
	for {
		plan, err := recovery.Make(o.facts)
		if err != nil {
			return plan, l.planError(err)
		}
		l.recovery.Clean, l.recovery.SameBoot = plan.Clean, plan.SameBoot
		if plan.Scan == nil {
			o.report(&plan)
			return plan, nil
		}
		if err := o.scan(*plan.Scan); err != nil {
			return plan, err
		}
	}
}

// planError makes an error of package recovery one of ours.
func (l *Log) planError(err error) error {
	var missing *recovery.Missing
	var damage *recovery.Damage
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("%w: %s: restore it, or remove the directory to give the log up", ErrMissingSegment, filepath.Join(l.path, missing.Name))
	case errors.As(err, &damage):
		return &CorruptError{Path: filepath.Join(l.path, damage.Name), Pos: damage.Pos, Offset: damage.Offset, Reason: damage.Reason}
	}
	return err
}

// gather reads the manifest and the directory: one ReadDir, and the size of each segment's data. What
// the directory does not list is not asked for: a start does this for each log.
func (o *opening) gather() (err error) {
	l := o.log
	if o.entries == nil {
		if o.entries, err = o.cfg.FS.ReadDir(l.path); err != nil {
			return err
		}
	}
	var st manifest.State
	var known bool
	if o.entries.has(stateFile) {
		if st, known, err = readState(o.cfg.FS, l.path); err != nil {
			return err
		}
	}
	files, err := segmentFiles(o.entries)
	if err != nil {
		return err
	}
	o.facts = recovery.Facts{Files: files, Boot: l.dir.bootID, Scans: map[int64]recovery.Scan{}, Fresh: newIncarnation()}
	old := known && l.dir.closedByKafka() // the broker knew nothing of the state, and has changed what it speaks of
	switch {
	case known && !old || len(files) == 0:
	case l.readOnly:
		v := view{log: l, cfg: o.cfg}
		if err := v.readCheckpoints(); err != nil {
			return err
		}
		st, known = v.st, v.known
	default:
		st, known = l.dir.kafkaState(l.path)
	}
	if st.Version < 2 {
		if o.facts.SwapEnds, err = swapEnds(o.cfg.FS, l.path, files); err != nil {
			return err
		}
	}
	if st.Incarnation == 0 { // new, or of a version without: written with the next state, which comes before the next append
		st.Incarnation = newIncarnation()
	}
	l.token.writer.incarnation, l.token.writer.journalTag = st.Incarnation, st.JournalTag
	o.facts.State, o.facts.Known = st, known
	return nil
}

// segmentFiles returns the files of segments among the entries of a directory, with the sizes of
// those that hold batches.
func segmentFiles(entries []fs.DirEntry) (files []recovery.File, err error) {
	for _, e := range entries {
		name := e.Name()
		if !recovery.IsSegmentFile(name) || e.IsDir() {
			continue
		}
		f := recovery.File{Name: name}
		if recovery.HoldsBatches(name) {
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) { // a writer at work has removed it
				continue
			}
			if err != nil {
				return nil, err
			}
			f.Size = info.Size()
		}
		files = append(files, f)
	}
	return files, nil
}

// swapEnds finds where the batches of .log.swap files end.
func swapEnds(fsys vfs.FS, dir string, files []recovery.File) (map[int64]int64, error) {
	ends := map[int64]int64{}
	for _, f := range files {
		base, ok := recovery.SwapBase(f.Name)
		if !ok {
			continue
		}
		next, err := endOfLogFile(fsys, filepath.Join(dir, f.Name), base)
		if err != nil {
			return nil, err
		}
		ends[base] = next
	}
	return ends, nil
}

// config returns how a segment is opened whose files have names with the given suffix.
func (o *opening) config(suffix string) segment.Config {
	c := o.log.segmentConfig(o.cfg)
	if suffix != "" {
		c.FS = compact.Suffixed(c.FS, suffix)
	}
	return c
}

// known is what the listing tells about the files of a segment: nothing where compaction has left
// others, which may still get their names.
func (o *opening) known(seg recovery.Segment) (known segment.OpenOptions) {
	name := segment.FileName(seg.Base, segment.LogSuffix)
	for _, f := range o.facts.Files {
		if strings.HasSuffix(f.Name, recovery.SwapSuffix) || strings.HasSuffix(f.Name, recovery.CleanedSuffix) {
			return segment.OpenOptions{}
		}
		if f.Name == name {
			known.FileSize = f.Size
		}
	}
	has := func(suffix string) bool { return o.entries.has(segment.FileName(seg.Base, suffix)) }
	known.NoIndexes = !has(segment.IndexSuffix) && !has(segment.TimeIndexSuffix)
	known.NoTxnIndex = !has(segment.TxnIndexSuffix)
	return known
}

// scan walks over a segment's batches and notes where they end. It changes nothing.
func (o *opening) scan(seg recovery.Segment) error {
	l := o.log
	s, err := segment.Open(l.path, seg.Base, o.config(seg.Suffix), o.known(seg))
	if err != nil {
		return err
	}
	ro := segment.RecoverOptions{SameBoot: l.recovery.SameBoot || l.recovery.Clean, RecoveryPoint: o.facts.State.RecoveryPoint, KeepTail: true, Active: seg.Next < 0}
	if o.facts.State.Strict {
		ro.UnsyncedWindow = unsyncedWindow
	}
	rep, err := s.Recover(ro)
	if err != nil {
		return errors.Join(err, s.Discard())
	}
	o.scanned[seg.Base] = scanned{s, seg.Suffix, rep}
	o.facts.Scans[seg.Base] = recovery.Scan{Next: s.NextOffset(), Size: s.Size(), Cut: rep.CutBytes}
	return nil
}

// report makes the plan the log's report.
func (o *opening) report(plan *recovery.Plan) {
	r := &o.log.recovery
	if plan.CutOffset >= 0 { // a write that failed may have been cut before
		r.CutOffset = plan.CutOffset
	}
	for _, s := range plan.Segments {
		rep := o.scanned[s.Base].report
		r.ScannedBytes += rep.ScannedBytes
		r.CutBytes += rep.CutBytes
		if rep.RebuiltIndex {
			r.RebuiltIndexes++
		}
	}
	for _, s := range plan.Steps {
		switch s.Kind {
		case recovery.Sync:
			continue
		case recovery.SetAside:
			r.SetAside = append(r.SetAside, s.To)
		}
		r.Steps = append(r.Steps, RecoveryStep{Action: s.String(), File: s.Name, Reason: s.Reason})
	}
}

// carryOut does the steps but for cuts, which follow with what was scanned. A step that was done
// before is done again without harm.
func (o *opening) carryOut(steps []recovery.Step) error {
	l, fsys := o.log, o.cfg.FS
	for _, s := range steps {
		name := filepath.Join(l.path, s.Name)
		var err error
		switch s.Kind {
		case recovery.Store:
			l.token.writer.incarnation = s.State.Incarnation
			err = storeState(fsys, l.path, s.State)
		case recovery.Sync:
			err = fsys.SyncDir(l.path)
		case recovery.Remove:
			if err = fsys.Remove(name); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		case recovery.Install, recovery.SetAside:
			err = fsys.Rename(name, filepath.Join(l.path, s.To))
		case recovery.Begin:
			err = l.forgetBesideSegments(o.cfg)
		}
		if err != nil {
			return fmt.Errorf("recovery: %v: %w", s, err)
		}
	}
	return nil
}
