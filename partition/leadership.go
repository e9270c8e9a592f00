package partition

// BecomeFollower ends this replica's leadership: appends and reads are refused with ErrNotLeader.
// Appends under way, and those that wait for acknowledgement, end with ErrNotLeaderAfterAppend.
// When it returns, none of them is decided to be a success any more.
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

// Resign makes this replica refuse new appends and reads with ErrNotLeader, for good, also when it
// is closed afterwards; who waits for records is woken. Appends under way end as they would have,
// and Close waits for them: so a broker leaves in order.
func (p *Partition) Resign() {
	p.mu.Lock()
	p.resigned.Store(true)
	d := due{watches: p.allWatchesLocked()}
	waiting := p.state.takeWaiting()
	p.mu.Unlock()
	d.run()
	releaseGuards(waiting, ErrNotLeader)
}

// LeaderEpoch returns the epoch in which this replica leads, -1 if it does not.
func (p *Partition) LeaderEpoch() int32 {
	if p.resigned.Load() {
		return -1
	}
	return p.leaderEpoch.Load()
}

// releaseLocked takes out all who wait: acknowledgements fail with err, waiters look again.
func (p *Partition) releaseLocked(err error) (d due) {
	for e := p.acks.Pop(1<<63 - 1); e != nil; e = p.acks.Pop(1<<63 - 1) {
		e.Value.result.Err = p.wrap("produce", err)
		p.decideLocked(e.Value)
		d.add(e.Value)
	}
	d.watches = p.allWatchesLocked()
	return d
}
