package compact

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// Suffixes of Kafka's protocol.
const (
	cleanedSuffix  = ".cleaned"
	swapSuffix     = ".swap"
	snapshotSuffix = ".snapshot"
)

// The .log file comes last: its new name says that the others have theirs.
var segmentSuffixes = []string{segment.IndexSuffix, segment.TimeIndexSuffix, segment.TxnIndexSuffix, segment.LogSuffix}

// A Result is a compacted segment that is to replace its sources. It is on stable storage, under
// names that end in .cleaned, and counts from the moment that the log's manifest names it: that is
// the one step that matters.
//
//  1. The result is written and synced under names ending in .cleaned, and so is the directory.
//  2. Commit: one replacement of the manifest says that the result belongs to the log, perhaps not
//     yet under its own
//     name, and that the sources are obsolete.
//  3. Install: the names become .swap, the sources are removed, the names become final; each on
//     stable storage before
//     the next. That is cosmetic, and done by the next open as far as it was not done.
//
// A crash before 2 leaves .cleaned files that no manifest names, and all sources. A Kafka broker
// that takes the directory at any moment sees the steps of its own cleaner: it either drops the
// result and keeps the sources, or completes what was begun.
type Result struct {
	Base       int64 // of the first source, and the result's
	NextOffset int64 // after its last batch
	Size       int64 // bytes
	Sources    []*segment.Segment

	// Purged is the offset behind the last tombstone or marker of its sources that it lacks without
	// having what tells of it; 0: there is none. Who has a copy of the log that ends before them
	// never hears of what they have ended.
	Purged int64

	pass *Pass
	kept bool // the manifest may name it
}

// Commit has write replace the manifest. From then on, also if it fails, the result's files stay:
// the manifest on the disk may name them.
func (r *Result) Commit(write func() error) error {
	r.kept = true
	return write()
}

// Install gives the result its final names, having remove take the sources away, and opens it.
// After an error the log cannot be used until it is opened again.
func (r *Result) Install(remove func(*segment.Segment) error) (*segment.Segment, error) {
	fsys, dir := r.pass.FS, r.pass.Dir
	if err := renameFiles(fsys, dir, r.Base, cleanedSuffix, swapSuffix); err != nil {
		return nil, err
	}
	for _, s := range r.Sources {
		if err := remove(s); err != nil {
			return nil, err
		}
		if s.Base() == r.Base {
			continue
		}
		// The state of producers there is not asked for any more.
		err := fsys.Remove(filePath(dir, s.Base(), snapshotSuffix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return nil, err
	}
	if err := renameFiles(fsys, dir, r.Base, swapSuffix, ""); err != nil {
		return nil, err
	}
	return segment.Open(dir, r.Base, r.pass.Segment, segment.OpenOptions{Clean: true, NextOffset: r.NextOffset, Size: r.Size})
}

// discard removes a result that was not committed.
func (r *Result) discard() error {
	if r.kept {
		return nil
	}
	return removeFiles(r.pass.FS, r.pass.Dir, r.Base, cleanedSuffix)
}

// removeLeftovers removes results of earlier passes that could not be removed then. A Kafka broker
// would take them for the sign that a .swap file is not complete.
func (c *Pass) removeLeftovers() error {
	entries, err := c.FS.ReadDir(c.Dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), cleanedSuffix) {
			errs = append(errs, c.FS.Remove(filepath.Join(c.Dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// renameFiles changes the suffix of those files of a segment that exist, durably.
func renameFiles(fsys vfs.FS, dir string, base int64, from, to string) error {
	for _, suffix := range segmentSuffixes {
		name := filePath(dir, base, suffix)
		if err := fsys.Rename(name+from, name+to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fsys.SyncDir(dir)
}

// removeFiles removes those files of a segment that exist under names with the suffix.
func removeFiles(fsys vfs.FS, dir string, base int64, suffix string) error {
	var errs []error
	for _, s := range segmentSuffixes {
		if err := fsys.Remove(filePath(dir, base, s) + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Suffixed returns fsys with suffix added to the name of every file: a segment works on its files
// under another name.
func Suffixed(fsys vfs.FS, suffix string) vfs.FS { return suffixFS{fsys, suffix} }

type suffixFS struct {
	vfs.FS
	suffix string
}

func (f suffixFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	return f.FS.OpenFile(name+f.suffix, flag, perm)
}
func (f suffixFS) Rename(from, to string) error          { return f.FS.Rename(from+f.suffix, to+f.suffix) }
func (f suffixFS) Remove(name string) error              { return f.FS.Remove(name + f.suffix) }
func (f suffixFS) Stat(name string) (fs.FileInfo, error) { return f.FS.Stat(name + f.suffix) }
func (f suffixFS) Chtimes(name string, mtime time.Time) error {
	return f.FS.Chtimes(name+f.suffix, mtime)
}
