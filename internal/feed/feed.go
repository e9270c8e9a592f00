// Package feed distributes items to readers of different speeds. It keeps the latest items only:
// Put never waits, and a slow reader gets the number of items that it missed.
package feed

import (
	"context"
	"iter"
	"sync"
)

// A Feed keeps the latest items, numbered 1, 2, 3 and so on. Before the first Reader it keeps none.
// Safe for concurrent use.
type Feed[T any] struct {
	limit int

	mu      sync.Mutex // guards the fields below; a leaf, never held while waiting
	ring    []T        // item n is at (n-1) % limit
	last    int64      // number of the newest item
	read    bool       // Reader was called
	closed  bool
	changed chan struct{} // closed with the next item, and with the feed; nil if no reader waits
}

// New returns a Feed that keeps up to limit items, at least one.
func New[T any](limit int) *Feed[T] { return &Feed[T]{limit: limit} }

// Wanted reports whether the feed has ever had a Reader and is open. Otherwise Put drops items.
func (f *Feed[T]) Wanted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read && !f.closed
}

// Put appends items, in order. It does not block.
func (f *Feed[T]) Put(items ...T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.read || f.closed || len(items) == 0 {
		return
	}
	for _, item := range items {
		if len(f.ring) < f.limit {
			f.ring = append(f.ring, item)
		} else {
			f.ring[f.last%int64(f.limit)] = item
		}
		f.last++
	}
	f.wakeLocked()
}

// Close ends the feed: readers get the remaining items.
func (f *Feed[T]) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.wakeLocked()
}

func (f *Feed[T]) wakeLocked() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// A Reader is a position in a Feed. It need not be closed. Safe for concurrent use: each item goes
// to one of its callers.
type Reader[T any] struct {
	f  *Feed[T]
	at int64 // number of the last item that was read; guarded by f.mu
}

// Reader returns a Reader of the items from now on.
func (f *Feed[T]) Reader() *Reader[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = true
	return &Reader[T]{f: f, at: f.last}
}

// A Reading is an item, or the number of missed ones.
type Reading[T any] struct {
	Item   T
	Number int64 // of the item, or of the last missed one
	Missed int64 // number of items dropped since the last Reading; if not 0 there is no Item
}

// Next waits for the next item. ok is false when ctx has ended, which has priority, or the feed is
// closed and has no more items.
func (r *Reader[T]) Next(ctx context.Context) (got Reading[T], ok bool) {
	for ctx.Err() == nil {
		got, changed := r.take()
		if got.Number > 0 {
			return got, true
		}
		if changed == nil {
			return got, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return got, false
}

// All returns an iterator over what of makes of the readings from now on. It waits for the next
// one, and ends as Next does. Ranging over it again continues after the last reading.
func (f *Feed[T]) All(ctx context.Context, of func(Reading[T]) T) iter.Seq[T] {
	r := f.Reader()
	return func(yield func(T) bool) {
		for {
			got, ok := r.Next(ctx)
			if !ok || !yield(of(got)) {
				return
			}
		}
	}
}

// take returns the next item, or the channel to wait for; neither if the feed is closed.
func (r *Reader[T]) take() (got Reading[T], changed <-chan struct{}) {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	oldest := f.last - int64(len(f.ring)) + 1
	switch {
	case r.at+1 < oldest:
		got.Missed, got.Number = oldest-1-r.at, oldest-1
		r.at = got.Number
	case r.at < f.last:
		r.at++
		got.Item, got.Number = f.ring[(r.at-1)%int64(f.limit)], r.at
	case !f.closed:
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		changed = f.changed
	}
	return got, changed
}
