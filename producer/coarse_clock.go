package producer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/alarm"
)

// A coarseClock provides the time for records while they are so frequent that reading the system
// clock for each costs more than encoding them: an alarm reads it once a millisecond. Timestamps
// are up to that much early, or more if a busy machine runs timers late. It runs only while batches
// fill up.
type coarseClock struct {
	ms     atomic.Int64 // since the Unix epoch; 0: it is stopped. Written under mu
	filled atomic.Int32 // batches since the last tick

	mu        sync.Mutex        // guards the fields below
	idle      int               // ticks in a row without a filled batch
	alarm     alarm.Alarm       // tick; armed while the clock runs, stopped at the end
	gathering []*partitionQueue // to be notified at the next tick; empty while the clock is stopped
}

const (
	coarseTick      = time.Millisecond
	coarseIdleTicks = 5 // this many ticks without a full batch stop the clock
	// a batch of at least this many records that filled within coarseIdleTicks starts the clock
	coarseFrom = 128
)

// full records that a batch has filled up, d nanoseconds after it was begun.
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

// gather makes the next tick notify pt. It returns false if the clock is stopped.
func (c *coarseClock) gather(pt *partitionQueue) bool {
	if c.ms.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ms.Load() == 0 { // and the partitions of its last tick are being notified
		return false
	}
	c.gathering = append(c.gathering, pt)
	return true
}

// endGathering notifies the partitions that wait for the next tick.
func (c *coarseClock) endGathering() {
	c.mu.Lock()
	queues := c.gathering
	c.gathering = nil
	c.mu.Unlock()
	for _, pt := range queues {
		pt.gathered()
	}
}

// end stops the clock permanently and waits until it has stopped.
func (c *coarseClock) end() {
	c.mu.Lock()
	c.alarm.Stop()
	c.ms.Store(0)
	c.mu.Unlock()
	c.alarm.Wait()
}
