package producer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/alarm"
)

// A coarseClock is a clock for records while there are so many of them that reading the system's
// for each costs more than encoding them: an alarm reads it once a millisecond. Records are stamped
// up to that much late, or as late as a busy machine runs timers. It runs only while batches fill
// up.
type coarseClock struct {
	ms     atomic.Int64 // since the Unix epoch; 0: it does not run. Written under mu
	filled atomic.Int32 // batches since the last tick

	mu        sync.Mutex        // guards the fields below
	idle      int               // ticks in a row without a filled batch
	alarm     alarm.Alarm       // tick; armed while the clock runs, stopped at the end
	gathering []*partitionQueue // to be told of the next tick; empty while the clock stands
}

const (
	coarseTick      = time.Millisecond
	coarseIdleTicks = 5 // so many ticks without a full batch stop it
	// records of a batch that filled up before coarseIdleTicks had passed start it
	coarseFrom = 128
)

// full tells of a batch that has filled up, d nanoseconds after it was begun.
func (c *coarseClock) full(records int32, d int64) {
	if records < coarseFrom || d > coarseIdleTicks*int64(coarseTick) {
		return
	}
	c.filled.Add(1)
	if c.ms.Load() != 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ms.Load() != 0 || !c.alarm.After(coarseTick) {
		return
	}
	c.idle = 0
	c.ms.Store(time.Now().UnixMilli())
}

func (c *coarseClock) tick() {
	c.beat()
	c.endGathering()
}

func (c *coarseClock) beat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle++
	if c.filled.Swap(0) > 0 {
		c.idle = 0
	}
	if c.idle >= coarseIdleTicks || !c.alarm.After(coarseTick) {
		c.ms.Store(0)
		return
	}
	c.ms.Store(time.Now().UnixMilli())
}

// gather has pt told of the next tick; false: there is none, the clock stands.
func (c *coarseClock) gather(pt *partitionQueue) bool {
	if c.ms.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ms.Load() == 0 { // and those who were to be told of its last tick are being told
		return false
	}
	c.gathering = append(c.gathering, pt)
	return true
}

// endGathering tells those who wait for the next tick.
func (c *coarseClock) endGathering() {
	c.mu.Lock()
	told := c.gathering
	c.gathering = nil
	c.mu.Unlock()
	for _, pt := range told {
		pt.gathered()
	}
}

// end stops it for good and waits until it has stopped.
func (c *coarseClock) end() {
	c.mu.Lock()
	c.alarm.Stop()
	c.ms.Store(0)
	c.mu.Unlock()
	c.alarm.Wait()
}
