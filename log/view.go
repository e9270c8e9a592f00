package log

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/log/internal/compact"
	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/log/internal/recovery"
	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// A view is one attempt to open a log read-only. It is of one moment: that of the state it reads.
//
// Why it is right beside a writer. Each state names the segments of the log at its time and the
// sizes of the closed ones; it is written before files it does not name are removed, and after
// files it names are made. So at the moment of reading it everything it names is there.
//
//  1. The active segment is opened first, and the state read again: if it is the same, the file is
//     the one that the state means. Its size says nothing, and compaction may give its name away later.
//  2. The others are opened. A file that was removed meanwhile is missing, one that took over its name
//     has another size or the same range of offsets, compacted: then the attempt fails, or it does not
//     matter. A descriptor goes on to read what it was opened for.
//  3. The active segment grows: it is read up to its last whole batch (segment.Recover).
//  4. Leader epochs are read after that, since a writer records an epoch before it appends in it.
//
// A directory without a state is Kafka's, or of a log that was never written to. There the listing
// is what says which segments there are, so it has to be the same before and after (Kafka renames).
type view struct {
	log *Log
	cfg *Config
	st  manifest.State

	raw     []byte // the state's bytes; nil: there is none, or it cannot be read
	known   bool   // the state, or Kafka's checkpoints, say how the log was left
	foreign bool   // there is no state
	opened  []*segment.Segment
	active  *segment.Segment // opened first, and not in opened yet
}

// A viewFile is a segment of a view.
type viewFile struct {
	base     int64
	next     int64 // base of the segment behind; -1: it is the last one
	size     int64 // that the file must have; -1: not known
	suffixes []string
}

func stateName(dir string) string { return filepath.Join(dir, stateFile) }

