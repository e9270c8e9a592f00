package partition

// Close rejects new calls with ErrClosed, wakes waiting readers, waits for appends in progress,
// writes a snapshot of the producer state, and closes the log. Appends that are not acknowledged by
// then fail with ErrClosed, or with ErrNotLeaderAfterAppend after Resign. Close may be called
// repeatedly and concurrently. Every call returns when the partition is closed, with the same
// error.
func (p *Partition) Close() error {
	e := &ending{done: make(chan struct{})}
	if !p.ending.CompareAndSwap(nil, e) {
		e = p.ending.Load()
		<-e.done
		return e.err
	}
	p.closing.Store(true)
	p.mu.Lock()
	p.closed = true
	d := due{watches: p.allWatchesLocked()}
	waiting := p.state.takeWaiting()
	p.mu.Unlock()
	d.run()
	releaseGuards(waiting, p.notLeading())

	e.err = p.log.Close() // completes all appends: the high watermark still moves

	p.mu.Lock()
	p.leaderEpoch.Store(-1)
	p.lowMovedLocked()
	p.leading = leading{}
	cause := ErrClosed
	if p.resigned.Load() {
		cause = ErrNotLeaderAfterAppend
	}
	d = p.releaseLocked(cause)
	p.timeouts.Stop()
	p.mu.Unlock()
	d.run()
	p.timeouts.Wait()
	close(e.done)
	return e.err
}
