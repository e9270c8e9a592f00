package log

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// suspectFile is there while the end of the log may be in the system's memory and not on the disk
// although a sync says otherwise: after a failed sync Linux counts the lost pages as clean. They
// can be read until the machine restarts, and a later sync of the file succeeds without them. Its
// format is that of strata.state; the recovery point says from where on. A segment in it is one
// whose last write failed half-way and could not be cut back: what is behind its size was never
// part of the log.
const suspectFile = "strata.suspect"

// noteTries is how often the mark is tried to be written without a sync: errors of a disk seldom
// come alone.
const noteTries = 3

// noteSuspect leaves the mark of a failed sync, or of a write to torn that failed and may have left
// something: for the writer then. If it cannot, since the disk has just failed, Close tries again:
// the disk may be back when the log is to be opened again.
func (l *Log) noteSuspect(torn *segment.Segment) {
	fsys := l.cfg.Load().FS
	s := manifest.State{Start: l.segments.start.Load(), RecoveryPoint: l.durability.inFiles.Load(), BootID: l.dir.bootID}
	if torn != nil {
		s.End = l.segments.end.Load()
		s.Segments = []manifest.Segment{{Base: torn.Base(), Size: torn.Size()}}
	}
	mark := s.AppendTo(nil)
	if err := writeMark(fsys, l.path, mark); err != nil {
		l.durability.unnoted.Store(&mark)
		l.cfg.Load().Logger.Warn("a failed sync could not be noted", "path", l.path, "err", err)
		return
	}
	l.durability.unnoted.Store(nil)
}

// noteAgain leaves the mark that noteSuspect could not leave, if there is one.
func (l *Log) noteAgain() error {
	mark := l.durability.unnoted.Load()
	if mark == nil {
		return nil
	}
	if err := writeMark(l.cfg.Load().FS, l.path, *mark); err != nil {
		return fmt.Errorf("note a failed sync of %s: %w", l.path, err)
	}
	return nil
}

func writeMark(fsys vfs.FS, dir string, mark []byte) error {
	path := filepath.Join(dir, suspectFile)
	err := vfs.WriteFile(fsys, path, mark)
	for tries := 0; err != nil && tries < noteTries; tries++ { // no sync may succeed any more. Nor need this one: the mark is for as long as the machine runs
		err = writeUnsynced(fsys, path, mark)
	}
	return err
}

func writeUnsynced(fsys vfs.FS, path string, p []byte) error {
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(p, 0)
	return errors.Join(err, f.Close())
}

// cutTornWrite takes away what a failed write has left that could not be cut back. It comes before
// recovery, which would find bytes that no kill and no power cut can have left there, and call them
// damage. Doing it again does no harm: until the mark is removed nothing is appended.
func (l *Log) cutTornWrite(fsys vfs.FS) (err error) {
	path := filepath.Join(l.path, suspectFile)
	p, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	mark, err := manifest.Parse(p)
	if err != nil || len(mark.Segments) == 0 {
		return nil // damaged, or of a failed sync: resolveSuspect's affair
	}
	torn := mark.Segments[0]
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
	if err != nil || size <= torn.Size {
		return err
	}
	if err := errors.Join(f.Truncate(torn.Size), f.Sync()); err != nil {
		return fmt.Errorf("cut a write that failed: %w", err)
	}
	l.recovery.CutBytes, l.recovery.CutOffset = size-torn.Size, mark.End
	return nil
}

// resolveSuspect writes what a failed sync may have lost once more, so that it reaches the disk
// with the next sync, which it does too. After a restart of the machine there is nothing to do:
// what can be read is on the disk. The segments are open.
func (l *Log) resolveSuspect(cfg *Config) error {
	path := filepath.Join(l.path, suspectFile)
	p, err := vfs.ReadFile(cfg.FS, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	from := int64(0) // a damaged mark says that much: everything is suspect
	if s, err := manifest.Parse(p); err == nil {
		from = s.RecoveryPoint
	}
	if l.recovery.SameBoot || l.recovery.Clean {
		for _, s := range l.list() {
			if s.NextOffset() > from {
				if err := rewriteFrom(cfg.FS, s, from); err != nil {
					return fmt.Errorf("rewrite after a failed sync: %w", err)
				}
			}
		}
	}
	if w := &l.token.writer; w.cutPending { // before nothing says any more that there was a cut
		if err := w.writeState(l.list(), false); err != nil {
			return err
		}
	}
	if err := cfg.FS.Remove(path); err != nil {
		return err
	}
	return cfg.FS.SyncDir(l.path)
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