// close undoes a failed attempt.
func (v *view) close() error {
	var errs []error
	if v.active != nil {
		errs = append(errs, v.active.Close())
	}
	for _, s := range v.opened {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func (v *view) load() (err error) {
	l := v.log
	v.raw = v.rawState()
	if v.st, v.known, err = readState(v.cfg.FS, l.path); err != nil {
		return err
	}
	v.foreign = !v.known
	var names []string
	var files []viewFile
	if v.foreign {
		if names, err = v.segmentNames(); err != nil {
			return err
		}
		files, err = v.listedFiles(names)
	} else {
		files, err = v.namedFiles()
	}
	if err != nil {
		return err
	}
	l.recovery.Clean = v.known && v.st.Clean
	l.recovery.SameBoot = v.known && v.st.BootID != "" && v.st.BootID == l.dir.bootID
	if l.epochs, _, err = loadEpochs(v.cfg.FS, l.path, &v.st, l.EndOffset); err != nil { // to recover the tail with
		return err
	}
	if err := v.openFiles(files); err != nil {
		return err
	}
	if err := v.publish(); err != nil {
		return err
	}
	if err := l.loadEpochs(v.cfg, &v.st, v.st.Epochs || v.foreign); err != nil {
		return err
	}
	if !v.foreign {
		return nil
	}
	now, err := v.segmentNames()
	if err == nil && (!slices.Equal(now, names) || v.rawState() != nil) {
		err = errMoved
	}
	return err
}

func (v *view) rawState() []byte {
	p, err := vfs.ReadFile(v.cfg.FS, stateName(v.log.path))
	if err != nil {
		return nil
	}
	return p
}

// namedFiles returns the segments that the state names, and those behind them of which it says
// nothing: they go on with the log. A roll that is under way has made one, or was interrupted, or a
// Kafka broker had the directory.
func (v *view) namedFiles() (files []viewFile, err error) {
	last := int64(-1)
	for _, s := range v.st.Segments {
		if s.Role.Belongs() {
			f := viewFile{base: s.Base, size: s.Size, suffixes: []string{""}}
			if s.Role == manifest.Installing || v.st.Version == 1 {
				f.suffixes = []string{recovery.CleanedSuffix, recovery.SwapSuffix, ""}
			}
			files = append(files, f)
		}
		last = max(last, s.Base)
	}
	if v.st.Emptied {
		return files, nil
	}
	names, err := v.segmentNames()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if base, ok := baseOfName(name, segment.LogSuffix); ok && base > last {
			files = append(files, viewFile{base: base, size: -1, suffixes: []string{""}})
		}
	}
	link(files)
	if len(files) > 0 {
		last := &files[len(files)-1]
		last.size, last.suffixes = -1, []string{""} // it was active, and may be still
	}
	return files, nil
}

// link tells each file where the next one begins.
func link(files []viewFile) {
	for i := range files {
		files[i].next = -1
		if i+1 < len(files) {
			files[i].next = files[i+1].base
		}
	}
}

// segmentNames lists the names of segments' data.
func (v *view) segmentNames() (names []string, err error) {
	entries, err := v.cfg.FS.ReadDir(v.log.path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		for _, suffix := range []string{"", recovery.SwapSuffix, recovery.CleanedSuffix} {
			if _, ok := baseOfName(name, segment.LogSuffix+suffix); ok && !e.IsDir() {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// listedFiles returns the segments among names, by Kafka's rules for what a compaction left
// (LogLoader): a .swap file replaces what lies in its range, unless a .cleaned file says that the
// compaction was not through.
func (v *view) listedFiles(names []string) (files []viewFile, err error) {
	l := v.log
	if err := v.readCheckpoints(); err != nil {
		return nil, err
	}
	oldest := int64(1<<63 - 1) // .cleaned
	for _, name := range names {
		if base, ok := baseOfName(name, segment.LogSuffix+recovery.CleanedSuffix); ok {
			oldest = min(oldest, base)
		}
	}
	type span struct{ from, to int64 }
	var swapped []span
	for _, name := range names {
		base, ok := baseOfName(name, segment.LogSuffix+recovery.SwapSuffix)
		if !ok || base >= oldest {
			continue
		}
		next, err := endOfLogFile(v.cfg.FS, filepath.Join(l.path, name), base)
		if err != nil {
			return nil, err
		}
		swapped = append(swapped, span{base, max(next, base+1)})
		files = append(files, viewFile{base: base, size: -1, suffixes: []string{recovery.SwapSuffix}})
	}
	for _, name := range names {
		base, ok := baseOfName(name, segment.LogSuffix)
		if ok && !slices.ContainsFunc(swapped, func(s span) bool { return s.from <= base && base < s.to }) {
			files = append(files, viewFile{base: base, size: -1, suffixes: []string{""}})
		}
	}
	slices.SortFunc(files, func(a, b viewFile) int { return int(max(min(a.base-b.base, 1), -1)) })
	link(files)
	if len(files) == 0 {
		return nil, fmt.Errorf("no segments: %w", fs.ErrNotExist)
	}
	return files, nil
}

// baseOfName returns the base offset in the name of a segment's file.
func baseOfName(name, suffix string) (base int64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' || base > (1<<63-1-9)/10 {
			return 0, false
		}
		base = base*10 + int64(c-'0')
	}
	return base, true
}

// readCheckpoints takes what Kafka knows of the log from the directory above.
func (v *view) readCheckpoints() error {
	parent, name := filepath.Dir(v.log.path), filepath.Base(v.log.path)
	if real, err := v.cfg.FS.RealPath(v.log.path); err == nil {
		parent, name = filepath.Dir(real), filepath.Base(real)
	}
	recoveries, err := readOffsets(v.cfg.FS, filepath.Join(parent, recoveryPointFile))
	if err != nil {
		return err
	}
	starts, err := readOffsets(v.cfg.FS, filepath.Join(parent, logStartFile))
	if err != nil {
		return err
	}
	v.st.Start, v.st.RecoveryPoint = starts[name], recoveries[name]
	if _, ok := recoveries[name]; ok {
		_, err := v.cfg.FS.Stat(filepath.Join(parent, cleanShutdownFile))
		v.known, v.st.Clean = err == nil, err == nil
	}
	return nil
}

// errMoved says that an attempt met names of before and after.
var errMoved = errors.New("the writer has changed the log meanwhile")

// openFiles opens the segments. What follows one whose end a power cut took is not part of the log.
func (v *view) openFiles(files []viewFile) error {
	n := len(files)
	if n == 0 {
		return nil
	}
	var err error
	if v.active, err = v.openFile(files[n-1]); err != nil {
		return err
	}
	if !bytes.Equal(v.rawState(), v.raw) {
		return errMoved
	}
	for i, f := range files {
		s := v.active
		if i < n-1 {
			if s, err = v.openFile(f); err != nil {
				return err
			}
		} else {
			v.active = nil
		}
		v.opened = append(v.opened, s)
		if torn, err := v.findEnd(f, s); err != nil || torn {
			return err
		}
	}
	return nil
}

// openFile opens a segment under the name that has it.
func (v *view) openFile(f viewFile) (s *segment.Segment, err error) {
	var damage error
	for _, suffix := range f.suffixes {
		t, err := v.openName(f, suffix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, ErrCorrupt):
			damage = err
			continue
		case err == nil && s != nil: // both its old content and the compacted one: that which reaches further has taken in what followed
			if t, err = v.further(s, t, f.next); err == nil {
				s = t
				continue
			}
		}
		if err != nil {
			return nil, errors.Join(err, closeIfOpen(s))
		}
		s = t
	}
	switch {
	case s != nil:
		return s, nil
	case damage != nil:
		return nil, damage
	}
	return nil, fmt.Errorf("%w: %s", ErrMissingSegment, filePath(v.log.path, f.base, segment.LogSuffix))
}

func closeIfOpen(s *segment.Segment) error {
	if s == nil {
		return nil
	}
	return s.Close()
}

// openName opens the file with the given suffix, if it has the right size.
func (v *view) openName(f viewFile, suffix string) (*segment.Segment, error) {
	cfg := v.log.segmentConfig(v.cfg)
	if v.foreign {
		cfg.EpochAt = nil // a broker's checkpoint may come later than its batches
	}
	if suffix != "" {
		cfg.FS = compact.Suffixed(cfg.FS, suffix)
	}
	var o segment.OpenOptions
	if f.size >= 0 && v.trusted(f) {
		o = segment.OpenOptions{Clean: true, NextOffset: f.next, Size: f.size}
	}
	s, err := segment.Open(v.log.path, f.base, cfg, o)
	if err == nil && f.size >= 0 && v.trusted(f) && s.Allocated() != f.size {
		err = &CorruptError{Path: s.Path(), Pos: min(f.size, s.Allocated()), Offset: f.base,
			Reason: fmt.Sprintf("file has %d bytes, %d were written", s.Allocated(), f.size)}
		return nil, errors.Join(err, s.Close())
	}
	return s, err
}

// trusted says that every byte of a closed segment is there.
func (v *view) trusted(f viewFile) bool {
	return f.next >= 0 && (v.log.recovery.Clean || v.log.recovery.SameBoot || f.next <= v.st.RecoveryPoint)
}

// further returns that of two files of one size which reaches further, but not above next, and
// closes the other.
func (v *view) further(a, b *segment.Segment, next int64) (*segment.Segment, error) {
	ends := [2]int64{}
	for i, s := range []*segment.Segment{a, b} {
		if _, err := s.Recover(segment.RecoverOptions{SameBoot: true, KeepTail: true}); err != nil {
			return nil, errors.Join(err, b.Close())
		}
		if ends[i] = s.NextOffset(); next >= 0 && ends[i] > next {
			ends[i] = -1
		}
	}
	if ends[0] >= ends[1] {
		a, b = b, a
	}
	return b, a.Close()
}

// findEnd finds the end of a segment; torn says that a power cut took the end of a closed one.
func (v *view) findEnd(f viewFile, s *segment.Segment) (torn bool, err error) {
	l, last := v.log, f.next < 0
	if f.size >= 0 && v.trusted(f) {
		return false, nil
	}
	o := segment.RecoverOptions{SameBoot: l.recovery.SameBoot || l.recovery.Clean, RecoveryPoint: v.st.RecoveryPoint, KeepTail: true}
	if v.st.Strict {
		o.UnsyncedWindow = unsyncedWindow
	}
	if !last && f.next <= v.st.RecoveryPoint {
		o.SameBoot = true // its bytes are on the disk
	}
	rep, err := s.Recover(o)
	if err != nil {
		return false, err
	}
	least := v.st.RecoveryPoint
	if !last {
		least = min(least, f.next)
	}
	if last && l.recovery.Clean {
		least = max(least, v.st.End)
	}
	if last && s.NextOffset() < least && !v.foreign {
		return false, &CorruptError{Path: s.Path(), Pos: s.Size(), Offset: s.NextOffset(),
			Reason: fmt.Sprintf("file ends, although the log had reached offset %d", least)}
	}
	l.recovery.ScannedBytes += rep.ScannedBytes
	l.recovery.CutBytes += rep.CutBytes
	if rep.CutBytes > 0 {
		l.recovery.CutOffset = s.NextOffset()
	}
	switch {
	case last || o.SameBoot:
		return false, nil
	case f.size >= 0: // a gap up to the next segment is compaction's if no byte is missing
		torn = s.Size() < f.size
	case v.foreign:
		torn = rep.CutBytes+rep.ZeroBytes > 0
	default:
		torn = s.NextOffset() != f.next
	}
	if torn {
		l.recovery.CutOffset = s.NextOffset()
	}
	return torn, nil
}

// publish makes the log consist of what was opened.
func (v *view) publish() error {
	l, start := v.log, v.st.Start
	end := start
	if n := len(v.opened); n > 0 {
		last := v.opened[n-1]
		end = max(last.NextOffset(), last.Base())
		if v.st.Clean {
			end = max(end, v.st.End)
		}
	}
	if len(v.opened) == 0 || start > end { // emptied, or a power cut took all that DeleteRecords had left
		if err := v.close(); err != nil {
			return err
		}
		v.opened = nil
		if err := v.openNothing(start); err != nil {
			return err
		}
		end = start
	}
	list := v.opened
	l.segments.current.Store(&list)
	l.segments.end.Store(end)
	l.segments.start.Store(min(max(start, list[0].Base()), end))
	l.durability.set(min(max(v.st.RecoveryPoint, l.StartOffset()), end))
	return nil
}

// openNothing stands an empty segment, in memory, in for a log that has no file.
func (v *view) openNothing(start int64) error {
	cfg := v.log.segmentConfig(v.cfg)
	cfg.FS, cfg.ReadOnly = vfs.Mem(), false
	if err := cfg.FS.MkdirAll(v.log.path, 0o755); err != nil {
		return err
	}
	s, err := segment.Create(v.log.path, start, cfg)
	if err != nil {
		return err
	}
	v.opened = []*segment.Segment{s}
	return nil
}
