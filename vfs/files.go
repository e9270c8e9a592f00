package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// ReadFile returns the content of a file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	if r, ok := fsys.(wholeReader); ok {
		return r.readFile(name)
	}
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	b, err := readAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return b, nil
}

// wholeReader is implemented by file systems of this package that read a small file with fewer
// calls than opening a File takes. A start reads several files of each log.
type wholeReader interface {
	readFile(name string) ([]byte, error)
}

// RealPathIn is fsys.RealPath of a name in a directory whose own real path is known: one look at
// the name itself, where the file system can, instead of one at each directory above it.
func RealPathIn(fsys FS, realDir, name string) (string, error) {
	if r, ok := fsys.(linkTeller); ok {
		if link, err := r.isLink(name); err != nil || !link {
			return filepath.Join(realDir, filepath.Base(name)), err
		}
	}
	return fsys.RealPath(name)
}

// linkTeller is implemented by file systems that can tell whether a name,
// which must exist, is a symbolic link.
type linkTeller interface {
	isLink(name string) (bool, error)
}

func readAll(f File) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}

// WriteFile makes name a file with the given content, as one step that survives power loss:
// afterwards, and after a crash at any time, there is either what was there before or all of data,
// never a part of it. When it returns nil it is the latter.
//
// It goes through a file name+".tmp", which a crash may leave behind and the next WriteFile
// replaces. Concurrent calls for one name need a lock of the caller's. If it fails the old content
// is still there, except that after a failed SyncDir it may be either.
func WriteFile(fsys FS, name string, data []byte) error {
	return WriteFileBeside(fsys, name, data, nil)
}

// WriteFileBeside is WriteFile that calls beside while the content is written and synced, and waits
// for it before the file gets its name: for what has to be on stable storage before the file is
// there, and takes the time of another sync. If beside fails nothing was replaced.
func WriteFileBeside(fsys FS, name string, data []byte, beside func() error) error {
	tmp := name + ".tmp"
	var wg sync.WaitGroup
	var besideErr error
	if beside != nil {
		wg.Go(func() { besideErr = beside() })
	}
	err := writeSynced(fsys, tmp, data)
	if wg.Wait(); besideErr != nil {
		err = besideErr
	}
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		if rmErr := fsys.Remove(tmp); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

func writeSynced(fsys FS, name string, data []byte) error {
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// MakeDir is MkdirAll whose result survives power loss: it syncs the parents of name and of the
// directories it creates.
func MakeDir(fsys FS, name string, perm fs.FileMode) error {
	name = filepath.Clean(name)
	parent := filepath.Dir(name)
	switch fi, err := fsys.Stat(name); {
	case err == nil && !fi.IsDir():
		return &fs.PathError{Op: "mkdir", Path: name, Err: errNotDir}
	case err == nil && parent == name:
		return nil // the root, or ".": it has no entry that we could sync
	case err == nil:
		// Whoever made it may have been killed before syncing. The parent's own entry is stable: it
		// was synced before name was made.
		if err := fsys.SyncDir(parent); !errors.Is(err, fs.ErrPermission) {
			return err
		}
		return nil // an ancestor that is not ours
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if parent != name {
		if err := MakeDir(fsys, parent, perm); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(name, perm); err != nil {
		return err
	}
	return fsys.SyncDir(parent)
}

// removeAll is RemoveAll, step by step.
func removeAll(fsys FS, name string) error {
	fi, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return removeTree(fsys, name, fi.IsDir())
}

func removeTree(fsys FS, name string, isDir bool) error {
	if isDir {
		entries, err := fsys.ReadDir(name)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := removeTree(fsys, filepath.Join(name, e.Name()), e.IsDir()); err != nil {
				return err
			}
		}
	}
	if err := fsys.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
