package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// FS is a file system. Every file access of the module goes through one. All methods are safe for
// concurrent use. Names are operating system paths; errors match fs.ErrNotExist, fs.ErrExist and
// the like, and are usually *fs.PathError.
type FS interface {
	// OpenFile opens name with the flags of package os (os.O_RDWR, os.O_CREATE, os.O_EXCL,
	// os.O_TRUNC; never os.O_APPEND: writers pass positions).
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Rename replaces newname if it exists. It survives power loss only after SyncDir of the
	// directory (of both, if they differ).
	Rename(oldname, newname string) error
	// Link makes newname a hard link to oldname.
	Link(oldname, newname string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes name and what is below it; it is no error if there is nothing.
	RemoveAll(name string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	MkdirAll(name string, perm fs.FileMode) error
	Stat(name string) (fs.FileInfo, error)
	// Chtimes sets the modification time.
	Chtimes(name string, mtime time.Time) error
	// SyncDir makes the entries of a directory (creations, renames, removals) survive power loss.
	SyncDir(name string) error
	// Lock takes an exclusive lock on the file name, creating it; the lock ends with Close or with
	// the process. It fails at once with ErrLocked if another holder, in this process or another,
	// has it.
	Lock(name string) (io.Closer, error)
	// RealPath returns the one name that all ways to write name have in common: absolute, cleaned,
	// without symbolic links. Name must exist.
	RealPath(name string) (string, error)
	// BootID identifies the current run of the machine: if it has changed, unsynced data may be
	// gone. "" if unknown.
	BootID() string
}

// File is an open file. ReadAt, WriteAt and the rest are safe for concurrent use; Close must come
// last. WriteAt past the end extends the file (a gap reads as zeros).
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// WritevAt writes the buffers one after the other from off, in one call where the system has
	// one. Semantics are those of WriteAt. bufs itself may be modified; the bytes are not.
	WritevAt(bufs [][]byte, off int64) (int, error)
	Name() string
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes data and size survive power loss (fdatasync where there is one). A failed Sync
	// must not be retried on the same file: the system may have dropped the pages.
	Sync() error
	// Allocate reserves n bytes from off and extends the size to off+n if that is larger; the new
	// bytes read as zeros. It returns an error matching errors.ErrUnsupported where the file system
	// cannot.
	Allocate(off, n int64) error
}

// ErrLocked is returned by Lock if another holder has the lock.
var ErrLocked = errors.New("vfs: locked by another holder")
