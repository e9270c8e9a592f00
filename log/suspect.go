package log

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/log/internal/recovery"
	"github.com/stratalog/strata/vfs"
)

// suspectFile exists while the end of the log may be in the system's memory and not on the disk
// although a sync has succeeded: after a failed sync Linux counts the lost pages as clean. They can
// be read until the machine restarts, and a later sync of the file succeeds without them. Its
// format is that of strata.state; the recovery point is the offset from which on data may be lost.
// A segment in it is one whose last write failed half-way and could not be cut back: data after its
// size was never part of the log.
const suspectFile = "strata.suspect"

// If the file cannot be written, the mark is kept in the memory of this process: its next open of
// the log uses the mark as it does the file. Another process does not have it, if this process ends
// before the disk accepts the mark.

// noteTries is how often the mark is tried to be written without a sync: errors of a disk seldom
// come alone.
const noteTries = 3

// A tornWrite is a write that failed half-way and could not be cut back, in the log's last life.
type tornWrite struct {
	segment     *segment.Segment
	incarnation uint64 // of the state on the disk at the time
	journalTag  uint64 // likewise; every opening draws another
}

// noteSuspect leaves the mark of a failed sync, or of a torn write. Safe for concurrent use: the
// last one to come has all of it.
func (l *Log) noteSuspect() {
	d := &l.durability
	d.noting.Lock()
	defer d.noting.Unlock()
	s := manifest.State{Start: l.segments.start.Load(), RecoveryPoint: d.inFiles.Load(), BootID: l.dir.bootID}
	if torn := d.torn.Load(); torn != nil {
		s.End = l.segments.end.Load()
		s.Segments = []manifest.Segment{{Base: torn.segment.Base(), Size: torn.segment.Size()}}
		s.Incarnation, s.JournalTag = torn.incarnation, torn.journalTag
	}
	cfg := l.cfg.Load()
	if err := leaveMark(cfg.FS, l.claim.name, &s); err != nil {
		cfg.Logger.Warn("a failed sync could not be noted", "path", l.path, "err", err)
	}
}

// leaveMark writes the mark of the log whose directory has the given real path, or remembers it.
func leaveMark(fsys vfs.FS, dir string, s *manifest.State) error {
	path, mark := filepath.Join(dir, suspectFile), s.AppendTo(nil)
	err := writeMark(fsys, path, mark)
	if err != nil {
		vfs.SetNote(fsys, path, mark)
	} else {
		vfs.RemoveNote(fsys, path)
	}
	return err
}

// noteAgain writes the mark that noteSuspect could only keep in memory, if there is one. It runs
// before the log's directory is released, since another process may open it next.
func (l *Log) noteAgain() error {
	fsys, path := l.cfg.Load().FS, filepath.Join(l.claim.name, suspectFile)
	mark := vfs.Note(fsys, path)
	if mark == nil || l.readOnly {
		return nil
	}
	if err := writeMark(fsys, path, mark); err != nil {
		return fmt.Errorf("note a failed sync of %s: %w", l.path, err)
	}
	vfs.RemoveNote(fsys, path)
	return nil
}

func writeMark(fsys vfs.FS, path string, mark []byte) error {
	err := vfs.WriteFile(fsys, path, mark)
	for tries := 0; err != nil && tries < noteTries; tries++ { // no sync may succeed any more. Nor need this one: the mark is for as long as the machine runs
		err = writeUnsynced(fsys, path, mark)
	}
	return err
}

func writeUnsynced(fsys vfs.FS, path string, p []byte) error {
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(p, 0)
	return errors.Join(err, f.Close())
}

