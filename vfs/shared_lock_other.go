//go:build !windows && (!unix || aix || solaris)

package vfs

import (
	"errors"
	"os"
)

// shareFile is not supported on these systems.
func shareFile(*os.File) error { return errors.ErrUnsupported }
