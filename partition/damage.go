package partition

import (
	"errors"

	"github.com/stratalog/strata/log"
)

// met passes on the error of an operation of the log if it is damage of the log's bytes.
func (p *Partition) met(err error) {
	if err == nil || p.damaged == nil || !errors.Is(err, ErrCorrupt) {
		return
	}
	if _, ok := errors.AsType[*log.CorruptError](err); ok { // not of a request's batch
		p.damaged(err)
	}
}

// Examine reads and verifies the batch that contains an offset, of a leader or a follower. It waits
// for the disk. Errors: ErrCorrupt if the batch is damaged, ErrOffsetOutOfRange if the replica does
// not have the offset, ErrClosed, and errors of the disk.
func (p *Partition) Examine(offset int64) error {
	end := p.log.EndOffset()
	if offset < p.log.StartOffset() || offset >= end {
		return p.wrap("examine", ErrOffsetOutOfRange)
	}
	if _, err := p.log.ReadUpTo(nil, offset, 1, end); err != nil {
		return p.wrap("examine", err)
	}
	return nil
}
