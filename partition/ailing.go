package partition

import (
	"github.com/stratalog/strata/internal/progress"
	"github.com/stratalog/strata/internal/struggle"
)

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

// diskWatch is how the disk does what is asked of it.
type diskWatch struct{ writes, reads struggle.Watch }

// Struggles returns why the disk does not do what is asked of it: the last error, if since the call
// before the last one all appends have failed in writing, or all followers' reads have, and some
// in each of the two intervals. Unlike the err of Ailing it may be over any time: a full disk gets
// room. It does not block; one caller at a time.
func (p *Partition) Struggles() error {
	err := p.disk.writes.Look()
	if reads := p.disk.reads.Look(); err == nil {
		err = reads
	}
	return err
}
