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

// Restore copies the directory of a cluster that is not open, a backup say, to the directory to,
// which must not exist or be empty. from is only read, and may be kept for the next time. As with
// Cluster.Backup the copy has a mark until it is complete and on stable storage, and does not open
// before. What is in the files is not looked at: strata verify does that.
//
// Errors: a *DirectoryError if from is no cluster, an unfinished backup, or open, or was opened
// meanwhile; one matching fs.ErrExist if to is not empty, or if a cluster is founded or another
// copy is made there meanwhile, which is left as it is; ctx's and those of the file system, nil
// being the operating system's.
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
	if within(fsys, to, from) {
		return fmt.Errorf("restore to %s: %w: it is inside of %s", to, fs.ErrInvalid, from)
	}
	targets := copyTargets{}
	var free []string // directories that nobody has opened, so that there is nothing to hold
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
// That is nil for a directory without a lock, as a backup is: nothing is made in it, so whoever
// opens it meanwhile is not kept from that, and stillFree finds out afterwards.
func holdClosed(fsys vfs.FS, root string) (release func(), err error) {
	lock := filepath.Join(root, ".lock")
	switch _, err := fsys.Stat(lock); {
	case errors.Is(err, fs.ErrNotExist): // nobody has ever opened it
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

// stillFree returns nil if nobody has opened a broker's directory which had no lock: the lock is
// made before anything else is changed, and never removed.
func stillFree(fsys vfs.FS, root string) error {
	switch _, err := fsys.Stat(filepath.Join(root, ".lock")); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("restore %s: was it opened meanwhile? %w", root, err)
	}
	return directoryError(root, ErrLocked, errors.New("it was opened while it was copied"))
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
