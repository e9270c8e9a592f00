package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// Close refuses new calls with ErrClosed, lets the appends under way end, wakes who waits, syncs and closes the files. It is idempotent;
// later callers wait for the first and get its result.
func (l *Log) Close() error { return l.shut(l.closeFiles) }

// Remove closes the log and deletes its directory.
func (l *Log) Remove() error {
	return l.shut(func() error {
		for _, s := range l.list() {
			_ = s.Close() // whatever state it is in: it goes
		}
		cfg := l.cfg.Load()
		err := cfg.FS.RemoveAll(l.path)
		return errors.Join(err, cfg.FS.SyncDir(filepath.Dir(l.path)))
	})
}

func (l *Log) shut(end func() error) error {
	if !l.closing.CompareAndSwap(false, true) {
		<-l.closed
		return l.err
	}
	alarms := []*alarm.Alarm{&l.intervalAlarm, &l.idleAlarm, &l.expiryAlarm}
	for _, a := range alarms {
		a.Stop()
	}
	l.cleaning.take() // a compaction under way ends at its next batch
	defer l.cleaning.give()
	if l.takeTurn() == nil { // always: only we end turns
		l.endTurns() // appends accepted before have been written, or wait in the queue
	}
	l.tail.reset()
	l.wakeAll()
	for _, a := range alarms {
		a.Wait()
	}
	l.wg.Wait() // syncs in the background
	if !l.readOnly {
		l.err = l.syncNow()
		if l.err == nil && l.marked { // also what a failed write left and was cut off: the state is going to say where the log ends
			l.err = l.active().Sync()
		}
	}
	l.err = errors.Join(l.err, end())
	if !l.readOnly {
		l.dir.wasClosed(l, l.err)
	}
	l.dir.leave()
	if l.ownsDir {
		l.err = errors.Join(l.err, l.dir.Close())
	}
	close(l.closed)
	return l.err
}

func (l *Log) closeFiles() error {
	var errs []error
	marked := l.marked || !l.recovery.Clean
	if marked && l.Err() == nil {
		if err := l.snapshot(l.end.Load()); err != nil {
			errs = append(errs, err)
		}
	}
	for _, s := range l.list() {
		errs = append(errs, s.Close())
	}
	if marked && l.Err() == nil && errors.Join(errs...) == nil {
		errs = append(errs, l.writeState(l.list(), true))
	}
	return errors.Join(errs...)
}

// Backup copies the log, as it is at the call, to dir, which must not exist or be empty: sealed segments as hard links where the file system
// can, the active one as bytes. Appends go on meanwhile; cleaning waits. The copy is durable when Backup returns, and opens as a log.
func (l *Log) Backup(dir string) error {
	cfg := l.cfg.Load()
	if err := vfs.MakeDir(cfg.FS, dir, 0o755); err != nil {
		return fmt.Errorf("backup %s: %w", l.path, err)
	}
	if entries, err := cfg.FS.ReadDir(dir); err != nil || len(entries) > 0 {
		return fmt.Errorf("backup %s: %s is not empty: %w", l.path, dir, errors.Join(os.ErrExist, err))
	}
	err := l.exclusively(func() error {
		list := l.list()
		for _, s := range list[:len(list)-1] {
			if err := l.linkFile(s, dir, segment.LogSuffix); err != nil {
				return err
			}
			for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix, segment.TxnIndexSuffix} {
				if err := l.linkFile(s, dir, suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
			}
		}
		if err := l.copyActive(l.active(), dir); err != nil {
			return err
		}
		if err := l.copySmall(dir); err != nil {
			return err
		}
		st := state{start: l.start.Load(), recoveryPoint: l.end.Load(), clean: false, bootID: l.dir.bootID}
		return st.write(cfg.FS, dir)
	})
	if err != nil {
		return fmt.Errorf("backup %s to %s: %w", l.path, dir, err)
	}
	return cfg.FS.SyncDir(dir)
}

func (l *Log) linkFile(s *segment.Segment, dir, suffix string) error {
	fsys := l.cfg.Load().FS
	from, to := filePath(l.path, s.Base(), suffix), filePath(dir, s.Base(), suffix)
	err := fsys.Link(from, to)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return err
	}
	p, err := vfs.ReadFile(fsys, from)
	if err != nil {
		return err
	}
	return vfs.WriteFile(fsys, to, p)
}

// copyActive copies the whole batches of the active segment.
func (l *Log) copyActive(s *segment.Segment, dir string) (err error) {
	out, err := l.cfg.Load().FS.OpenFile(filePath(dir, s.Base(), segment.LogSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	buf := make([]byte, 0, 1<<20)
	for pos := int64(0); pos < s.Size(); {
		p, err := s.ReadRange(buf[:0], pos, cap(buf))
		if err != nil {
			return err
		}
		if len(p) == 0 {
			return io.ErrUnexpectedEOF
		}
		if _, err := out.WriteAt(p, pos); err != nil {
			return err
		}
		pos += int64(len(p))
	}
	return out.Sync()
}

// copySmall copies the leader epochs and the owner's snapshots.
func (l *Log) copySmall(dir string) error {
	fsys := l.cfg.Load().FS
	names := []string{epochFile}
	offsets, err := l.SnapshotFiles()
	if err != nil {
		return err
	}
	for _, o := range offsets {
		names = append(names, segment.FileName(o, snapshotSuffix))
	}
	for _, name := range names {
		p, err := vfs.ReadFile(fsys, filepath.Join(l.path, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = vfs.WriteFile(fsys, filepath.Join(dir, name), p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
