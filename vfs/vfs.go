package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// An FS is a file system. Every file access of the module goes through one. All methods are safe
// for concurrent use. Names are operating system paths. Errors match fs.ErrNotExist, fs.ErrExist
// and the like, and are usually *fs.PathError.
type FS interface {
	// OpenFile opens name with the flags of package os (os.O_RDWR, os.O_CREATE, os.O_EXCL,
	// os.O_TRUNC; never os.O_APPEND: writers pass positions). It does not wait, and fails with
	// ErrNotRegular if name is a directory, a pipe, a socket or a device.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Rename replaces newname if it exists. It survives power loss only after SyncDir of the
	// directory (of both, if they differ).
	Rename(oldname, newname string) error
	// Link makes newname a hard link to oldname.
	Link(oldname, newname string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes name and everything below it; a missing name is no error.
	RemoveAll(name string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	MkdirAll(name string, perm fs.FileMode) error
	Stat(name string) (fs.FileInfo, error)
	// Chtimes sets the modification time.
	Chtimes(name string, mtime time.Time) error
	// SyncDir makes the entries of a directory (creations, renames, removals) survive power loss.
	SyncDir(name string) error
	// Lock takes an exclusive lock on the file name, and creates the file if needed; the lock ends
	// with Close or with the process. It fails at once with ErrLocked if another holder, in this
	// process or another, has it.
	Lock(name string) (io.Closer, error)
	// RealPath returns the canonical form of name, which is the same for all paths of the file:
	// absolute, cleaned, without symbolic links. name must exist.
	RealPath(name string) (string, error)
	// BootID identifies the current run of the machine: if it has changed, unsynced data may be
	// lost. It is "" if unknown.
	BootID() string
}

// A File is an open file. Its methods are safe for concurrent use; Close must come last. WriteAt
// past the end extends the file (a gap reads as zeros).
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
	// Sync makes data and size survive power loss (fdatasync, where there is one). A failed Sync
	// must not be retried on the same file: the system may have dropped the pages.
	Sync() error
	// Allocate reserves n bytes from off and extends the size to off+n if that is larger; the new
	// bytes read as zeros. It returns an error matching errors.ErrUnsupported if the file system
	// does not support it.
	Allocate(off, n int64) error
}

// ErrNotRegular is matched by the error of opening a directory, a pipe, a socket or a device.
var ErrNotRegular = errors.New("vfs: not a regular file")

// ErrTooLarge is matched by the error of ReadFile for a file of more than MaxReadFile bytes.
var ErrTooLarge = errors.New("vfs: file is too large to be read at once")

// MaxReadFile is the largest file that ReadFile reads, in bytes. A sparse file may be larger than
// the memory.
const MaxReadFile = 512 << 20

// ErrLocked is returned by Lock if another holder has the lock.
var ErrLocked = errors.New("vfs: locked by another holder")
