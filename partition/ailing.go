package partition

import (
	"errors"

	"github.com/stratalog/strata/internal/progress"
	"github.com/stratalog/strata/internal/struggle"
)

// looked is the state at the last call of Ailing.
type looked struct {
	busy     bool
	position progress.Position
}

// Ailing reports on the disk of a leader. stalled is true if the log had work to do at the previous
// call and still has it, and nothing was written or synced in between. err is the error that
// stopped appends until the log is opened again, or nil. Ailing does not block. Calls must not
// overlap, since each call compares with the previous one.
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

// Broken returns the error that stopped appends until the log is opened again, or nil. It does not
// block.
func (p *Partition) Broken() error { return p.log.Err() }

// diskWatch records failures and successes of the disk.
type diskWatch struct{ writes, reads struggle.Watch }

// readFailed records a failed read of a follower. Damaged bytes are no failure of the disk, which
// has returned them.
func (w *diskWatch) readFailed(err error) {
	if !errors.Is(err, ErrCorrupt) {
		w.reads.Failed(err)
	}
}

// writeFailed records a failed append, as readFailed does.
func (w *diskWatch) writeFailed(err error) {
	if !errors.Is(err, ErrCorrupt) {
		w.writes.Failed(err)
	}
}

// Struggles returns the last disk error if, since the call before the previous one, all writes of
// appends have failed, or all reads of followers have. Some must have failed in each of the two
// intervals. Otherwise it returns nil. Unlike the err of Ailing, the cause may go away by itself,
// as when a full disk gets space. Struggles does not block. Calls must not overlap.
func (p *Partition) Struggles() error {
	err := p.disk.writes.Look()
	if reads := p.disk.reads.Look(); err == nil {
		err = reads
	}
	return err
}
