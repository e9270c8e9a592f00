//go:build unix && !linux && !aix && !solaris

package vfs

import "golang.org/x/sys/unix"

// sharedLockCommand takes a lock of the process.
const sharedLockCommand = unix.F_SETLK
