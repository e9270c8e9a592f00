package log

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/vfs"
)

// A moment is the disk after a crash before one call.
type moment struct {
	disk   *vfs.MemFS
	before vfs.Event
}

// moments runs work. It returns the disks that crash makes of disk before each call that changes
// it. Rolled segments are synced in the background, so calls overlap, and one may begin as work
// ends.
func moments(disk *vfs.MemFS, crash func(before vfs.Event) []*vfs.MemFS, work func()) []moment {
	var mu sync.Mutex // guards all, and allows one crash at a time
	var all []moment
	stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange == 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, left := range crash(e) {
			all = append(all, moment{disk: left, before: e})
		}
	}})
	work()
	stop()
	mu.Lock()
	defer mu.Unlock()
	return all
}

// randomCrashes returns a crash for moments: power cuts by seed, and a kill.
func randomCrashes(disk *vfs.MemFS, seeds int) func(vfs.Event) []*vfs.MemFS {
	return func(vfs.Event) (left []*vfs.MemFS) {
		for seed := range uint64(seeds) {
			left = append(left, disk.Crash(seed))
		}
		return append(left, disk.Kill())
	}
}

// modelledCrashes returns a crash for moments: the power cuts of crashModes, and a kill.
func modelledCrashes(disk *vfs.MemFS, seeds int) func(vfs.Event) []*vfs.MemFS {
	return func(vfs.Event) (left []*vfs.MemFS) {
		for _, m := range crashModes(seeds) {
			left = append(left, disk.CrashWith(m))
		}
		return append(left, disk.Kill())
	}
}

// failures counts the operations of fsys that fail with err, until stop is called.
func failures(fsys *vfs.MemFS, err error) (n *atomic.Int64, stop func()) {
	n = new(atomic.Int64)
	return n, fsys.Observe(vfs.Observer{After: func(_ vfs.Event, got error) {
		if errors.Is(got, err) {
			n.Add(1)
		}
	}})
}
