// Package struggle distinguishes a disk on which all calls fail from one with a single failure.
package struggle

import (
	"sync"
	"sync/atomic"
)

// A Watch records the results of calls of a disk. The zero value is ready, and takes eight bytes as
// long as nothing fails. Safe for concurrent use.
type Watch struct {
	failures atomic.Pointer[failures] // since the last call that worked; nil: none
}

// failures are what has failed.
type failures struct {
	mu      sync.Mutex // guards the fields below
	err     error      // of the last one
	fresh   bool       // since the last look
	earlier bool       // in the interval before
}

// Failed notes that a call has failed.
func (w *Watch) Failed(err error) {
	f := w.failures.Load()
	for f == nil {
		w.failures.CompareAndSwap(nil, new(failures))
		f = w.failures.Load()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.fresh = err, true
}

// Worked notes that a call has not failed. It costs next to nothing if none has before.
func (w *Watch) Worked() {
	if w.failures.Load() != nil {
		w.failures.Store(nil)
	}
}

// Failing reports whether the last call failed.
func (w *Watch) Failing() bool { return w.failures.Load() != nil }

// Look returns the last error if calls have failed both since the last look and between that and
// the one before, and none has worked meanwhile; else nil.
func (w *Watch) Look() error {
	f := w.failures.Load()
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	struggles := f.fresh && f.earlier
	f.earlier, f.fresh = f.fresh, false
	if struggles {
		return f.err
	}
	return nil
}
