package vfs

import "golang.org/x/sys/unix"

// sharedLockCommand takes a lock that belongs to the descriptor. One of the process would go with
// the first descriptor of that file that anybody closes.
const sharedLockCommand = unix.F_OFD_SETLK
