package partition

import (
	"sync/atomic"

	"github.com/stratalog/strata/internal/watermark"
)

// A Waiter waits for records of any number of partitions. It wakes once: when the readable bytes of
// all partitions together have grown enough, or when one of them was closed or truncated, or is no
// longer led by this replica. It holds no goroutine and no timer.
//
// To use it, read first. If the result is too small, make a Waiter for the missing bytes, and Watch
// each partition from the end of its read. Then wait for wake or another event, Cancel, and read
// again. Nothing is missed between Read and Watch: if a partition has advanced meanwhile, Watch
// wakes the Waiter at once.
type Waiter struct {
	need      int64
	isolation Isolation
	wake      func()
	got       atomic.Int64
	woken     atomic.Bool
	watches   []*watch
}

// NewWaiter returns a waiter for minBytes (at least 1) at the given isolation level. wake is called
// at most once, without locks, on the goroutine that made the records visible; it must not block.
// It may be called before Watch returns.
func NewWaiter(minBytes int, isolation Isolation, wake func()) *Waiter {
	return &Waiter{need: int64(max(minBytes, 1)), isolation: isolation, wake: wake}
}

// Cancel removes the waiter from all partitions; O(log n) for each. It must be called once for
// every Waiter that was passed to Watch, also after it woke. A wake in progress on another
// goroutine may still arrive. Cancel and Watch of the same Waiter must not be called concurrently.
func (w *Waiter) Cancel() {
	w.woken.Store(true)
	for _, x := range w.watches {
		x.p.mu.Lock()
		x.queue.Remove(&x.entry)
		x.p.mu.Unlock()
	}
	w.watches = nil
}

func (w *Waiter) fire() {
	if w.woken.CompareAndSwap(false, true) {
		w.wake()
	}
}

// A watch is the place of a waiter in one partition.
type watch struct {
	entry watermark.Entry[*watch]
	w     *Waiter
	p     *Partition
	queue *watermark.Queue[*watch]
	// visible bytes of the partition when the waiter last looked
	base int64
	next *watch // in the list of watches to wake
}

// Watch makes w wait for records of p at or above offset. Pass the bound that Read returned, or the
// reader's offset if that is larger. It never blocks. It is safe for concurrent use, but not for
// the same Waiter.
func (p *Partition) Watch(offset int64, w *Waiter) { p.watch(offset, w, p.LeaderEpoch) }

// watch is Watch, but wakes at once if role returns less than 0, since the role has changed.
func (p *Partition) watch(offset int64, w *Waiter, role func() int32) {
	x := &watch{w: w, p: p}
	x.entry.Value = x
	p.mu.Lock()
	bound := &p.lso
	x.queue = &p.lsoWatches
	if w.isolation == ReadUncommitted {
		bound, x.queue = &p.hw, &p.hwWatches
	}
	if p.closed || role() < 0 || bound.Load() > offset {
		p.mu.Unlock()
		w.fire()
		return
	}
	x.base = p.growth.visible
	x.queue.Add(&x.entry, offset)
	p.mu.Unlock()
	w.watches = append(w.watches, x)
}

// passWatches removes from q the watches that the bound has passed and whose waiters now have
// enough. The number of bytes between the old and the new bound is known unless exact is false:
// then all passed watches are woken. list has the newest first.
func (p *Partition) passWatches(q *watermark.Queue[*watch], bound int64, exact bool, list *watch) *watch {
	var again *watch
	for e := q.Pop(bound); e != nil; e = q.Pop(bound) {
		x := e.Value
		grown := p.growth.visible - x.base
		x.base = p.growth.visible
		switch {
		case x.w.woken.Load(): // another partition did it
		case !exact || x.w.got.Add(grown) >= x.w.need:
			x.next, list = list, x
		default:
			x.next, again = again, x
		}
	}
	for again != nil { // not enough yet: wait for the next growth
		x := again
		again, x.next = x.next, nil
		q.Add(&x.entry, bound)
	}
	return list
}

// allWatchesLocked removes all watches.
func (p *Partition) allWatchesLocked() (list *watch) {
	for _, q := range []*watermark.Queue[*watch]{&p.hwWatches, &p.lsoWatches} {
		for e := q.Pop(1<<63 - 1); e != nil; e = q.Pop(1<<63 - 1) {
			e.Value.next, list = list, e.Value
		}
	}
	return list
}
