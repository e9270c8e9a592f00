package vfs

// A SpaceFS is an FS that reports its disk space.
type SpaceFS interface {
	FS

	// Space returns the size of the file system of path, and its free space for unprivileged users,
	// in bytes. The error may match errors.ErrUnsupported.
	Space(path string) (total, free int64, err error)
}

// Space implements SpaceFS.
func (osFS) Space(path string) (total, free int64, err error) { return space(path) }
