package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/stratalog/strata/vfs"
)

// copyTargets has the directories of a cluster that is being created as a copy of another, by
// broker. As long as one of them has the mark of an unfinished copy the cluster does not open. The
// controller's mark, without which no cluster opens, is removed last.
type copyTargets map[int32]copyTarget

// begin creates the directories in dir, which must be vacant, with their marks. It does not change
// a directory that another process creates there meanwhile.
func (ts copyTargets) begin(fsys vfs.FS, dir string) error {
	if dir == "" { // which some would take for the working directory
		return fmt.Errorf("%w: no directory is named", fs.ErrInvalid)
	}
	entries, err := vfs.ReadContent(fsys, dir)
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("it is not empty: %w", fs.ErrExist)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	begun := copyTargets{}
	for _, id := range slices.Sorted(maps.Keys(ts)) { // as a founding does: the owner of the first gets the rest
		if err := ts[id].begin(); err != nil {
			return errors.Join(err, begun.undo())
		}
		begun[id] = ts[id]
	}
	return nil
}

// finish makes the copy a cluster: it writes the brokers' identities, and then removes the marks.
// source returns the directory of a broker's original.
func (ts copyTargets) finish(source func(broker int32) (vfs.FS, string)) error {
	for id, t := range ts {
		if err := t.identify(source(id)); err != nil {
			return err
		}
	}
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(ts))) {
		if err := ts[id].finish(); err != nil {
			return err
		}
	}
	return nil
}

// undo removes the written files.
func (ts copyTargets) undo() error {
	var errs []error
	for _, t := range ts {
		errs = append(errs, t.undo())
	}
	return errors.Join(errs...)
}

// A copyTarget is a broker's directory that is being made as a copy of another.
type copyTarget struct {
	fsys vfs.FS
	root string
}

// begin creates the directory, with the mark of an unfinished copy. The directory gets its name
// together with the mark, and replaces only an empty one. If a cluster or another copy is created
// there meanwhile, begin fails with an error matching fs.ErrExist. A later founding there finds the
// mark.
func (t copyTarget) begin() error {
	made := vfs.WithSuffix(t.root, ".unfinished") // no broker's name
	err := vfs.MakeDir(t.fsys, made, 0o700)
	if err == nil {
		err = vfs.WriteFile(t.fsys, filepath.Join(made, unfinishedFile), []byte("a copy that was interrupted; remove it\n"))
	}
	if err == nil {
		err = t.fsys.Rename(made, t.root)
		if _, there := t.fsys.Stat(t.root); err != nil && there == nil {
			err = fmt.Errorf("created by another copy or cluster meanwhile: %w: %w", fs.ErrExist, err)
		}
	}
	if err != nil {
		return errors.Join(err, t.fsys.RemoveAll(made))
	}
	if err := t.fsys.SyncDir(filepath.Dir(t.root)); err != nil {
		return errors.Join(err, t.undo())
	}
	return nil
}

// identify gives the copy the identity of the broker in from.
func (t copyTarget) identify(fsys vfs.FS, from string) error {
	card, err := vfs.ReadFile(fsys, filepath.Join(from, metaPropertiesFile))
	if err != nil {
		return err
	}
	return vfs.WriteFile(t.fsys, filepath.Join(t.root, metaPropertiesFile), card)
}

// finish takes the mark away.
func (t copyTarget) finish() error {
	if err := t.fsys.Remove(filepath.Join(t.root, unfinishedFile)); err != nil {
		return err
	}
	return t.fsys.SyncDir(t.root)
}

// undo removes the written files, the mark last.
func (t copyTarget) undo() error {
	entries, err := t.fsys.ReadDir(t.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was not begun
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() != unfinishedFile {
			errs = append(errs, t.fsys.RemoveAll(filepath.Join(t.root, e.Name())))
		}
	}
	if err := errors.Join(append(errs, t.fsys.SyncDir(t.root))...); err != nil {
		return err
	}
	return errors.Join(t.fsys.RemoveAll(t.root), t.fsys.SyncDir(filepath.Dir(t.root)))
}
