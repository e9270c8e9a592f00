package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/stratalog/strata/vfs"
)

// Restore copies the directory of a cluster that is not open, such as a backup, to the directory
// to, which must not exist or must be empty. from is only read, and can be restored again later. As
// with Cluster.Backup, the copy carries a mark and cannot be opened until it is complete and on
// stable storage. Restore does not verify the contents of files: strata verify does. A nil fsys
// means the operating system's.
//
// Errors: the errors of CheckBackup, with nothing written; a *DirectoryError if from is not a
// cluster, is an unfinished backup, is open or was opened meanwhile, or has anything but
// directories and regular files, since links are not followed; an error matching fs.ErrExist if to
// is not empty, or if a cluster or another copy is created there meanwhile, which is left as it is;
// the context's error; and errors of the file system.
func Restore(ctx context.Context, fsys vfs.FS, from, to string) (err error) {
	if fsys == nil {
		fsys = vfs.OS()
	}
	cfg := Config{FS: fsys, Dir: from}
	all, err := cfg.locations()
	if err != nil {
		return err
	}
	claims, clusterID, err := cfg.checkLocations(all)
	if err != nil {
		return err
	}
	if clusterID == "" {
		return directoryError(from, ErrForeign, errors.New("there is no cluster in it"))
	}
	if _, err := CheckBackup(fsys, from); err != nil {
		return err
	}
	if within(fsys, to, from) {
		return fmt.Errorf("restore to %s: %w: it is inside of %s", to, fs.ErrInvalid, from)
	}
	targets := copyTargets{}
	var free []string // directories that were never opened, so that there is no lock to hold
	for _, cl := range claims {
		if cl.failed != nil { // a copy is of all of it
			return cl.failed
		}
		if cl.meta == nil {
			return directoryError(cl.root, ErrMissing, nil)
		}
		targets[cl.id] = copyTarget{fsys, filepath.Join(to, filepath.Base(cl.root))}
		switch release, err := holdClosed(fsys, cl.root); {
		case err != nil:
			return err
		case release == nil:
			free = append(free, cl.root)
		default:
			defer release()
		}
	}
	if cfg.wasOvertaken(claims) {
		return directoryError(from, ErrLocked, errors.New("it was opened while it was looked at"))
	}
	if err := targets.begin(fsys, to); err != nil {
		return fmt.Errorf("restore to %s: %w", to, err)
	}
	for _, cl := range claims {
		if err == nil {
			err = copyTree(ctx, fsys, cl.root, targets[cl.id].root)
		}
	}
	for _, root := range free {
		if err == nil {
			err = stillFree(fsys, root)
		}
	}
	if err == nil {
		err = targets.finish(func(broker int32) (vfs.FS, string) {
			at := slices.IndexFunc(claims, func(cl claim) bool { return cl.id == broker })
			return fsys, claims[at].root
		})
	}
	if err != nil {
		return fmt.Errorf("restore to %s: %w", to, errors.Join(err, targets.undo()))
	}
	return nil
}

// holdClosed makes sure that a broker's directory is not open, and is not opened before release.
// release is nil for a directory without a lock, such as a backup: holdClosed creates nothing in
// it. So an open meanwhile is possible, and stillFree detects it afterwards.
func holdClosed(fsys vfs.FS, root string) (release func(), err error) {
	lock := filepath.Join(root, ".lock")
	switch _, err := fsys.Stat(lock); {
	case errors.Is(err, fs.ErrNotExist): // it was never opened
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("restore %s: is it in use? %w", root, err)
	}
	held, err := fsys.Lock(lock)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, directoryError(root, ErrLocked, err)
	} else if err != nil {
		return nil, fmt.Errorf("restore %s: %w", root, err)
	}
	return func() { _ = held.Close() }, nil
}

// stillFree returns nil if a broker's directory that had no lock was not opened: an open creates
// the lock before it changes anything else, and never removes it.
func stillFree(fsys vfs.FS, root string) error {
	switch _, err := fsys.Stat(filepath.Join(root, ".lock")); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("restore %s: was it opened meanwhile? %w", root, err)
	}
	return directoryError(root, ErrLocked, errors.New("it was opened while it was copied"))
}

// copyTree durably copies the content of a broker's directory except its lock and its identity.
func copyTree(ctx context.Context, fsys vfs.FS, from, to string) error {
	entries, err := vfs.ReadContent(fsys, from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case e.Name() == ".lock", e.Name() == metaPropertiesFile, e.Name() == reserveFile:
			continue
		case e.IsDir():
			if err = fsys.MkdirAll(target, 0o700); err == nil {
				err = copyTree(ctx, fsys, source, target)
			}
		case !e.Type().IsRegular():
			// A symbolic link in a foreign backup can name any file that this process may read;
			// opening a pipe waits for ever.
			err = directoryError(from, ErrForeign, fmt.Errorf("%s is not a regular file: %v", e.Name(), e.Type()))
		default:
			err = copyFile(ctx, fsys, source, target)
		}
		if err != nil {
			return err
		}
	}
	return fsys.SyncDir(to)
}

// maxCopied is above the largest file that a broker writes: a segment of 2 GiB with reserved space
// behind it.
const maxCopied = 2<<30 + 64<<20

// copyFile copies one file, a megabyte at a time, and syncs it.
func copyFile(ctx context.Context, fsys vfs.FS, from, to string) (err error) {
	in, err := fsys.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := fsys.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	size, err := in.Size()
	if err != nil {
		return err
	}
	if size > maxCopied { // a sparse one, as a rule
		return directoryError(filepath.Dir(from), ErrForeign, fmt.Errorf("%s has %d bytes, and no file of a broker has more than %d", filepath.Base(from), size, int64(maxCopied)))
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
