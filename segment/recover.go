package segment

import (
	"fmt"

	"github.com/stratalog/strata/record"
)

// RecoverOptions are the facts by which Recover tells a torn tail from damage.
type RecoverOptions struct {
	// SameBoot says that the machine has not been restarted since the segment was written, so that
	// what was written is there: only an incomplete last batch, or zeros behind the last one, can
	// be torn. Headers are walked from the last index entry; CRCs are checked when read.
	SameBoot bool
	// RecoveryPoint is the offset below which everything was on stable storage: nothing below it
	// can be torn.
	RecoveryPoint int64
	// UnsyncedWindow is the most bytes that can have been written and not synced. Valid data
	// further behind an invalid byte than that proves damage. Used without SameBoot. 0: unlimited,
	// the first invalid byte is where it is cut.
	UnsyncedWindow int64
	// Gapless says that no batch leaves an offset out: one that does is no good batch.
	Gapless bool
	// Below is where the next segment begins: an offset from there on is none of this one's. 0:
	// there is none, or it is not known.
	Below int64
	// Full checks every byte and builds the indexes anew, whatever SameBoot says.
	Full bool
	// KeepTail leaves bytes that would be cut alone, for files that must not be changed, or not
	// yet: the end is before them all the same, and CutTail takes them away.
	KeepTail bool
	// Active says that the segment goes on taking appends. A few index entries that the files lack
	// stay in memory then, as those of any active segment do: an open after a kill need not create
	// two files for each of many segments.
	Active bool
	// Batch, if set, is called for every batch looked at, in order; the Batch's records are there
	// only if its CRC was checked. All batches are looked at then.
	Batch func(b *record.Batch) error
}

// A Report says what Recover found.
type Report struct {
	Batches      int   // looked at
	ScannedBytes int64 // from the first of them to the end
	CutBytes     int64 // behind the last good batch, not counting zeros
	CutAt        int64 // file position of the cut
	ZeroBytes    int64 // preallocated tail
	RebuiltIndex bool  // the index files did not have what the batches say
}

// Recover finds the end of a segment that was not closed in order: it walks the batches, cuts what
// a crash left behind the last good one, and completes the indexes. It returns *CorruptError, and
// changes nothing, if there are invalid bytes that no crash can explain.
//
// Not told from a torn write, because nothing in the file tells: damage to the very last batch,
// where it is above the recovery point. With SameBoot that is so only where the file goes on with
// zeros, the batch ends with some, and more is damaged than its length or one bit; or where it ends
// with so many that a write may have ended in an earlier page. For the writer, before anything
// else. The cut is not synced, nor is what was found: the next Sync does that.
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

// recover walks the batches, decides about what follows them, and publishes the result.
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

// CutTail does what Recover with KeepTail has left to do: it cuts the file behind its last good
// batch and completes the indexes. For the writer, before anything else. The cut is not synced: the
// next Sync does that.
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

// KeepTail is CutTail that leaves the space reserved behind the end, which holds
// nothing but zeros, for the appends to come. Close, Finish and TrimTail give it back.
// For the writer, before anything else.
func (s *Segment) KeepTail() error {
	s.mu.Lock()
	s.untrimmed = s.alloc > s.published().size
	s.mu.Unlock()
	if err := s.finishRecovery(); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}

// finishRecovery brings the indexes in line with the end. Not the transaction index: what that says
// of markers behind the end is for the log to cut, once the end is on stable storage.
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
