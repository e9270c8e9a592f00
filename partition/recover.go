package partition

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
)

// rebuild builds the producer state from the newest valid snapshot and every later batch, with the
// same apply as for live batches. It also rebuilds the transaction index from that snapshot on.
// Below the snapshot the index is on stable storage, since it was synced before. Above it, the
// index may have entries of markers that the log has lost, or lack some: these are rebuilt from the
// markers.
func (p *Partition) rebuild() (*producers, error) {
	now := time.Now().UnixMilli()
	start, end := p.log.StartOffset(), p.log.EndOffset()
	s, from, err := p.loadSnapshot(end, now)
	if err != nil {
		return nil, err
	}
	p.unchecked.Store(0)
	if from == end {
		p.unchecked.Store(from)
	}
	if len(s.m) > 0 {
		s.unread = from
	}
	aborted, err := p.replayAborted(s, from, end, now)
	if err != nil {
		return nil, err
	}
	if err := p.log.ResetAborted(from, aborted); err != nil {
		return nil, err
	}
	known, err := p.log.AbortedTxns(start, end)
	if err == nil {
		err = p.log.CheckAborted()
	}
	if errors.Is(err, ErrCorrupt) {
		p.logger.Warn("transaction index is damaged, and made anew from the log", slog.String("topic", p.tp.Topic),
			slog.Int("partition", int(p.tp.Partition)), slog.Any("err", err))
		if known, err = p.replayAborted(p.newState(), 0, end, now); err == nil {
			err = p.log.ResetAborted(0, known)
		}
	}
	if err == nil {
		err = p.log.NoteAborted()
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

// loadSnapshot returns the state in the newest valid snapshot at or below end, and its offset; an
// empty state and 0 if there is none. It removes damaged snapshots, snapshots beyond end, whose
// records the log has lost, and snapshots that the log contradicts. An unreadable one is not: its
// batches may be gone. A snapshot at end itself is not compared yet: see checkSnapshot.
func (p *Partition) loadSnapshot(end, now int64) (*producers, int64, error) {
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
			err = s.load(data, now)
			if err == nil && offset < end {
				err = p.agrees(s, offset, now)
			}
			if err == nil {
				return s, offset, nil
			}
		}
		if err := p.dropSnapshot(offset, err); err != nil {
			return nil, 0, err
		}
	}
	return p.newState(), 0, nil
}

// replay applies the batches from offset from to offset to to s, including hidden ones below the
// log start. ended, unless nil, is called for the transactions that ended among them.
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
