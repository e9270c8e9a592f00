package transport

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp reports whether the other end of a socket was closed, even if there are unread bytes
// before its end.
func hungUp(socket syscall.Conn) (gone bool) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0)
		gone = err == nil && n > 0
	})
	return gone
}
