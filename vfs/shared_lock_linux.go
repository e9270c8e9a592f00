package vfs

import "golang.org/x/sys/unix"

// sharedLockCommand takes a lock that belongs to the descriptor. A lock of the process would end
// when any of its descriptors of that file is closed.
const sharedLockCommand = unix.F_OFD_SETLK
