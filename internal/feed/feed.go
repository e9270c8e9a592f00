// Package feed hands what happens to readers that come at their own speed. It keeps the latest
// items only: who writes never waits, and who reads too slowly is told how many it has missed.
package feed

import (
	"context"
	"sync"
)

// A Feed keeps the latest items, numbered 1, 2, 3 and so on. Nothing is kept before there is a
// Reader, and so nothing costs anything. Safe for concurrent use.
type Feed[T any] struct {
	limit int

	mu      sync.Mutex // guards the fields below; a leaf, never held while waiting
	ring    []T        // item n is at (n-1) % limit
	last    int64      // number of the newest item
	read    bool       // there is, or was, a Reader
	closed  bool
	changed chan struct{} // closed with the next item, and with the feed; nil: nobody waits
}

// New returns a Feed that keeps up to limit items, at least one.
func New[T any](limit int) *Feed[T] { return &Feed[T]{limit: limit} }

// Wanted reports whether anybody reads, or ever did: without that Put keeps nothing.
func (f *Feed[T]) Wanted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read && !f.closed
}

// Put adds items behind the others, in order. It does not block.
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

// Close ends the feed: readers get what is left, and then nothing.
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

// A Reader is a place in a Feed. It needs no end. Safe for concurrent use: each item goes to one of
// those who ask it.
type Reader[T any] struct {
	f  *Feed[T]
	at int64 // number of the item that was read last; guarded by f.mu
}

// Reader returns one that reads what is put from now on.
func (f *Feed[T]) Reader() *Reader[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = true
	return &Reader[T]{f: f, at: f.last}
}

// A Reading is what a Reader got: an item, or how many it has missed.
type Reading[T any] struct {
	Item   T
	Number int64 // of the item, or of the last one that was missed
	Missed int64 // not 0: no item, so many are gone that the feed has no room for
}

// Next returns the next item, and waits for it. ok is false when ctx has ended, which it looks at
// first, or the feed is closed and nothing is left.
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

// take returns what is next, or what to wait for; neither: the feed is closed.
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
