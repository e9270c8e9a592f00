package producer

import (
	"sync"
	"time"

	"github.com/stratalog/strata/internal/watermark"
)

// sender is the producer's goroutine. It drains the partitions that are passed to it, and handles
// the partitions whose timer has expired.
type sender struct {
	wake chan struct{} // one token, at most, while asleep

	mu     sync.Mutex        // guards the fields below
	ready  []*partitionQueue // partitions handed over for draining
	timers watermark.Queue[*partitionQueue]
	asleep bool
	until  int64 // end of the present sleep; never: none
	ending bool
}

const never = int64(1<<63 - 1)

// hand passes the right to drain pt to the sender.
func (s *sender) hand(pt *partitionQueue) {
	s.mu.Lock()
	s.ready = append(s.ready, pt)
	s.rouseLocked()
	s.mu.Unlock()
}

// schedule makes the sender check pt at the time at, on the producer's clock.
func (s *sender) schedule(pt *partitionQueue, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timers.Remove(&pt.timer) && pt.timerAt < at {
		at = pt.timerAt
	}
	pt.timerAt = at
	s.timers.Add(&pt.timer, at)
	if at < s.until {
		s.rouseLocked()
	}
}

// end makes run return once there is nothing to drain.
func (s *sender) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	s.rouseLocked()
}

func (s *sender) rouseLocked() {
	if s.asleep {
		s.asleep = false
		s.wake <- struct{}{} // never blocks: one token per sleep
	}
}

func (s *sender) run(p *Producer) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var ready, due []*partitionQueue
	for {
		ready, due = ready[:0], due[:0]
		s.mu.Lock()
		ready, s.ready = s.ready, ready
		if until, ok := s.timers.Min(); ok && until <= p.now() {
			for e := s.timers.Pop(p.now() + 1); e != nil; e = s.timers.Pop(p.now() + 1) {
				due = append(due, e.Value)
			}
		}
		if len(ready)+len(due) == 0 {
			if s.ending {
				s.mu.Unlock()
				return
			}
			s.asleep, s.until = true, never
			if until, ok := s.timers.Min(); ok {
				s.until = until
			}
			until := s.until
			s.mu.Unlock()
			s.sleep(timer, until-p.now())
			continue
		}
		s.mu.Unlock()
		for _, pt := range due {
			pt.tick()
		}
		for _, pt := range ready {
			pt.drain()
		}
		clear(ready) // there may be many topics: do not keep references
	}
}

// sleep waits for a token or for d nanoseconds.
func (s *sender) sleep(timer *time.Timer, d int64) {
	timer.Reset(time.Duration(d))
	select {
	case <-s.wake:
	case <-timer.C:
		s.mu.Lock()
		roused := !s.asleep
		s.asleep = false
		s.mu.Unlock()
		if roused {
			<-s.wake // the token is there or on its way
		}
	}
}
