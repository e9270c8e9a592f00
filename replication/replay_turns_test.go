package replication

import (
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Go's scheduler interrupts a goroutine that has run for ten milliseconds of the real clock. On a
// busy machine it also interrupts a goroutine that only waited for a processor. Other ready
// goroutines then run first, which changes the order of events. A run cannot prevent this, but it
// records where it may have happened: turns begins a slice of the scheduler's at each operation of
// a disk and each action of the driver. A slice of less than ten milliseconds was not interrupted.
// So a run is a function of its seed up to the first longer slice. The garbage collector
// interrupts as well, and is off during a run.
type turns struct {
	mu     sync.Mutex
	at     time.Duration // virtual: when the slice began
	began  time.Time     // real
	broken bool          // a slice took too long
}

// sliceLimit leaves some of the ten milliseconds to the steps of the clock.
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

// undisturbed returns the virtual time up to which the trace was certainly not interrupted, and
// whether no slice took too long.
func (s *turns) undisturbed() (until time.Duration, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at, !s.broken
}

// realTime returns the time outside the bubble. The scheduler does not notice this system call, so
// it does not interrupt for it.
func realTime() time.Time {
	var tv syscall.Timeval
	if err := syscall.Gettimeofday(&tv); err != nil {
		panic(err)
	}
	return time.Unix(0, tv.Nano())
}
