package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/vfs"
)

// snapshotSuffix is the suffix of the files with an owner's state, beside the segments. They are
// named by the offset at which they end, exclusive.
const snapshotSuffix = ".snapshot"

// filePath returns the path of the file of a segment, or of a snapshot, in dir.
func filePath(dir string, base int64, suffix string) string {
	return filepath.Join(dir, segment.FileName(base, suffix))
}

// snapshot writes the owner's state as of offset, and before it the transaction index: the log
// below the newest snapshot is not read again.
func (w *writer) snapshot(offset int64) error {
	l := w.log
	if err := w.storeAborted(); err != nil {
		return err
	}
	cfg := l.cfg.Load()
	o, ok := cfg.Owner.(Snapshotter)
	if !ok {
		return nil
	}
	data := o.Snapshot(offset)
	if data == nil { // the owner has no state
		return nil
	}
	l.snapshots.Store(nil)
	return vfs.WriteFile(cfg.FS, filePath(l.path, offset, snapshotSuffix), data)
}

// WriteSnapshot stores the owner's state as of offset, replacing an earlier snapshot of that
// offset. It is on stable storage when WriteSnapshot returns. A Snapshotter need not call it.
func (l *Log) WriteSnapshot(offset int64, data []byte) error {
	switch {
	case l.readOnly:
		return ErrReadOnly
	case l.closing.Load():
		return ErrClosed
	case offset < 0:
		return fmt.Errorf("%w: snapshot at %d", ErrOffsetOutOfRange, offset)
	}
	if l.aborts.pending.Load() {
		if err := l.exclusively((*writer).storeAborted); err != nil {
			return fmt.Errorf("write snapshot: %w", err)
		}
	}
	l.snapshots.Store(nil)
	fsys := l.cfg.Load().FS
	err := vfs.WriteFile(fsys, filePath(l.path, offset, snapshotSuffix), data)
	// The first append would sync them otherwise.
	if err == nil && l.unentered.Load() {
		err = l.dir.syncEntries(fsys)
	}
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// SnapshotFiles returns the offsets of the owner's snapshots, ascending. It returns ErrClosed, or
// an error of the file system.
func (l *Log) SnapshotFiles() ([]int64, error) {
	if l.closing.Load() {
		return nil, ErrClosed
	}
	if listed := l.snapshots.Swap(nil); listed != nil {
		return *listed, nil
	}
	offsets, err := l.snapshotOffsets()
	if err == nil && l.readOnly { // the writer's later ones are none of this log's
		end := l.EndOffset()
		offsets = slices.DeleteFunc(offsets, func(o int64) bool { return o > end })
		err = l.vouch(end, nil)
	}
	return offsets, err
}

// snapshotOffsets is SnapshotFiles also while the log is being closed: work in progress continues.
func (l *Log) snapshotOffsets() (offsets []int64, err error) {
	entries, err := l.cfg.Load().FS.ReadDir(l.path)
	if err != nil {
		return nil, fmt.Errorf("snapshots of %s: %w", l.path, err)
	}
	return snapshotsIn(entries), nil
}

// snapshotsIn returns the offsets of the snapshots among the entries of a directory, ascending.
func snapshotsIn(entries []fs.DirEntry) (offsets []int64) {
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), snapshotSuffix)
		if offset, err := strconv.ParseInt(name, 10, 64); ok && err == nil && offset >= 0 && len(name) == 20 {
			offsets = append(offsets, offset)
		}
	}
	slices.Sort(offsets)
	return offsets
}

// dropListed is dropSnapshots for the entries of the directory that this open has read. It keeps
// the other offsets for the owner's call of SnapshotFiles: an open reads the directory once.
func (l *Log) dropListed(entries []fs.DirEntry, which func(offset int64) bool) error {
	var kept []int64
	for _, o := range snapshotsIn(entries) {
		if !which(o) {
			kept = append(kept, o)
		} else if err := removeSnapshot(l.cfg.Load().FS, l.path, o); err != nil {
			return err
		}
	}
	l.snapshots.Store(&kept)
	return nil
}

// ReadSnapshot returns the snapshot with the given offset. It returns ErrClosed, or an error of the
// file system.
func (l *Log) ReadSnapshot(offset int64) ([]byte, error) {
	if l.closing.Load() {
		return nil, ErrClosed
	}
	p, err := vfs.ReadFile(l.cfg.Load().FS, filePath(l.path, offset, snapshotSuffix))
	if err = l.vouch(offset, err); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return p, nil
}

// RemoveSnapshot removes the snapshot with the given offset, if there is one.
func (l *Log) RemoveSnapshot(offset int64) error {
	if l.readOnly {
		return ErrReadOnly
	}
	if l.closing.Load() {
		return ErrClosed
	}
	l.snapshots.Store(nil)
	if err := removeSnapshot(l.cfg.Load().FS, l.path, offset); err != nil {
		return fmt.Errorf("remove snapshot: %w", err)
	}
	return nil
}

// dropSnapshots durably removes the snapshots for which which returns true: a snapshot of truncated
// records must not reappear beside later records.
func (l *Log) dropSnapshots(which func(offset int64) bool) error {
	l.snapshots.Store(nil)
	offsets, err := l.snapshotOffsets()
	if err != nil {
		return err
	}
	return l.dropOf(offsets, which)
}

// dropOf is dropSnapshots for those at offsets.
func (l *Log) dropOf(offsets []int64, which func(offset int64) bool) error {
	dropped := false
	for _, o := range offsets {
		if which(o) {
			if err := removeSnapshot(l.cfg.Load().FS, l.path, o); err != nil {
				return err
			}
			dropped = true
		}
	}
	if !dropped {
		return nil
	}
	return l.cfg.Load().FS.SyncDir(l.path)
}

// dropSnapshotsBefore removes the snapshots that are not needed in a log that begins at base. The
// newest one at or below base stays: there is none at base if it could not be written, and the
// older one may be the only copy of its state.
func (l *Log) dropSnapshotsBefore(base int64) error {
	l.snapshots.Store(nil)
	offsets, err := l.snapshotOffsets()
	if err != nil {
		return err
	}
	newest := int64(-1)
	for _, o := range offsets {
		if o <= base {
			newest = o
		}
	}
	return l.dropOf(offsets, func(offset int64) bool { return offset < newest })
}

// removeSnapshot removes the snapshot at offset, if there is one.
func removeSnapshot(fsys vfs.FS, dir string, offset int64) error {
	if err := fsys.Remove(filePath(dir, offset, snapshotSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

var indexSuffixes = []string{segment.IndexSuffix, segment.TimeIndexSuffix, segment.TxnIndexSuffix}

// removeSegmentFiles removes those files of a segment that exist.
func removeSegmentFiles(fsys vfs.FS, dir string, base int64) error {
	return errors.Join(removeFiles(fsys, dir, base, indexSuffixes), removeFiles(fsys, dir, base, []string{segment.LogSuffix}))
}

// removeFiles removes those files of a segment with the given suffixes that exist.
func removeFiles(fsys vfs.FS, dir string, base int64, suffixes []string) error {
	var errs []error
	for _, suffix := range suffixes {
		if err := fsys.Remove(filePath(dir, base, suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
