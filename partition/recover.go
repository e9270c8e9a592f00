package partition

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
)

// rebuild makes the producer state from the newest valid snapshot and every batch behind it,
// through the same apply as live; and the transaction index from the same snapshot on. Below it the
// index is on stable storage, since that came before the snapshot. What it says above may be of
// markers that the log has lost, or lack some: that is made anew from the markers.
func (p *Partition) rebuild() (*producers, error) {
	now := time.Now().UnixMilli()
	s, from, err := p.loadSnapshot(now)
	if err != nil {
		return nil, err
	}
	if len(s.m) > 0 {
		s.unread = from
	}
	start, end := p.log.StartOffset(), p.log.EndOffset()
	aborted, err := p.replayAborted(s, from, end, now)
	if err != nil {
		return nil, err
	}
	if err := p.log.ResetAborted(from, aborted); err != nil {
		return nil, err
	}
	known, err := p.log.AbortedTxns(start, end)
	if errors.Is(err, ErrCorrupt) {
		p.logger.Warn("transaction index is damaged, and made anew from the log", slog.String("topic", p.tp.Topic),
			slog.Int("partition", int(p.tp.Partition)), slog.Any("err", err))
		if known, err = p.replayAborted(p.newState(), 0, end, now); err == nil {
			err = p.log.ResetAborted(0, known)
		}
	}
	if err != nil {
		return nil, err
	}
	p.anyAborted.Store(len(known) > 0)
	p.unseeded.Store(p.isUnseeded(from))
	return s, nil
}

// replayAborted is replay that returns the aborted transactions, in order of their markers.
func (p *Partition) replayAborted(s *producers, from, to, now int64) (aborted []segment.AbortedTxn, err error) {
	err = p.replay(s, from, to, now, func(t endedTxn) {
		if t.aborted {
			aborted = append(aborted, t.entry())
		}
	})
	return aborted, err
}

func (p *Partition) newState() *producers {
	s := newProducers(time.Duration(p.expiry.Load()))
	s.verifies = p.verify != nil
	return s
}

// loadSnapshot returns the state in the newest valid snapshot at or below the log end, and its
// offset; an empty state and 0 if there is none. Snapshots that are damaged, or from beyond the
// end, which the log has lost, are removed; one that cannot be read is not: the batches that it
// stands for may be gone.
func (p *Partition) loadSnapshot(now int64) (*producers, int64, error) {
	end := p.log.EndOffset()
	offsets, err := p.log.SnapshotFiles()
	if err != nil {
		return nil, 0, err
	}
	for _, offset := range slices.Backward(offsets) {
		err := errors.New("beyond the log end")
		if offset <= end {
			data, readErr := p.log.ReadSnapshot(offset)
			if readErr != nil {
				return nil, 0, readErr
			}
			s := p.newState()
			if err = s.load(data, now); err == nil {
				return s, offset, nil
			}
		}
		p.logger.Warn("producer snapshot removed", slog.String("topic", p.tp.Topic), slog.Int("partition", int(p.tp.Partition)),
			slog.Int64("offset", offset), slog.Any("err", err))
		if err := p.log.RemoveSnapshot(offset); err != nil {
			return nil, 0, err
		}
	}
	return p.newState(), 0, nil
}

// replay takes the batches from offset from to offset to into s, also those below the log start
// that are still held. ended, unless nil, is told the transactions that ended in between.
func (p *Partition) replay(s *producers, from, to, now int64, ended func(endedTxn)) error {
	if from >= to {
		return nil
	}
	for b, err := range p.log.Held(from) {
		switch {
		case err != nil:
			return err
		case b.BaseOffset >= to:
			return nil
		case b.LastOffset() < from || !b.HasProducerID():
			continue
		case !b.IsControl():
			s.apply(b, b.BaseOffset, now)
			continue
		}
		m, ok, err := readMarker(b)
		if err != nil {
			return err
		}
		if !ok {
			s.fence(b, now)
			continue
		}
		if txn, ok := s.mark(m, now); ok && ended != nil {
			ended(txn)
		}
	}
	return nil
}

// readMarker reads a control batch; ok is false if it is none that ends a transaction.
func readMarker(b *record.Batch) (m marker, ok bool, err error) {
	kind, coordinatorEpoch, err := b.Control()
	switch {
	case errors.Is(err, record.ErrEmpty): // compaction has dropped the marker and kept the header
		return marker{}, false, nil
	case err != nil:
		return marker{}, false, err
	case kind != record.ControlAbort && kind != record.ControlCommit:
		return marker{}, false, nil
	}
	return marker{
		producerID: b.ProducerID, epoch: b.ProducerEpoch, coordinatorEpoch: coordinatorEpoch,
		offset: b.BaseOffset, timestamp: b.MaxTimestamp, aborted: kind == record.ControlAbort,
	}, true, nil
}
