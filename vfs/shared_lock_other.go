//go:build !windows && (!unix || aix || solaris)

package vfs

import (
	"errors"
	"os"
)

// shareFile says that these systems cannot tell.
func shareFile(*os.File) error { return errors.ErrUnsupported }
