package log

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/compact"
	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/log/internal/recovery"
	"github.com/stratalog/strata/vfs"
)

// An opening collects the facts of a directory, and package recovery makes a plan from them. Two
// functions use the plan: Open carries out the plan's steps on the files (carryOut, segments), and
// OpenReadOnly uses the files as they are (view).
type opening struct {
	log     *Log
	cfg     *Config
	facts   recovery.Facts
	scanned map[int64]scanned // by base: opened for the plan, and not handed over yet
	entries listing           // of the directory, read once: before the plan was carried out. nil: not yet
	epochs  bool              // the leader epochs were found

	suspect bool       // a log that is only read has the mark of a failed sync or write
	ended   *endedFile // a file of such a log that ends before its end; nil: none

	provisional bool // the state is the provisional one

	replayed replayed // from the directory's journal, before anything else
	synced   bool     // the active segment is on stable storage as it is

	// opened, if it is not nil, is called for a segment that was
	// opened to be scanned, before it is.
	opened func(seg recovery.Segment) error
}

// scanned is a segment that was walked over; bytes behind its end are still there.
type scanned struct {
	*segment.Segment
	suffix string // of its files' names
	report segment.Report
}

// drop closes everything that was opened and not handed over.
func (o *opening) drop() {
	for _, s := range o.scanned {
		_ = s.Discard() // nothing was written
	}
}

// plan reads the necessary files and returns the plan, which is in the log's report too. It changes
// nothing.
func (o *opening) plan() (recovery.Plan, error) {
	if err := o.gather(); err != nil {
		return recovery.Plan{}, err
	}
	return o.decide()
}

// lists reports whether the directory may have a file. For a reader beside a writer it always does:
// the file may have been created since the listing.
func (o *opening) lists(name string) bool { return o.log.readOnly || o.entries.has(name) }

// decide returns the plan for the collected facts. It scans the segments that the plan depends on.
func (o *opening) decide() (_ recovery.Plan, err error) {
	l := o.log
	// Recovery needs the epochs. If their file is missing they are rebuilt afterwards.
	if o.lists(epochFile) {
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

// gather reads the manifest and the directory: one ReadDir, and the size of each segment's data. It
// does not look for files that are not in the listing: a start does this for each log.
func (o *opening) gather() (err error) {
	l := o.log
	if o.entries == nil {
		if o.entries, err = o.cfg.FS.ReadDir(l.path); err != nil {
			return err
		}
	}
	var st manifest.State
	var known bool
	if o.lists(stateFile) || o.lists(provisionalFile) {
		if st, known, err = readState(o.cfg.FS, l.path); err != nil {
			return err
		}
	}
	o.provisional = known && !o.lists(stateFile)
	files, err := segmentFiles(o.cfg.FS, l.path, o.entries)
	if err != nil {
		return err
	}
	o.facts = recovery.Facts{Files: files, Boot: l.dir.bootID, Scans: map[int64]recovery.Scan{}, Fresh: newIncarnation()}
	if l.readOnly {
		if err := l.dir.lookBeside(l.path, known); err != nil {
			return err
		}
	}
	old := known && l.dir.takenByKafka() // the broker does not use the state, and has changed its files
	if len(files) > 0 && (!known || old) {
		st, known = l.dir.kafkaState(l)
	}
	if st.Version < 2 {
		if o.facts.SwapEnds, err = swapEnds(o.cfg.FS, l.path, files); err != nil {
			return err
		}
	}
	if st.Incarnation == 0 { // new, or of a version without: written with the next state, which comes before the next append
		st.Incarnation = newIncarnation()
	}
	if l.identity == 0 {
		l.identity = st.Identity
	}
	w := &l.token.writer
	w.leftover = o.lists(provisionalFile)
	w.incarnation, w.journalTag, w.cuts = st.Incarnation, st.JournalTag, st.Cuts
	if w.cutPending { // see cutTornWrite
		w.countCut()
	}
	o.facts.State, o.facts.Known = st, known
	l.purged.Store(&Purged{st.Purged, st.PurgeID})
	if l.readOnly && !old {
		return o.heedTornWrite()
	}
	return nil
}

// segmentFiles returns the files of segments among the entries of dir, with the sizes of data
// files. A symbolic link counts as its target.
func segmentFiles(fsys vfs.FS, dir string, entries []fs.DirEntry) (files []recovery.File, err error) {
	for _, e := range entries {
		name := e.Name()
		if !recovery.IsSegmentFile(name) {
			continue
		}
		if e.IsDir() {
			log := strings.TrimSuffix(name, filepath.Ext(name)) + segment.LogSuffix
			if log != name && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == log && !e.IsDir() }) {
				return nil, &CorruptError{Path: filepath.Join(dir, name), Offset: -1, Reason: "it is a directory; put the segment's file back"}
			}
			continue
		}
		f := recovery.File{Name: name}
		if recovery.HoldsBatches(name) {
			info, err := e.Info()
			if err == nil && info.Mode()&fs.ModeSymlink != 0 {
				info, err = fsys.Stat(filepath.Join(dir, name))
			}
			if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() { // a writer at work has removed it
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
	if o.foreign() {
		c.EpochAt = nil // a broker at work may write its checkpoint after the batches
	}
	if o.ended != nil {
		c.FS = &endedFS{c.FS, *o.ended}
	}
	if suffix != "" {
		c.FS = compact.Suffixed(c.FS, suffix)
	}
	return c
}

// known returns the facts about a segment's files from the listing. It has none where compaction
// has left other files, which may still get their names, nor for a reader, since a writer may have
// changed them.
func (o *opening) known(seg recovery.Segment) (known segment.OpenOptions) {
	if o.log.readOnly {
		return known
	}
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

// foreign reports whether the log is only read and has no state of ours: a Kafka broker may be at
// work.
func (o *opening) foreign() bool { return o.log.readOnly && o.facts.State.Version == 0 }

// scan walks over a segment's batches and notes where they end. It changes nothing.
func (o *opening) scan(seg recovery.Segment) error {
	l := o.log
	s, err := segment.Open(l.path, seg.Base, o.config(seg.Suffix), o.known(seg))
	if err != nil {
		return err
	}
	ro := segment.RecoverOptions{SameBoot: l.recovery.SameBoot || l.recovery.Clean, RecoveryPoint: o.facts.State.RecoveryPoint, KeepTail: true, Active: seg.Next < 0, Gapless: seg.Gapless, Below: max(seg.Next, 0)}
	if o.facts.State.Strict {
		ro.UnsyncedWindow = unsyncedWindow
	}
	if o.opened != nil {
		if err := o.opened(seg); err != nil {
			return errors.Join(err, s.Discard())
		}
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
	r := o.log.recovery
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
		r.add(s)
	}
}
