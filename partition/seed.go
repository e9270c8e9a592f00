package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/stratalog/strata/record"
)

// producersFor returns the producer state for a follower that begins with batches, which were read
// at offset; if there are none, there.
func (p *Partition) producersFor(offset int64, batches []byte) ([]byte, error) {
	if len(batches) > 0 { // the first may have begun before
		first, err := record.ParseHeader(batches)
		if err != nil {
			return nil, err
		}
		offset = min(offset, first.BaseOffset)
	}
	s, err := p.stateAt(offset)
	if err != nil {
		return nil, fmt.Errorf("producers at %d: %w", offset, err)
	}
	return s.appendSnapshot(nil), nil
}

// stateAt returns the producer state as of an offset of the log: the newest snapshot that is not
// above it, and the batches up to there. Of the ended transactions that began below the offset, it
// has those whose marker another leader may truncate again. A follower does not need the others.
// It has no records of them, except the records that it will read, with their marker; and
// compaction may have removed that marker.
func (p *Partition) stateAt(offset int64) (*producers, error) {
	now := time.Now().UnixMilli()
	s, from, err := p.snapshotAt(offset, now)
	if err != nil {
		return nil, err
	}
	if err := p.replay(s, from, offset, now, nil); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid, e := range s.m {
		if e.txnFirstOffset >= 0 && !p.state.undecided(pid, e.txnFirstOffset) {
			e.txnFirstOffset = -1
		}
	}
	return s, nil
}

// snapshotAt is loadSnapshot for an offset of a log in use: nothing is removed.
func (p *Partition) snapshotAt(offset, now int64) (*producers, int64, error) {
	offsets, err := p.log.SnapshotFiles()
	if err != nil {
		return nil, 0, err
	}
	for _, o := range slices.Backward(offsets) {
		if o > offset {
			continue
		}
		data, err := p.log.ReadSnapshot(o)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // or it was removed meanwhile
			return nil, 0, err
		}
		s := p.newState()
		if err == nil && s.load(data, now) == nil && p.agrees(s, o, now) == nil {
			return s, o, nil
		}
	}
	return p.newState(), 0, nil
}

// undecided reports whether the transaction that began at first is open, or its marker is not below
// the high watermark yet.
func (s *producers) undecided(pid, first int64) bool {
	if e := s.m[pid]; e != nil && e.txnFirstOffset == first {
		return true
	}
	return slices.ContainsFunc(s.txns.ended, func(t endedTxn) bool { return t.producerID == pid && t.first == first })
}

// Seed makes an unseeded follower's log begin at offset, with the state that its leader's
// producers have there. The state identifies duplicates of batches below offset, and transactions
// that are open although the log has no record of them. The leader responded to the given request.
// Errors are those of Converge, and ErrCorrupt. Seed blocks for the disk. A crash leaves the log
// seeded or empty.
func (p *Partition) Seed(ask ReplicaFetch, offset int64, producers []byte) error {
	defer p.takeRole()()
	if err := p.answers(ask); err != nil {
		return p.wrap("follow", err)
	}
	if err := p.newState().load(producers, 0); err != nil {
		return p.wrap("follow", fmt.Errorf("%w: %w", ErrCorrupt, err))
	}
	return p.cut(offset, func() error {
		if offset != p.log.EndOffset() {
			if err := p.log.TruncateFullyFrom(offset, p.log.Purged()); err != nil {
				return err
			}
		}
		return p.log.WriteSnapshot(offset, producers)
	})
}

// isUnseeded reports whether the log is empty, begins above 0, and has no state of producers that
// have written below. from is the offset of the newest snapshot; 0 means none.
func (p *Partition) isUnseeded(from int64) bool {
	end := p.log.EndOffset()
	return from == 0 && end > 0 && p.log.HeldFrom() == end
}
