package partition

// TimestampAt returns the offset and the timestamp of the first record at offset from or later,
// exact to its batch: see log.Log.TimestampAt. The offset is -1 if no record below the high
// watermark is that late, as when only markers of transactions follow. It may read from the disk.
// Errors are those of ListOffset.
func (p *Partition) TimestampAt(from int64) (OffsetResult, error) {
	const op = "timestamp at offset"
	epoch, err := p.checkEpoch(-1)
	if err != nil {
		return OffsetResult{}, p.wrap(op, err)
	}
	complete := p.complete() // first: the high watermark that is read later may only be further
	hw, _, _ := p.bounds()
	if p.leaderEpoch.Load() != epoch { // it may have ended before it was complete
		return OffsetResult{}, p.wrap(op, p.notLeading())
	}
	offset, ts, err := p.log.TimestampAt(from, hw)
	switch {
	case err != nil:
		p.met(err)
		return OffsetResult{}, p.wrap(op, err)
	case offset < 0 && !complete:
		return OffsetResult{}, p.wrap(op, ErrOffsetNotAvailable)
	case offset < 0:
		return OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1}, nil
	}
	return OffsetResult{Offset: offset, TimestampMs: ts, LeaderEpoch: p.epochAt(offset)}, nil
}
