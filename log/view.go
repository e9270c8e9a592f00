package log

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/log/internal/recovery"
	"github.com/stratalog/strata/vfs"
)

// A view is one attempt to open a log read-only, by the plan that Open would carry out, without
// its steps. It shows the log at one instant, the one of the state that it reads.
//
// Why it is correct beside a writer: each state names the segments of the log at its time and the
// sizes of the closed ones. It is written before files that it does not name are removed, and after
// files that it names are created. So when a state is read, every file that it names exists.
//
//  1. When the active segment has been opened the state is read again. If it is the same, it
//     names this file. The file's size shows nothing, and compaction may give its name to another
//     file later. In a log that may have a writer it is the only file whose end is unknown, so
//     nothing slow precedes this step.
//  2. The others are opened. A file that was removed meanwhile is missing. A file that took over
//     its name has another size, or the same range of offsets, compacted. Then the attempt fails,
//     or it makes no difference. An open descriptor continues to read its file.
//  3. The active segment grows: it is read up to its last whole batch (segment.Recover).
//  4. Leader epochs are read after that, since a writer records an epoch before it appends in it.
//  5. The mark of the state is read once more. While it is the same, no byte was removed from a
//     file that is written to afterwards (manifest.State.Cuts), so the end found in step 3 is of
//     this log. Every later read compares the mark, too (Log.vouch). The rest of a failed write
//     that could not be cut back is not shown: the process that removes it counts that first, and
//     then removes strata.suspect, which has the file's end.
//
// A directory without a state is Kafka's, or of a log that was never written to. There the listing
// determines the segments, so it has to be the same before and after (Kafka renames).
type view struct {
	opening
	raw    []byte // the state's bytes; nil: there is none, or it cannot be read
	opened []*segment.Segment
}

// errMoved is returned if an attempt found names of before and after a change.
var errMoved = errors.New("the writer has changed the log meanwhile")

func stateName(dir string) string { return filepath.Join(dir, stateFile) }

// newReadOnly returns a log whose files have not been read yet.
func newReadOnly(dir string, cfg *Config) *Log {
	l := &Log{location: location{path: dir, readOnly: true}}
	l.dir = &Directory{path: dir, fs: cfg.FS, files: segment.NewFileCache(0), bootID: cfg.FS.BootID()}
	l.token.writer.log = l
	l.cfg.Store(cfg)
	l.segments.highWatermark.Store(-1)
	l.recovery = &RecoveryReport{CutOffset: -1}
	return l
}

// tryView makes one attempt.
func tryView(dir string, cfg *Config) (*Log, error) {
	if err := checkComplete(cfg.FS, dir); err != nil {
		return nil, err
	}
	l := newReadOnly(dir, cfg)
	v := view{opening: opening{log: l, cfg: cfg, scanned: map[int64]scanned{}}}
	defer v.drop()
	v.opening.opened = v.check
	if err := v.load(); err != nil {
		return nil, errors.Join(err, v.close())
	}
	return l, nil
}

