package partition

import "github.com/stratalog/strata/internal/progress"

// looked is what Ailing saw.
type looked struct {
	busy     bool
	position progress.Position
}

// Ailing tells whose leader this replica is how its disk does. err is why the log takes no more
// appends until it is opened again, nil if it does. A log that is stalled had work to do at the
// last call and has it still, and nothing of it was written or synced since. It does not block; one
// caller at a time, since each call compares with the one before.
func (p *Partition) Ailing() (stalled bool, err error) {
	now := looked{position: p.position()}
	now.busy = p.log.Busy() || p.syncOnAck.Load() && now.position.Durable < now.position.End
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress == nil {
		return false, nil
	}
	stalled = now.busy && now == p.looked
	p.looked = now
	return stalled, p.log.Err()
}
