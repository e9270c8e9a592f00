// Package struggle distinguishes a disk on which all calls fail from one with a single failure.
package struggle

import (
	"sync"
	"sync/atomic"
)

// A Watch records the results of calls to a disk. The zero value is ready, and takes eight bytes as
// long as no call fails. It is safe for concurrent use.
type Watch struct {
	failures atomic.Pointer[failures] // since the last successful call; nil: none
}

// failures has the state of consecutive failures.
type failures struct {
	mu      sync.Mutex // guards the fields below
	err     error      // of the last failure
	fresh   bool       // a call has failed since the last Look
	earlier bool       // a call had failed in the interval before it
}

// Failed records a failed call.
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

// Worked records a successful call. It costs next to nothing if no call has failed before.
func (w *Watch) Worked() {
	if w.failures.Load() != nil {
		w.failures.Store(nil)
	}
}

// Failing reports whether the last call failed.
func (w *Watch) Failing() bool { return w.failures.Load() != nil }

// Look returns the last error if calls have failed in both of the last two intervals between Looks,
// and none has succeeded meanwhile. Otherwise it returns nil.
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
