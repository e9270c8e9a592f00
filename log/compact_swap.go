package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// A compacted segment replaces its sources in four steps, each on stable storage before the next begins:
//
//  1. it is written and synced under names ending in .cleaned
//  2. the names become .swap: from now on it counts, whatever else is found
//  3. the sources are removed
//  4. the names become final
//
// A crash in 1 or 2 leaves a .cleaned file, and the sources are all there: the attempt is forgotten. A crash later leaves .swap files without a
// .cleaned one: steps 3 and 4 are done at the next open. Kafka uses the same names and rules, so that either repairs what the other left.
const (
	cleanedSuffix = ".cleaned"
	swapSuffix    = ".swap"
)

// The .log file comes last: its new name says that the others have theirs.
var segmentSuffixes = []string{segment.IndexSuffix, segment.TimeIndexSuffix, segment.TxnIndexSuffix, segment.LogSuffix}

// A suffixFS adds a suffix to the name of every file: a segment works on its files under another name.
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

// swap does steps 2 to 4 for the .cleaned files of a group. An error after the first source is removed leaves the log unusable until it is opened again:
// replace must see to that.
func (w *compactWriter) swap(group []*segment.Segment, next, size int64) error {
	base, begun := group[0].Base(), false
	err := renameFiles(w.fs, w.dir, base, cleanedSuffix, swapSuffix)
	if err == nil {
		err = w.replace(group, func() (*segment.Segment, error) {
			begun = true
			return w.install(group, next, size)
		})
	}
	if err != nil && !begun {
		// The sources stay: nothing may be left that would replace them at the next open, when they have changed.
		err = errors.Join(err, removeFiles(w.fs, w.dir, base, swapSuffix), w.fs.SyncDir(w.dir), removeFiles(w.fs, w.dir, base, cleanedSuffix))
	}
	return err
}

func (w *compactWriter) install(group []*segment.Segment, next, size int64) (*segment.Segment, error) {
	if w.declare != nil {
		if err := w.declare(group, w.out); err != nil {
			return nil, err
		}
	}
	remove := w.remove
	if remove == nil {
		remove = (*segment.Segment).Remove
	}
	for _, s := range group {
		if err := remove(s); err != nil {
			return nil, err
		}
		if s != group[0] { // the state of producers there is not asked for any more
			if err := removeSnapshot(w.fs, w.dir, s.Base()); err != nil {
				return nil, err
			}
		}
	}
	if err := w.fs.SyncDir(w.dir); err != nil {
		return nil, err
	}
	base := group[0].Base()
	if err := renameFiles(w.fs, w.dir, base, swapSuffix, ""); err != nil {
		return nil, err
	}
	return segment.Open(w.dir, base, w.segment, segment.OpenOptions{Clean: true, NextOffset: next, Size: size})
}

