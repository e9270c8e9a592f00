package partition

// ReadFollower is Read of a replica that need not lead (KIP-392): it shows what it has below the
// high watermark that it knows, which is at most its leader's. Above that, up to the end of its
// log, there is nothing yet. epoch is the leader epoch that the metadata has: a replica that nobody
// leads any more does not know it, and is read from all the same.
//
// Errors: ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch; ErrOffsetOutOfRange, which may only mean
// that this replica is behind: the leader knows; ErrOffsetNotAvailable while the log is cut;
// ErrNotLeader if the broker is about to be gone, ErrCorrupt, ErrClosed.
func (p *Partition) ReadFollower(req ReadRequest, epoch int32) (ReadResult, error) {
	if err := CompareEpochs(req.CurrentLeaderEpoch, epoch); err != nil {
		return ReadResult{}, p.wrap("read", err)
	}
	cuts := p.cuts.Load()
	if err := p.unreadable(cuts); err != nil {
		return ReadResult{}, p.wrap("read", err)
	}
	res, err := p.readAs(&req, epoch, func() error { return p.unreadable(cuts) })
	// An unclean leader may have had the log cut and written anew, below the high watermark of
	// before: what was read is of one log only if there was no cut.
	if changed := p.unreadable(cuts); err == nil && changed != nil {
		return ReadResult{}, p.wrap("read", changed)
	}
	return res, err
}

// unreadable returns why a follower cannot be read from, or could not since there were that many
// cuts.
func (p *Partition) unreadable(cuts int64) error {
	switch {
	case p.closing.Load() || p.resigned.Load():
		return p.notLeading()
	case cuts%2 != 0 || p.cuts.Load() != cuts:
		return ErrOffsetNotAvailable
	}
	return nil
}

// WatchFollower is Watch of a replica that is read from with ReadFollower. It also wakes when the
// replica changes its role, and by WakeReaders.
func (p *Partition) WatchFollower(offset int64, w *Waiter) {
	p.watch(offset, w, func() int32 {
		if p.resigned.Load() || p.leaderEpoch.Load() >= 0 || p.stale {
			return -1
		}
		return 0
	})
}

// WakeReaders has everyone who waits for records look again: they may have to read elsewhere.
func (p *Partition) WakeReaders() {
	p.mu.Lock()
	d := due{watches: p.allWatchesLocked()}
	p.mu.Unlock()
	d.run()
}
