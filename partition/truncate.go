package partition

import (
	"fmt"

	"github.com/stratalog/strata/log"
)

// TruncateTo removes the batches that reach to offset or beyond it, as a follower does with what
// its leader does not have, and takes the producer state back to that point. It blocks for the
// disk. It returns ErrLeader on a leader: its own log is the truth. If it fails, the partition must
// be opened again before it can lead.
func (p *Partition) TruncateTo(offset int64) error {
	if p.leaderEpoch.Load() >= 0 {
		return p.wrap("truncate", ErrLeader)
	}
	if offset < 0 { // before anything is stale
		return p.wrap("truncate", fmt.Errorf("%w: %d", log.ErrOffsetOutOfRange, offset))
	}
	p.mu.Lock()
	p.stale = true // a segment that is closed in between must not get a snapshot of what is cut off
	p.mu.Unlock()
	if err := p.log.TruncateTo(offset); err != nil {
		return p.wrap("truncate", err)
	}
	state, err := p.rebuild()
	if err != nil {
		return p.wrap("truncate", err)
	}
	end := p.log.EndOffset()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.stale = state, false
	p.growth.cut(end)
	p.hw.Store(min(p.hw.Load(), end))
	p.lso.Store(min(p.lso.Load(), end))
	return nil
}
