package vfs

import (
	"errors"
	"io/fs"
)

// Clone creates the file newname, which must not exist, with the content of oldname, without
// copying: both files share their blocks on the disk until one is written to (a reflink). It is not
// on stable storage until newname has been synced. If the file system does not support it, or
// between two file systems, Clone fails with an error matching errors.ErrUnsupported and leaves no
// file: then the content has to be copied.
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
