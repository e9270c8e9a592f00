// Package struggle tells a disk that fails whatever is asked of it from one that failed once.
package struggle

import (
	"sync"
	"sync/atomic"
)

// A Watch is told how calls of a disk end, and is looked at from time to time. The zero value is
// ready. Safe for concurrent use.
type Watch struct {
	any atomic.Bool // something has failed since the last call that worked

	mu      sync.Mutex // guards the fields below
	err     error      // of the last failure
	failed  bool       // since the last look
	earlier bool       // in the interval before, and nothing has worked since
}

// Failed notes that a call has failed.
func (w *Watch) Failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.failed = err, true
	w.any.Store(true)
}

// Worked notes that a call has not failed. It costs next to nothing if none has before.
func (w *Watch) Worked() {
	if !w.any.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.failed, w.earlier = nil, false, false
	w.any.Store(false)
}

// Look returns the last error if calls have failed both since the last look and between that and
// the one before, and none has worked meanwhile; else nil.
func (w *Watch) Look() error {
	if !w.any.Load() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	struggles := w.failed && w.earlier
	w.earlier, w.failed = w.failed, false
	if struggles {
		return w.err
	}
	return nil
}