// removeSnapshot removes the snapshot of producers at offset, if there is one.
func removeSnapshot(fsys vfs.FS, dir string, offset int64) error {
	if err := fsys.Remove(filePath(dir, offset, ".snapshot")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
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

// finishCompaction completes or forgets what a crash left of a compaction, and removes files that were waiting to be deleted. It must
// run before the segments of dir are listed. Kafka: LogLoader, steps 1 and 2.
func finishCompaction(fsys vfs.FS, dir string) error {
	left, err := leftovers(fsys, dir)
	if err != nil {
		return fmt.Errorf("finish compaction: %w", err)
	}
	if err := left.finish(); err != nil {
		return fmt.Errorf("finish compaction in %s: %w", dir, err)
	}
	return nil
}

// leftover is what a directory holds, by kind; bases ascending.
type leftover struct {
	fs       vfs.FS
	dir      string
	deleted  []string
	cleaned  []int64
	swap     []int64
	ordinary []int64 // .log files, and snapshots
}

func leftovers(fsys vfs.FS, dir string) (*leftover, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	l := &leftover{fs: fsys, dir: dir}
	for _, e := range entries {
		name := e.Name()
		base, err := strconv.ParseInt(strings.SplitN(name, ".", 2)[0], 10, 64)
		if err != nil || base < 0 || e.IsDir() {
			continue
		}
		switch {
		case strings.HasSuffix(name, segment.DeletedSuffix):
			l.deleted = append(l.deleted, filepath.Join(dir, name))
		case strings.HasSuffix(name, cleanedSuffix):
			l.cleaned = append(l.cleaned, base)
		case strings.HasSuffix(name, swapSuffix):
			l.swap = append(l.swap, base)
		case strings.HasSuffix(name, segment.LogSuffix):
			l.ordinary = append(l.ordinary, base)
		}
	}
	l.cleaned, l.swap = slices.Compact(l.cleaned), slices.Compact(l.swap) // ReadDir sorts
	return l, nil
}

func (l *leftover) finish() error {
	if err := l.forget(); err != nil {
		return err
	}
	if err := l.complete(); err != nil {
		return err
	}
	for _, name := range l.deleted {
		if err := l.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// forget removes unfinished results. The .cleaned files are the sign that they are unfinished, so they go last.
func (l *leftover) forget() error {
	if len(l.cleaned) == 0 {
		return nil
	}
	n := 0
	for n < len(l.swap) && l.swap[n] < l.cleaned[0] {
		n++
	}
	for _, base := range l.swap[n:] {
		if err := removeFiles(l.fs, l.dir, base, swapSuffix); err != nil {
			return err
		}
	}
	l.swap = l.swap[:n]
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	for _, base := range l.cleaned {
		if err := removeFiles(l.fs, l.dir, base, cleanedSuffix); err != nil {
			return err
		}
	}
	return l.fs.SyncDir(l.dir)
}

// complete removes what .swap segments replace and gives them their names.
func (l *leftover) complete() error {
	for _, base := range l.swap {
		next, size, err := endOfLogFile(l.fs, filePath(l.dir, base, segment.LogSuffix)+swapSuffix, base)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the .log file has its name already: only indexes are left to follow
		case err != nil:
			return err
		default:
			for _, old := range l.ordinary {
				if old != base && (old < base || old >= next) {
					continue
				}
				if err := removeFiles(l.fs, l.dir, old, ""); err != nil {
					return err
				}
				if old == base {
					continue
				}
				if err := removeSnapshot(l.fs, l.dir, old); err != nil {
					return err
				}
			}
			if err := l.fs.SyncDir(l.dir); err != nil {
				return err
			}
			if err := declareSwap(l.fs, l.dir, manifest.Segment{Base: base, Size: size}, next); err != nil {
				return err
			}
		}
		if err := renameFiles(l.fs, l.dir, base, swapSuffix, ""); err != nil {
			return err
		}
	}
	return nil
}

// declareSwap makes the state file say that now has taken the place of the segments from its base up to next: the crash may have come before
// the log did so itself.
func declareSwap(fsys vfs.FS, dir string, now manifest.Segment, next int64) error {
	st, known, err := readState(fsys, dir)
	if err != nil || !known {
		return err
	}
	var segments []manifest.Segment
	for _, s := range st.Segments {
		switch {
		case s.Base == now.Base:
			segments = append(segments, now)
		case s.Base < now.Base || s.Base >= next:
			segments = append(segments, s)
		}
	}
	st.Segments = segments
	return storeState(fsys, dir, st)
}

// endOfLogFile returns the offset after the last whole batch of a .log file, going from header to header, and its size.
func endOfLogFile(fsys vfs.FS, name string, base int64) (next, size int64, err error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size, err = f.Size(); err != nil {
		return 0, 0, err
	}
	next = base
	var head [record.HeaderSize]byte
	for pos := int64(0); pos+record.HeaderSize <= size; {
		if _, err := f.ReadAt(head[:], pos); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		b, err := record.ParseHeader(head[:])
		if err != nil || b.BaseOffset < next || b.BaseOffset-base > math.MaxInt32 || pos+int64(b.Size()) > size {
			break // the segment's own recovery judges that
		}
		next = b.NextOffset()
		pos += int64(b.Size())
	}
	return next, size, nil
}
