package log

import (
	"errors"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/recovery"
)

// segments opens the segments of the plan. Data that a crash can have left unsynced is synced, or
// is added to the list of data to sync.
func (o *opening) segments(plan recovery.Plan) (list []*segment.Segment, err error) {
	defer func() {
		if err != nil {
			for _, s := range list {
				err = errors.Join(err, s.Close())
			}
		}
	}()
	for _, seg := range plan.Segments {
		s, err := o.segment(seg)
		if err != nil {
			return list, err
		}
		if kept, ok := o.facts.State.Find(seg.Base); ok {
			s.NoteAborted(kept.Aborted)
		}
		list = append(list, s)
	}
	return list, nil
}

// keepsReserve reports whether a segment that was scanned stays as it is, with the
// space reserved behind its end. Under another policy than SyncOnAck it would not be
// given back durably when the log rolls.
func (o *opening) keepsReserve(seg recovery.Segment, s *scanned) bool {
	active := seg.Next < 0
	return active && o.cfg.Sync == SyncOnAck && s.report.CutBytes == 0 && s.Allocated()-s.Size() <= keptReserve
}

// keptReserve is how much space behind the end of a log that was not closed in order stays
// reserved. More is given back: the log may not be written to for long.
const keptReserve = 1 << 20

func (o *opening) segment(seg recovery.Segment) (s *segment.Segment, err error) {
	l := o.log
	had, wasScanned := o.scanned[seg.Base]
	kept := false // the file is unchanged
	if wasScanned && had.suffix == "" {
		delete(o.scanned, seg.Base)
		s = had.Segment
		if kept = o.keepsReserve(seg, &had); kept {
			err = s.KeepTail()
		} else {
			err = s.CutTail()
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	} else { // it has its own name now
		options := o.known(seg)
		options.Clean, options.NextOffset, options.Size = true, seg.NextOffset, seg.Size
		s, err = segment.Open(l.path, seg.Base, o.config(""), options)
		if err != nil {
			return nil, err
		}
		if seg.Next < 0 && seg.Unsynced && !l.recovery.SameBoot && !options.NoIndexes {
			// It is empty, so it was not scanned. But a power failure can have removed its batches,
			// and left their index entries.
			if _, err := s.Recover(segment.RecoverOptions{Active: true}); err != nil {
				return nil, errors.Join(err, s.Close())
			}
		}
	}
	if !seg.Unsynced {
		return s, nil
	}
	if kept && o.replayed.tag != 0 && o.replayed.tag == o.facts.State.JournalTag {
		s.MarkSynced() // by the replay, with all its records
		o.synced = true
		return s, nil
	}
	s.MarkUnsynced()
	if seg.Next >= 0 && !wasScanned {
		l.durability.dirty = append(l.durability.dirty, s)
		return s, nil
	}
	// A cut, by this process or by a killed one, must be on the disk before the state has the log's
	// end here.
	if err := s.Sync(); err != nil { // the next open must not rely on the next sync
		l.durability.set(o.facts.State.RecoveryPoint)
		l.noteSuspect()
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
