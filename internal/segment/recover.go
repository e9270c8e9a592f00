package segment

import (
	"fmt"

	"github.com/stratalog/strata/record"
)

// RecoverOptions are the facts by which Recover distinguishes a torn tail from damage.
type RecoverOptions struct {
	// SameBoot means that the machine has not been restarted since the segment was written, so that
	// no written byte is lost: only an incomplete last batch, or zeros after the last one, can be
	// torn. Headers are walked from the last index entry; CRCs are verified on read.
	SameBoot bool
	// RecoveryPoint is the offset below which everything was on stable storage: nothing below it
	// can be torn.
	RecoveryPoint int64
	// UnsyncedWindow is the maximum number of bytes that can have been written but not synced.
	// Valid data further than that after an invalid byte proves damage. It is used without
	// SameBoot. 0 means unlimited: the segment is truncated at the first invalid byte.
	UnsyncedWindow int64
	// Gapless means that batches leave no offset out: a batch that does is invalid.
	Gapless bool
	// Below is the base of the next segment: offsets from there on do not belong to this segment. 0
	// means that there is none, or that it is unknown.
	Below int64
	// Full verifies every byte and rebuilds the indexes, also with SameBoot.
	Full bool
	// KeepTail leaves the bytes of the torn tail in the file, for files that must not be changed,
	// or not yet. The end of the segment is before them all the same, and CutTail removes them.
	KeepTail bool
	// Active means that the segment will receive appends. Then a few index entries that the files
	// lack stay in memory, as in any active segment: after a kill, an open need not create two
	// files for each of many segments.
	Active bool
	// Batch, if set, is called for every batch of the segment, in order. The Batch has records only
	// if its CRC was verified.
	Batch func(b *record.Batch) error
}

// A Report is the result of Recover.
type Report struct {
	Batches      int   // batches visited
	ScannedBytes int64 // from the first of them to the end
	CutBytes     int64 // removed after the last valid batch, not counting zeros
	CutAt        int64 // file position of the cut
	ZeroBytes    int64 // preallocated tail
	RebuiltIndex bool  // the index files disagreed with the batches
}

// Recover finds the end of a segment that was not closed cleanly. It walks the batches, removes the
// torn bytes after the last valid one, and completes the indexes. It returns a *CorruptError, and
// changes nothing, if there are invalid bytes that no crash can explain.
//
// Damage to the very last batch, above the recovery point, cannot be distinguished from a torn
// write. With SameBoot there are only two such cases, both with nothing but zeros after the batch.
// In the first, the batch ends with zeros, and more than its length or one bit is damaged. In the
// second, it ends with so many zeros that a write may have ended in an earlier page.
//
// Only the writer may call Recover, before anything else. It syncs neither the cut nor the batches
// that it found: the next Sync does.
func (s *Segment) Recover(o RecoverOptions) (rep Report, err error) {
	err = s.withFile(func(f *openFile) (err error) {
		rep, err = s.recover(f, o)
		return err
	})
	if err != nil {
		return rep, fmt.Errorf("recover: %w", err)
	}
	return rep, nil
}

func (s *Segment) recover(f *openFile, o RecoverOptions) (rep Report, err error) {
	size, err := f.file.Size()
	if err != nil {
		return rep, err
	}
	buf := windowBuffers.Get().(*[windowBytes]byte)
	defer windowBuffers.Put(buf)
	w := &walk{window: window{s: s, f: f, size: size, buf: buf[:], readAll: o.checksCRC()}, o: o}
	if s.noIndexes {
		w.old = index{loaded: true}
	} else if w.old, err = s.readIndexes(size); err != nil {
		return rep, err
	}
	if err := w.recover(&rep); err != nil {
		return rep, err
	}
	s.indexStays = o.Active && w.keepsIndex()
	s.indexInDoubt = o.checksCRC() && !s.noIndexes
	switch {
	case s.cfg.ReadOnly:
		s.reloadAborted()
		return rep, nil
	case o.KeepTail:
		return rep, nil
	}
	return rep, s.finishRecovery()
}

// recover walks the batches, decides about the bytes after them, and publishes the result.
func (w *walk) recover(rep *Report) error {
	if err := w.start(w.size); err != nil {
		return err
	}
	bad, err := w.run()
	if err != nil {
		return err
	}
	if err := w.checkTail(bad, rep); err != nil {
		return err
	}
	return w.finish(rep)
}

// CutTail completes a Recover with KeepTail: it truncates the file after its last valid batch and
// completes the indexes. Only the writer may call it, before anything else. The cut is not synced:
// the next Sync does that.
func (s *Segment) CutTail() error {
	err := s.withFile(func(f *openFile) error {
		size := s.Size()
		if s.Allocated() <= size {
			return nil
		}
		if err := f.file.Truncate(size); err != nil {
			return fmt.Errorf("cut %s to %d bytes: %w", s.Path(), size, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.alloc = size
		return nil
	})
	if err == nil {
		err = s.finishRecovery()
	}
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}

// KeepTail is CutTail, but keeps the preallocated space after the end, which has only zeros, for
// later appends. Close, Finish and TrimTail free it. Only the writer may call it, before anything
// else.
func (s *Segment) KeepTail() error {
	s.mu.Lock()
	s.untrimmed = s.alloc > s.published().size
	s.mu.Unlock()
	if err := s.finishRecovery(); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}

// finishRecovery brings the indexes in line with the end. The transaction index stays: the log
// cuts its entries of markers behind the end, once the end is on stable storage.
func (s *Segment) finishRecovery() error {
	if s.indexInDoubt {
		if err := s.settleIndexes(s.published()); err != nil {
			return err
		}
	}
	if s.indexStays {
		return nil
	}
	if s.flushIndex(flushFinal) == nil { // as Kafka does; where it fails the entries stay in memory
		s.mu.Lock()
		s.dropIndexLocked()
		s.mu.Unlock()
	}
	return nil
}
