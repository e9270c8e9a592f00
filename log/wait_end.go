package log

import (
	"context"

	"github.com/stratalog/strata/internal/watermark"
)

// endWaiter is a goroutine that waits for the readable end of a log to grow.
type endWaiter = watermark.Entry[chan struct{}]

// readable returns the offset up to which records are returned to readers: a record that was read
// must not disappear again, so under SyncOnAck it is the durable end.
func (l *Log) readable() int64 {
	if l.cfg.Load().Sync == SyncOnAck && !l.readOnly {
		return l.durability.offset.Load()
	}
	return l.segments.end.Load()
}

// wake wakes the goroutines that wait for an offset that is readable now.
func (l *Log) wake() { l.wakeBelow(l.readable()) }

// wakeAll wakes all waiting goroutines.
func (l *Log) wakeAll() { l.wakeBelow(1<<63 - 1) }

func (l *Log) wakeBelow(offset int64) {
	if l.followers.count.Load() == 0 {
		return
	}
	var woken []*endWaiter
	l.followers.mu.Lock()
	for e := l.followers.queue.Pop(offset); e != nil; e = l.followers.queue.Pop(offset) {
		woken = append(woken, e)
	}
	l.followers.count.Store(int32(l.followers.queue.Len()))
	l.followers.mu.Unlock()
	for _, e := range woken {
		close(e.Value)
	}
}

// waitEnd waits until the readable end is above offset.
func (l *Log) waitEnd(ctx context.Context, offset int64) error {
	e := endWaiter{Value: make(chan struct{})}
	l.followers.mu.Lock()
	if l.closing.Load() {
		l.followers.mu.Unlock()
		return ErrClosed
	}
	l.followers.queue.Add(&e, offset)
	l.followers.count.Store(int32(l.followers.queue.Len()))
	// Checked after the store: a goroutine that moved the end and saw no waiter did so before.
	if l.readable() > offset {
		l.followers.queue.Remove(&e)
		l.followers.count.Store(int32(l.followers.queue.Len()))
		l.followers.mu.Unlock()
		return nil
	}
	l.followers.mu.Unlock()
	select {
	case <-e.Value:
	case <-ctx.Done():
	}
	l.followers.mu.Lock()
	defer l.followers.mu.Unlock()
	l.followers.queue.Remove(&e)
	l.followers.count.Store(int32(l.followers.queue.Len()))
	if l.closing.Load() {
		return ErrClosed
	}
	return ctx.Err()
}