// suspicion returns the mark of an earlier failure from the log's directory, whose real path is
// dir, or from the memory of this process; nil if there is none. there means that the file exists.
// It changes nothing on the disk.
func (l *Log) suspicion(cfg *Config, dir string, there bool) (*manifest.State, error) {
	path := filepath.Join(dir, suspectFile)
	var marks []manifest.State
	if there {
		p, err := vfs.ReadFile(cfg.FS, path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		mark, err := manifest.Parse(p)
		if err != nil {
			mark = manifest.State{} // damaged, or the disk was full: everything is suspect
		}
		marks = append(marks, mark)
	}
	if p := vfs.Note(cfg.FS, path); p != nil {
		mark, err := l.remembered(cfg, p)
		if err != nil {
			return nil, err
		}
		marks = append(marks, mark)
	}
	if len(marks) == 0 {
		return nil, nil
	}
	all := marks[0]
	for _, m := range marks[1:] {
		all.RecoveryPoint = min(all.RecoveryPoint, m.RecoveryPoint)
		if m.BootID != all.BootID {
			all.BootID = ""
		}
		if len(all.Segments) == 0 {
			all.Segments, all.End = m.Segments, m.End
			all.Incarnation, all.JournalTag = m.Incarnation, m.JournalTag
		}
	}
	return &all, nil
}

// shareSuspicion passes the mark of this process on to the next open of the log if this open does
// not succeed. A mark that is only in memory is written to the file. If there are both, the mark in
// memory is combined with the file's, since noteAgain may replace one with the other.
func (l *Log) shareSuspicion(cfg *Config, mark *manifest.State, there bool) {
	path := filepath.Join(l.claim.name, suspectFile)
	p := vfs.Note(cfg.FS, path)
	switch {
	case p == nil:
	case there:
		vfs.SetNote(cfg.FS, path, mark.AppendTo(nil))
	default:
		if err := writeMark(cfg.FS, path, p); err != nil {
			cfg.Logger.Warn("a failed sync could not be noted", "path", l.path, "err", err)
		}
	}
}

// tornWriteOf returns the torn write in a mark, if there is one.
func tornWriteOf(mark *manifest.State) (t recovery.Torn, ok bool) {
	if mark == nil || len(mark.Segments) == 0 {
		return t, false // of a failed sync: resolveSuspect's affair
	}
	return recovery.Torn{Base: mark.Segments[0].Base, Size: mark.Segments[0].Size, Next: mark.End}, true
}

// remembered parses a mark from the memory of this process. Other processes may have opened the log
// since, without the mark: they judged the data that they found, and their appends are not cut off.
// Each of them drew another tag for the state before it appended.
func (l *Log) remembered(cfg *Config, p []byte) (manifest.State, error) {
	mark, err := manifest.Parse(p)
	if err != nil {
		return mark, err // ours, a moment ago
	}
	if len(mark.Segments) > 0 {
		st, _, err := readState(cfg.FS, l.path)
		if err != nil {
			return mark, err
		}
		if st.Incarnation != mark.Incarnation || st.JournalTag != mark.JournalTag {
			mark.Segments = nil
		}
	}
	return mark, nil
}

// cutTornWrite removes the rest of a failed write that could not be cut back. It comes before
// recovery, which would treat bytes that no kill and no power failure can have left as damage. It
// can be repeated: until the mark is removed nothing is appended.
func (l *Log) cutTornWrite(fsys vfs.FS, mark *manifest.State) (err error) {
	torn, ok := tornWriteOf(mark)
	if !ok {
		return nil
	}
	f, err := fsys.OpenFile(filePath(l.path, torn.Base, segment.LogSuffix), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) { // it was removed afterwards
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	l.token.writer.cutPending = true // also if it was cut before: this open may be the second one to try
	size, err := f.Size()
	if err != nil {
		return err
	}
	if step, ok := torn.Cut(size); ok {
		if err := errors.Join(f.Truncate(torn.Size), f.Sync()); err != nil {
			return fmt.Errorf("cut a write that failed: %w", err)
		}
		l.recovery.noteCut(step)
	}
	return nil
}

// resolveSuspect writes the data that a failed sync may have lost again, so that it reaches the
// disk with the next sync, which resolveSuspect does too. If the machine was restarted since the
// sync failed, nothing needs to be done: readable data is on the disk. The mark determines that,
// not the state, which may be of an earlier run of the machine, if the sync of an open after a
// restart has failed. The segments are open.
func (l *Log) resolveSuspect(cfg *Config, mark *manifest.State) error {
	from := mark.RecoveryPoint
	if mark.BootID == "" || mark.BootID == l.dir.bootID {
		for _, s := range l.list() {
			if s.NextOffset() > from {
				if err := rewriteFrom(cfg.FS, s, from); err != nil {
					return fmt.Errorf("rewrite after a failed sync: %w", err)
				}
			}
		}
	}
	if w := &l.token.writer; w.cutPending { // before the only record of the cut is removed
		if err := w.writeState(l.list(), false); err != nil {
			return err
		}
	}
	path := filepath.Join(l.claim.name, suspectFile)
	if err := cfg.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := cfg.FS.SyncDir(l.path); err != nil {
		return err
	}
	vfs.RemoveNote(cfg.FS, path)
	return nil
}

// rewriteFrom replaces the bytes of s from the batch that holds offset on by themselves, and syncs.
func rewriteFrom(fsys vfs.FS, s *segment.Segment, offset int64) (err error) {
	pos, err := s.Locate(offset)
	if err != nil {
		return err
	}
	f, err := fsys.OpenFile(s.Path(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, min(1<<20, max(s.Size()-pos, 0)))
	for pos < s.Size() {
		p := buf[:min(int64(len(buf)), s.Size()-pos)]
		if _, err := f.ReadAt(p, pos); err != nil {
			return err
		}
		if _, err := f.WriteAt(p, pos); err != nil {
			return err
		}
		pos += int64(len(p))
	}
	return f.Sync()
}
