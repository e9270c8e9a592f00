package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stratalog/strata/vfs"
)

// Restore copies the directory of a cluster that is not open, a backup say, to the directory to,
// which must not exist or be empty. from is only read, and may be kept for the next time. As with
// Cluster.Backup the copy has a mark until it is complete and on stable storage, and does not open
// before. What is in the files is not looked at: strata verify does that.
//
// Errors: a *DirectoryError if from is no cluster, an unfinished backup, or open; one matching
// fs.ErrExist if to is not empty; ctx's and those of the file system, nil being the operating
// system's.
func Restore(ctx context.Context, fsys vfs.FS, from, to string) (err error) {
	if fsys == nil {
		fsys = vfs.OS()
	}
	name := fmt.Sprintf("broker-%d", brokerID)
	root, t := filepath.Join(from, name), copyTarget{fsys, filepath.Join(to, name)}
	meta, err := checkDirectory(fsys, root, brokerID)
	if err != nil {
		return err
	}
	if meta == nil {
		return directoryError(from, ErrForeign, errors.New("there is no cluster in it"))
	}
	if within(to, from) {
		return fmt.Errorf("restore to %s: %w: it is inside of %s", to, fs.ErrInvalid, from)
	}
	lock := filepath.Join(root, ".lock")
	if _, err := fsys.Stat(lock); err == nil { // else nobody has ever opened it
		held, err := fsys.Lock(lock)
		if errors.Is(err, vfs.ErrLocked) {
			return directoryError(from, ErrLocked, err)
		} else if err != nil {
			return fmt.Errorf("restore %s: %w", from, err)
		}
		defer held.Close()
	}
	if err := t.begin(to); err != nil {
		return fmt.Errorf("restore to %s: %w", to, err)
	}
	err = copyTree(ctx, fsys, root, t.root)
	if err == nil {
		err = t.finish(fsys, root)
	}
	if err != nil {
		return fmt.Errorf("restore to %s: %w", to, errors.Join(err, t.undo()))
	}
	return nil
}

// copyTree copies what is in a broker's directory but for its lock and its identity, durably.
func copyTree(ctx context.Context, fsys vfs.FS, from, to string) error {
	entries, err := fsys.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case e.Name() == ".lock", e.Name() == metaPropertiesFile:
			continue
		case e.IsDir():
			if err = fsys.MkdirAll(target, 0o755); err == nil {
				err = copyTree(ctx, fsys, source, target)
			}
		default:
			err = copyFile(ctx, fsys, source, target)
		}
		if err != nil {
			return err
		}
	}
	return fsys.SyncDir(to)
}

// copyFile copies one file, a megabyte at a time, and syncs it.
func copyFile(ctx context.Context, fsys vfs.FS, from, to string) (err error) {
	in, err := fsys.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := fsys.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	size, err := in.Size()
	if err != nil {
		return err
	}
	buf := make([]byte, min(size, 1<<20))
	for pos := int64(0); pos < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := in.ReadAt(buf[:min(int64(len(buf)), size-pos)], pos)
		if err != nil && !(errors.Is(err, io.EOF) && n > 0) {
			return err
		}
		if _, err := out.WriteAt(buf[:n], pos); err != nil {
			return err
		}
		pos += int64(n)
	}
	return out.Sync()
}

// A copyTarget is a broker's directory that is being made as a copy of another.
type copyTarget struct {
	fsys vfs.FS
	root string
}

// begin makes the directory in dir, which must be vacant, with the mark of an unfinished copy.
func (t copyTarget) begin(dir string) error {
	entries, err := t.fsys.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("it is not empty: %w", fs.ErrExist)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := vfs.MakeDir(t.fsys, t.root, 0o755); err != nil {
		return err
	}
	err = vfs.WriteFile(t.fsys, filepath.Join(t.root, unfinishedFile), []byte("a copy that was interrupted; remove it\n"))
	if err != nil {
		err = errors.Join(err, t.undo())
	}
	return err
}

// finish makes the copy a cluster, the one in from: who it is, and then that it is whole.
func (t copyTarget) finish(fsys vfs.FS, from string) error {
	card, err := vfs.ReadFile(fsys, filepath.Join(from, metaPropertiesFile))
	if err != nil {
		return err
	}
	if err := vfs.WriteFile(t.fsys, filepath.Join(t.root, metaPropertiesFile), card); err != nil {
		return err
	}
	if err := t.fsys.Remove(filepath.Join(t.root, unfinishedFile)); err != nil {
		return err
	}
	return t.fsys.SyncDir(t.root)
}

// undo removes what was written, the mark last.
func (t copyTarget) undo() error {
	entries, err := t.fsys.ReadDir(t.root)
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
