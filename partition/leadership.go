package partition

// BecomeFollower ends this replica's leadership: appends and reads fail with ErrNotLeader. Appends
// in progress, and appends that wait for acknowledgement, fail with ErrNotLeaderAfterAppend. When
// it returns, none of them can succeed any more.
func (p *Partition) BecomeFollower() {
	p.mu.Lock()
	p.leaderEpoch.Store(-1)
	p.lowMovedLocked()
	p.leading = leading{}
	d := p.releaseLocked(ErrNotLeaderAfterAppend)
	waiting := p.state.takeWaiting()
	p.mu.Unlock()
	d.run()
	releaseGuards(waiting, ErrNotLeader)
}

// Resign makes this replica reject new appends and reads with ErrNotLeader permanently, also after
// it is closed, and wakes waiting readers. Appends in progress continue, and Close waits for them.
// A broker that shuts down in order uses it.
func (p *Partition) Resign() {
	p.mu.Lock()
	p.resigned.Store(true)
	d := due{watches: p.allWatchesLocked()}
	waiting := p.state.takeWaiting()
	p.mu.Unlock()
	d.run()
	releaseGuards(waiting, ErrNotLeader)
}

// LeaderEpoch returns the epoch in which this replica leads, or -1 if it does not lead.
func (p *Partition) LeaderEpoch() int32 {
	if p.resigned.Load() {
		return -1
	}
	return p.leaderEpoch.Load()
}

// releaseLocked removes everything that waits: acknowledgements fail with err, waiters wake.
func (p *Partition) releaseLocked(err error) (d due) {
	for e := p.acks.Pop(1<<63 - 1); e != nil; e = p.acks.Pop(1<<63 - 1) {
		e.Value.result.Err = p.wrap("produce", err)
		p.decideLocked(e.Value)
		d.add(e.Value)
	}
	d.watches = p.allWatchesLocked()
	return d
}
