// Package watermark has a queue of waiters for a growing number: acknowledgements wait for a high
// watermark, long polls for an offset, timeouts for the clock.
package watermark

// A Queue keeps entries sorted by key, smallest first. The zero Queue is empty. It is a heap:
// adding and removing an entry take O(log n), and O(1) if keys arrive in order, as offsets and
// deadlines mostly do.
//
// A Queue is not safe for concurrent use: its owner's lock guards it. It calls no function. The
// owner removes due entries with Pop under the lock, and completes them without the lock.
type Queue[T any] struct {
	heap []*Entry[T]
}

// An Entry is a waiter's place in at most one Queue. It is embedded in the waiter, so that waiting
// allocates nothing.
type Entry[T any] struct {
	Value T // the waiter; the Queue does not use it

	key int64
	pos int // index in the heap + 1; 0: not queued
}

// Queued reports whether e is in a queue.
func (e *Entry[T]) Queued() bool { return e.pos != 0 }

// Len returns the number of entries.
func (q *Queue[T]) Len() int { return len(q.heap) }

// Add queues e, which must not be queued, under key.
func (q *Queue[T]) Add(e *Entry[T], key int64) {
	if e.pos != 0 {
		panic("watermark: entry is queued already")
	}
	e.key = key
	q.heap = append(q.heap, e)
	e.pos = len(q.heap)
	q.up(len(q.heap) - 1)
}

// Remove removes e. It returns false if e was in no queue. e must not be in another queue.
func (q *Queue[T]) Remove(e *Entry[T]) bool {
	if e.pos == 0 {
		return false
	}
	i, last := e.pos-1, len(q.heap)-1
	q.swap(i, last)
	q.heap[last] = nil
	q.heap = q.heap[:last]
	e.pos = 0
	if i < last {
		q.down(i)
		q.up(i)
	}
	return true
}

// Pop removes and returns an entry with the smallest key, or returns nil if that key is not below
// limit. So a loop over Pop(watermark) removes exactly the entries that the watermark has passed.
func (q *Queue[T]) Pop(limit int64) *Entry[T] {
	if len(q.heap) == 0 || q.heap[0].key >= limit {
		return nil
	}
	e := q.heap[0]
	q.Remove(e)
	return e
}

// Min returns the smallest key; ok is false if the queue is empty.
func (q *Queue[T]) Min() (key int64, ok bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].key, true
}

func (q *Queue[T]) swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	q.heap[i].pos, q.heap[j].pos = i+1, j+1
}

func (q *Queue[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if q.heap[parent].key <= q.heap[i].key {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

func (q *Queue[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q.heap) {
			return
		}
		if right := child + 1; right < len(q.heap) && q.heap[right].key < q.heap[child].key {
			child = right
		}
		if q.heap[i].key <= q.heap[child].key {
			return
		}
		q.swap(i, child)
		i = child
	}
}
