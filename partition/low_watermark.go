package partition

import "context"

// AwaitLowWatermark waits until the log starts of this leader and of all followers with live
// brokers are at offset or beyond it, and returns the smallest of them. Then no later leader among
// them returns records below it. It stops waiting for a follower that is fenced meanwhile.
//
// Errors: the context's error, and ErrNotLeader or ErrClosed if this replica stops leading. Kafka:
// DeleteRecords.
func (p *Partition) AwaitLowWatermark(ctx context.Context, offset int64) (int64, error) {
	for {
		low, moved := p.lowWatermark(offset)
		switch {
		case moved == nil && low < 0:
			return -1, p.wrap("delete records", p.notLeading())
		case moved == nil:
			return low, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return -1, p.wrap("delete records", ctx.Err())
		}
	}
}

// lowWatermark returns the low watermark, -1 if this replica does not lead. While it is below
// offset moved is closed when it may have changed; else moved is nil.
func (p *Partition) lowWatermark(offset int64) (low int64, moved <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress == nil {
		return -1, nil
	}
	if low = p.progress.LowWatermark(p.log.StartOffset()); low >= offset {
		return low, nil
	}
	if p.lowMoved == nil {
		p.lowMoved = make(chan struct{})
	}
	return low, p.lowMoved
}

// lowMovedLocked wakes the goroutines that wait for the low watermark.
func (l *leading) lowMovedLocked() {
	if l.lowMoved != nil {
		close(l.lowMoved)
		l.lowMoved = nil
	}
}
