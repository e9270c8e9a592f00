package vfs

// A SpaceFS is an FS that knows how much it holds.
type SpaceFS interface {
	FS

	// Space returns the size of the file system that path is in, and what is free of it for who has
	// no privileges, in bytes. The error may match errors.ErrUnsupported.
	Space(path string) (total, free int64, err error)
}

// Space implements SpaceFS.
func (osFS) Space(path string) (total, free int64, err error) { return space(path) }
