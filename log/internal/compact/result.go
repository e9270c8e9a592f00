package compact

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/vfs"
)

// Suffixes of Kafka's protocol.
const (
	cleanedSuffix  = ".cleaned"
	swapSuffix     = ".swap"
	snapshotSuffix = ".snapshot"
)

// The .log file comes last: once it has its new name, the others have theirs.
var segmentSuffixes = []string{segment.IndexSuffix, segment.TimeIndexSuffix, segment.TxnIndexSuffix, segment.LogSuffix}

// A Result is a compacted segment that is to replace its sources. It is on stable storage, under
// names that end in .cleaned. It takes effect when the log's manifest names it; the other steps do
// not matter for that.
//
//  1. The result is written and synced under names ending in .cleaned, and so is the directory.
//  2. Commit: one replacement of the manifest records that the result belongs to the log, possibly
//     not under its final name yet, and that the sources are obsolete.
//  3. Install: the names become .swap, the sources are removed, and the names become final, each on
//     stable storage before the next. The next open completes these steps if necessary.
//
// A crash before step 2 leaves .cleaned files that no manifest names, and all sources. A Kafka
// broker that takes over the directory at any time finds the steps of its own cleaner: it either
// drops the result and keeps the sources, or completes the replacement.
type Result struct {
	Base       int64 // of the first source, and the result's
	NextOffset int64 // after its last batch
	Size       int64 // bytes
	Sources    []*segment.Segment

	// Purged is the offset after the last tombstone or marker of the sources that the result lacks
	// without a trace; 0 means that there is none. A copy of the log that ends before it does not
	// receive the deletions and transaction ends of these records.
	Purged int64

	pass *Pass
	kept bool // a manifest on the disk may name it
}

// Commit calls write, which replaces the manifest. From then on the result's files are kept, also
// after an error: the manifest on the disk may name them.
func (r *Result) Commit(write func() error) error {
	r.kept = true
	return write()
}

// Install renames the result to its final names, calls remove for each source, and opens the
// result. After an error the log cannot be used until it is opened again.
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
		// The producer state at that offset is not needed any more.
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

// Suffixed returns fsys with suffix added to the name of every file, so that a segment uses its
// files under another name.
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
