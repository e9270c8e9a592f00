package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// ReadFile returns the content of a file of at most MaxReadFile bytes. Errors: ErrTooLarge,
// ErrNotRegular, and errors of the file system.
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

// RealPathIn is fsys.RealPath of a name in a directory whose own real path is known. Where the file
// system supports it, only name itself is resolved, and no directory above it.
func RealPathIn(fsys FS, realDir, name string) (string, error) {
	if r, ok := fsys.(linkChecker); ok {
		if link, err := r.isLink(name); err != nil || !link {
			return filepath.Join(realDir, filepath.Base(name)), err
		}
	}
	return fsys.RealPath(name)
}

// linkChecker is implemented by file systems that can recognise symbolic links.
type linkChecker interface {
	isLink(name string) (bool, error) // name must exist
}

func tooLarge(size int64) error { return fmt.Errorf("%w: %d bytes", ErrTooLarge, size) }

func readAll(f File) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > MaxReadFile {
		return nil, tooLarge(size)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}

// ReadContent is FS.ReadDir without a lost+found that the file system made: a directory that is
// empty, or that this process may not read.
func ReadContent(fsys FS, dir string) ([]fs.DirEntry, error) {
	entries, err := fsys.ReadDir(dir)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		if e.Name() != "lost+found" || !e.IsDir() {
			return false
		}
		found, err := fsys.ReadDir(filepath.Join(dir, e.Name()))
		return err == nil && len(found) == 0 || errors.Is(err, fs.ErrPermission)
	}), err
}

// WriteFile makes name a file with the given content, in one step that survives power loss.
// Afterwards, and after a crash at any time, the file has its old content or all of data, never a
// part of it. When WriteFile returns nil, it has data.
//
// It writes a file name+".tmp" first, which a crash may leave behind and the next WriteFile
// replaces. Concurrent calls for one name need a lock of the caller. If it fails, the file has its
// old content; after a failed SyncDir it may have either.
func WriteFile(fsys FS, name string, data []byte) error {
	return WriteFileBeside(fsys, name, data, nil)
}

// WriteFileBeside is WriteFile, but calls beside while it writes and syncs the content, and waits
// for it before the file gets its name. It is for data that must be on stable storage before the
// file exists, and that needs another sync. If beside fails, the file is not replaced.
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
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// maxName is how long a name may be on most file systems, in bytes.
const maxName = 255

// WithSuffix returns name followed by suffix. The last element of name is cut if the result would
// be too long for a file system. So a name that has to be unique needs a suffix that is.
func WithSuffix(name, suffix string) string {
	dir, base := filepath.Split(name)
	if room := max(maxName-len(suffix), 0); len(base) > room {
		base = strings.ToValidUTF8(base[:room], "")
	}
	return dir + base + suffix
}

// MakeDir is MkdirAll with a result that survives power loss: it syncs the parents of name and of
// the directories that it creates.
func MakeDir(fsys FS, name string, perm fs.FileMode) error {
	name = filepath.Clean(name)
	parent := filepath.Dir(name)
	switch fi, err := fsys.Stat(name); {
	case err == nil && !fi.IsDir():
		return &fs.PathError{Op: "mkdir", Path: name, Err: errNotDir}
	case err == nil && parent == name:
		return nil // the root, or ".": it has no entry that we could sync
	case err == nil:
		// The process that made it may have been killed before the sync. The parent's own entry is
		// stable: it was synced before name was made.
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
