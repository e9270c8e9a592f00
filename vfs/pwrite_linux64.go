//go:build linux && (amd64 || arm64 || riscv64 || loong64) && !race

package vfs

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pwrite is unix.Pwrite with fewer calls in between: for writes of a few bytes they cost as much as
// the copying.
func pwrite(fd int, p []byte, off int64) (int, error) {
	n, _, errno := syscall.Syscall6(unix.SYS_PWRITE64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), uintptr(off), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