// close undoes a failed attempt.
func (v *view) close() error {
	var errs []error
	for _, s := range v.opened {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func (v *view) load() error {
	l := v.log
	v.raw = v.rawState()
	l.moment = manifest.ParseMark(v.raw)
	if err := v.gather(); err != nil {
		return err
	}
	plan, err := v.decide()
	if err != nil {
		return err
	}
	if len(plan.Segments) == 0 && v.foreign() {
		return fmt.Errorf("no segments: %w", fs.ErrNotExist)
	}
	if err := v.openSegments(plan.Segments); err != nil {
		return err
	}
	if err := v.publish(&plan); err != nil {
		return err
	}
	if err := l.loadEpochs(v.cfg, &v.facts.State, v.facts.State.Epochs || v.foreign()); err != nil {
		return err
	}
	return v.unmoved()
}

func (v *view) rawState() []byte {
	p, err := stateBytes(v.cfg.FS, v.log.path)
	if err != nil {
		return nil
	}
	return p
}

// check is called when a segment was opened: if it is the active one, the state must still be the
// same.
func (v *view) check(seg recovery.Segment) error {
	if seg.Next < 0 && !bytes.Equal(v.rawState(), v.raw) {
		return errMoved
	}
	return nil
}

// unmoved checks that all opened files are of one instant.
func (v *view) unmoved() error {
	if manifest.ParseMark(v.rawState()) != v.log.moment || v.marked() != v.suspect {
		return errMoved
	}
	if !v.foreign() {
		return nil
	}
	entries, err := v.cfg.FS.ReadDir(v.log.path)
	if err != nil {
		return err
	}
	if !slices.Equal(segmentNames(entries), segmentNames(v.entries)) || !bytes.Equal(v.rawState(), v.raw) {
		return errMoved
	}
	return nil
}

// segmentNames returns the names of segments' data.
func segmentNames(entries []fs.DirEntry) (names []string) {
	for _, e := range entries {
		if recovery.HoldsBatches(e.Name()) && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// openSegments opens the segments of the plan, under their present names; the active one first.
func (v *view) openSegments(segments []recovery.Segment) error {
	n := len(segments)
	if n == 0 {
		return nil
	}
	active, err := v.openSegment(segments[n-1])
	if err != nil {
		return err
	}
	for _, seg := range segments[:n-1] {
		s, err := v.openSegment(seg)
		if err != nil {
			return errors.Join(err, active.Close())
		}
		v.opened = append(v.opened, s)
	}
	v.opened = append(v.opened, active)
	return nil
}

// openSegment opens a segment, or takes the scanned one.
func (v *view) openSegment(seg recovery.Segment) (*segment.Segment, error) {
	if had, ok := v.scanned[seg.Base]; ok {
		delete(v.scanned, seg.Base)
		return had.Segment, nil
	}
	o := segment.OpenOptions{Clean: true, NextOffset: seg.NextOffset, Size: seg.Size}
	s, err := segment.Open(v.log.path, seg.Base, v.config(seg.Suffix), o)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %s", ErrMissingSegment, filePath(v.log.path, seg.Base, segment.LogSuffix))
		fallthrough
	case err != nil:
		return nil, err
	}
	if err := v.check(seg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	// A shorter one is refused by segment.Open. A longer one is another file: of a segment that was
	// compacted by itself, and grew by the times at which its tombstones go.
	if have := s.Allocated(); have > seg.Size && seg.Next >= 0 {
		err := &CorruptError{Path: s.Path(), Pos: min(seg.Size, have), Offset: seg.Base,
			Reason: fmt.Sprintf("file has %d bytes, %d were written", have, seg.Size)}
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// publish makes the opened segments the log's.
func (v *view) publish(plan *recovery.Plan) error {
	l, end := v.log, plan.End
	// The log was emptied, or a power cut removed all records that DeleteRecords had left.
	if len(v.opened) == 0 {
		if err := v.openNothing(plan.Start); err != nil {
			return err
		}
		end = plan.Start
	}
	list := v.opened
	l.segments.current.Store(&list)
	l.segments.end.Store(end)
	l.segments.start.Store(min(max(plan.Start, list[0].Base()), end))
	l.durability.set(min(max(plan.RecoveryPoint, l.StartOffset()), end))
	return nil
}

// openNothing stands an empty segment, in memory, in for a log that has no file.
func (v *view) openNothing(start int64) error {
	cfg := v.log.segmentConfig(v.cfg)
	cfg.FS, cfg.ReadOnly = vfs.Mem(), false
	if err := cfg.FS.MkdirAll(v.log.path, 0o700); err != nil {
		return err
	}
	s, err := segment.Create(v.log.path, start, cfg)
	if err != nil {
		return err
	}
	v.opened = []*segment.Segment{s}
	return nil
}
