package vfs

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// quick is what mapping a chunk as one page may take. As small pages it takes some 0.5 ms.
	quick = time.Millisecond
	// retryAfter is how many chunks are mapped as small pages after one took longer.
	retryAfter = 256
)

// smallPages is how many chunks are still to be mapped as small pages.
var smallPages atomic.Int64

// mapChunk returns memory from the system, nil if it has none. It is mapped at once: pages that are
// mapped one by one, when they are written to for the first time, take longer than writing to them.
// One page of the chunk's size takes a third of the time of small ones, or, where the system has to
// make room for it, or to get it from the host of a virtual machine, ten times as long.
func mapChunk() []byte {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	start, err := unix.MmapPtr(-1, 0, nil, 2*chunkBytes, prot, flags)
	if err != nil {
		return nil
	}
	// Only the part that is aligned is kept.
	before := -uintptr(start) % chunkBytes
	_ = unix.MunmapPtr(unsafe.Add(start, before+chunkBytes), chunkBytes-before)
	if before > 0 {
		_ = unix.MunmapPtr(start, before)
	}
	mem := unsafe.Slice((*byte)(unsafe.Add(start, before)), chunkBytes)
	large := smallPages.Add(-1) < 0
	if large {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
	began := now()
	_ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE) // before Linux 5.14 pages are mapped when they are used
	if large {
		smallPages.Store(0)
		if now()-began > quick {
			smallPages.Store(retryAfter)
		}
	}
	return mem
}

// now reads a clock that runs in a testing/synctest bubble, too.
func now() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano())
}

func unmapChunk(mem []byte) { _ = unix.MunmapPtr(unsafe.Pointer(&mem[0]), chunkBytes) }
