package partition

import (
	"fmt"

	"github.com/stratalog/strata/log"
)

// TruncateTo removes the batches that reach to offset or beyond it, and resets the producer state
// to that point. A follower calls it to remove records that its leader does not have. It blocks for
// the disk. It returns ErrLeader on a leader, whose log is authoritative. If it fails, the
// partition must be opened again before it can lead.
func (p *Partition) TruncateTo(offset int64) error {
	defer p.takeRole()()
	return p.truncateTo(offset)
}

// truncateTo is TruncateTo; the caller holds the role.
func (p *Partition) truncateTo(offset int64) error {
	return p.cut(offset, func() error { return p.log.TruncateTo(offset) })
}

// cut shortens the log with truncate, and rebuilds the producer state as of its new end. The
// caller holds the role.
func (p *Partition) cut(offset int64, truncate func() error) error {
	if p.leaderEpoch.Load() >= 0 {
		return p.wrap("truncate", ErrLeader)
	}
	if offset < 0 { // before anything is stale
		return p.wrap("truncate", fmt.Errorf("%w: %d", log.ErrOffsetOutOfRange, offset))
	}
	p.mu.Lock()
	// If p is stale, an earlier truncation has failed, and there are no reads until one succeeds.
	if !p.stale {
		p.cuts.Add(1)
	}
	// A segment that is closed in between must not get a snapshot of the removed part.
	p.stale = true
	p.mu.Unlock()
	if err := truncate(); err != nil {
		p.met(err)
		return p.wrap("truncate", err)
	}
	state, err := p.rebuild()
	if err != nil {
		p.met(err)
		return p.wrap("truncate", err)
	}
	p.mu.Lock()
	p.state, p.stale = state, false
	p.growth.cut(p.log.EndOffset())
	// A transaction whose marker was removed is open again.
	p.resume(p.hw.Load())
	p.cuts.Add(1)
	d := due{watches: p.allWatchesLocked()} // the offset that they wait for may have been removed
	p.mu.Unlock()
	d.run()
	return nil
}
