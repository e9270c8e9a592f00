//go:build linux && (race || !(amd64 || arm64 || riscv64 || loong64))

package vfs

import "golang.org/x/sys/unix"

func pwrite(fd int, p []byte, off int64) (int, error) { return unix.Pwrite(fd, p, off) }
