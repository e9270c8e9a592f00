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

// suspectFile is there while the end of the log may be in the system's memory and not on the disk although a sync says otherwise: after a
// failed sync Linux counts the lost pages as clean. They can be read until the machine restarts, and a later sync of the file succeeds without them.
// Its format is that of strata.state; the recovery point says from where on.
const suspectFile = "strata.suspect"

// noteSuspect leaves the mark of a failed sync. Best effort: the disk has just failed.
func (l *Log) noteSuspect() {
	fsys := l.cfg.Load().FS
	s := manifest.State{Start: l.segments.start.Load(), RecoveryPoint: l.durability.inFiles.Load(), BootID: l.dir.bootID}
	path := filepath.Join(l.path, suspectFile)
	err := vfs.WriteFile(fsys, path, s.AppendTo(nil))
	if err != nil { // no sync may succeed any more. Nor need this one: the mark is for as long as the machine runs
		err = writeUnsynced(fsys, path, s.AppendTo(nil))
	}
	if err != nil {
		l.cfg.Load().Logger.Warn("a failed sync could not be noted", "path", l.path, "err", err)
	}
}

func writeUnsynced(fsys vfs.FS, path string, p []byte) error {
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(p, 0)
	return errors.Join(err, f.Close())
}

// resolveSuspect writes what a failed sync may have lost once more, so that it reaches the disk with the next sync, which it does too. After a
// restart of the machine there is nothing to do: what can be read is on the disk. The segments are open.
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
