package partition

// ReadFollower is Read for a replica that need not lead (KIP-392): it returns records below the
// high watermark that the replica has received, which is at most its leader's. From there up to
// the end of its log it returns no records. epoch is the leader epoch in the metadata. If the
// partition has no leader, the replica does not have this epoch, and can be read nevertheless.
//
// Errors: ErrFencedLeaderEpoch; ErrUnknownLeaderEpoch; ErrOffsetOutOfRange, which may only mean
// that this replica is behind its leader; ErrOffsetNotAvailable during a truncation; ErrNotLeader
// if the broker is shutting down; ErrCorrupt; ErrClosed.
func (p *Partition) ReadFollower(req ReadRequest, epoch int32) (ReadResult, error) {
	if err := CompareEpochs(req.CurrentLeaderEpoch, epoch); err != nil {
		return ReadResult{}, p.wrap("read", err)
	}
	cuts := p.cuts.Load()
	if err := p.unreadable(cuts); err != nil {
		return ReadResult{}, p.wrap("read", err)
	}
	res, err := p.readAs(&req, epoch, func() error { return p.unreadable(cuts) })
	// An unclean leader may have truncated and rewritten the log, below the earlier high watermark:
	// the result is of one log only if there was no truncation.
	if changed := p.unreadable(cuts); err == nil && changed != nil {
		return ReadResult{}, p.wrap("read", changed)
	}
	return res, err
}

// ListOffsetFollower is ListOffset for a replica that need not lead, in the leader epoch of the
// metadata. Latest is the end of the records that ReadFollower returns. Errors are those of
// ReadFollower.
func (p *Partition) ListOffsetFollower(spec OffsetSpec, isolation Isolation, epoch int32) (OffsetResult, error) {
	cuts := p.cuts.Load()
	return p.listOffset(spec, isolation, epoch, func() bool { return true }, func() error { return p.unreadable(cuts) })
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

// WatchFollower is Watch for a replica that is read with ReadFollower. The waiter also wakes when
// the replica changes its role, and by WakeReaders.
func (p *Partition) WatchFollower(offset int64, w *Waiter) {
	p.watch(offset, w, func() int32 {
		if p.resigned.Load() || p.leaderEpoch.Load() >= 0 || p.stale {
			return -1
		}
		return 0
	})
}

// WakeReaders wakes all waiting readers: they may have to read from another replica.
func (p *Partition) WakeReaders() {
	p.mu.Lock()
	d := due{watches: p.allWatchesLocked()}
	p.mu.Unlock()
	d.run()
}
