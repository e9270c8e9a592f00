package producer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/alarm"
)

// A coarseClock is a clock for records while there are so many of them that reading the system's for each
// costs more than encoding them: an alarm reads it once a millisecond. Records are stamped up to
// that much late, or as late as a busy machine runs timers. It beats only while batches fill up.
type coarseClock struct {
	ms    atomic.Int64 // since the Unix epoch; 0: it does not beat. Written under mu
	turns atomic.Int32 // batches filled since the last beat

	mu     sync.Mutex  // guards the fields below
	missed int         // beats without a turn
	alarm  alarm.Alarm // beat; armed while it beats, stopped at the end
}

const (
	coarseTick      = time.Millisecond
	coarseIdleTicks = 5   // so many beats without a full batch end it
	coarseFrom      = 128 // records of a batch that filled up before coarseIdleTicks beats had passed begin it
)

// full tells of a batch that has filled up, d nanoseconds after it was begun.
func (c *coarseClock) full(records int32, d int64) {
	if records < coarseFrom || d > coarseIdleTicks*int64(coarseTick) {
		return
	}
	c.turns.Add(1)
	if c.ms.Load() != 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ms.Load() != 0 || !c.alarm.After(coarseTick) {
		return
	}
	c.missed = 0
	c.ms.Store(time.Now().UnixMilli())
}

func (c *coarseClock) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missed++
	if c.turns.Swap(0) > 0 {
		c.missed = 0
	}
	if c.missed >= coarseIdleTicks || !c.alarm.After(coarseTick) {
		c.ms.Store(0)
		return
	}
	c.ms.Store(time.Now().UnixMilli())
}

// end stops it for good and waits until it has stopped.
func (c *coarseClock) end() {
	c.mu.Lock()
	c.alarm.Stop()
	c.ms.Store(0)
	c.mu.Unlock()
	c.alarm.Wait()
}
