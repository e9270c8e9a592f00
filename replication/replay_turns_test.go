package replication

import (
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Go's scheduler interrupts what has run for ten milliseconds of the real clock, on a busy machine
// also what has only waited for a processor. What is ready besides runs first then, and the order
// of things is another one. A run cannot prevent that, but it knows where it may have happened:
// turns begins a slice of the scheduler's at each operation of a disk and each act of the driver. A
// slice that took less than ten milliseconds was not interrupted, so a run is a function of its
// seed up to the first one that took more. The collector interrupts as well: it is off meanwhile.
type turns struct {
	mu     sync.Mutex
	at     time.Duration // virtual: when the slice began
	began  time.Time     // real
	broken bool          // a slice took too long
}

// sliceLimit leaves something of the ten milliseconds to the steps of the clock.
const sliceLimit = 9 * time.Millisecond

// next begins a slice, at a virtual time at which nothing else begins.
func (s *turns) next(at time.Duration) {
	runtime.Gosched()
	now := realTime()
	s.mu.Lock()
	defer s.mu.Unlock()
	if took := now.Sub(s.began); s.broken || !s.began.IsZero() && (took < 0 || took >= sliceLimit) {
		s.broken = true
		return
	}
	s.at, s.began = at, now
}

// undisturbed returns how long a trace was, by virtual time, when something may have been
// interrupted first, and whether nothing was.
func (s *turns) undisturbed() (until time.Duration, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at, !s.broken
}

// realTime returns the time outside of the bubble. The scheduler does not know of this call to the
// system, so it does not interrupt for it.
func realTime() time.Time {
	var tv syscall.Timeval
	if err := syscall.Gettimeofday(&tv); err != nil {
		panic(err)
	}
	return time.Unix(0, tv.Nano())
}
