package vfs

import (
	"errors"
	"io/fs"
)

// Clone makes newname, which must not exist, a file of its own with the content of oldname, without
// copying: both share their blocks on the disk until one is written to (a reflink). It is not on
// stable storage until newname has been synced. It fails with an error matching
// errors.ErrUnsupported, and leaves nothing, where the file system cannot, and also between two
// file systems: then the content has to be copied.
func Clone(fsys FS, oldname, newname string) error {
	if c, ok := fsys.(cloner); ok {
		return c.clone(oldname, newname)
	}
	return &fs.PathError{Op: "clone", Path: newname, Err: errors.ErrUnsupported}
}

// cloner is implemented by file systems of this package that may have reflinks.
type cloner interface {
	clone(oldname, newname string) error
}
