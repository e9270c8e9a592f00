//go:build !windows && (!unix || aix || solaris)

package vfs

import "os"

// lockFile does nothing: these systems have no lock that belongs to an open file. The registry
// still keeps one process from locking twice.
func lockFile(*os.File) error { return nil }

// unlockFile does nothing.
func unlockFile(*os.File) error { return nil }
