//go:build !linux

package transport

import "syscall"

// hungUp returns false: this system does not report that the other end of a socket was closed
// before everything is read.
func hungUp(syscall.Conn) bool { return false }
