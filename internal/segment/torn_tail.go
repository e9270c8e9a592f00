package segment

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stratalog/strata/record"
)

// The bytes after the last good batch of a file are a torn tail, which a crash left of a write, or
// damage. A torn tail is cut off. Damage is a *CorruptError: a cut would lose records that were
// acknowledged.

// checkTail decides whether a crash can have left the bytes from w.pos on, which are no good batch
// because of bad (nil: the file ends there). If so, w ends behind the last batch that counts.
func (w *walk) checkTail(bad error, rep *Report) error {
	zeros, err := w.zerosFrom(w.pos)
	if err != nil {
		return err
	}
	if zeros {
		rep.ZeroBytes = w.size - w.pos
	}
	if !w.o.checksCRC() && w.last >= 0 {
		if torn, err := w.lastBatchIsTorn(zeros); err != nil {
			return err
		} else if torn {
			return w.dropLastBatch(rep)
		}
	}
	switch {
	case bad == nil:
		return nil
	case zeros && w.next >= w.o.RecoveryPoint:
		return nil
	case w.next < w.o.RecoveryPoint:
		return w.s.corrupt(w.pos, w.next, fmt.Sprintf("%v, although everything below offset %d was on stable storage", bad, w.o.RecoveryPoint))
	case w.o.SameBoot:
		err = w.checkLeftByKill(bad)
	default:
		err = w.checkLeftByPowerCut(bad)
	}
	if err != nil {
		return err
	}
	rep.CutBytes = w.size - w.pos
	return nil
}

// checkLeftByKill returns nil if a process that was killed during its last write can have left what
// is at w.pos: a batch that is cut off by the end of the file, or by the zeros which the file ends
// with. A length that only seems to reach so far, with batches behind it, is damage.
func (w *walk) checkLeftByKill(bad error) error {
	if w.reachesBeyondFile(bad) {
		return w.checkLength(bad)
	}
	if !errors.Is(bad, errEnd) {
		written, err := w.lastNonZero()
		if err != nil {
			return err
		}
		// A write into preallocated space stores its bytes from the first to the last; this one
		// stopped inside the header. A whole batch is longer than a header, and its bytes behind
		// the header are not all zeros.
		if written >= w.pos+record.HeaderSize {
			return w.s.corrupt(w.pos, w.next, bad.Error())
		}
	}
	return w.checkNoBatchFrom(w.pos+1, bad)
}

// checkLeftByPowerCut returns nil if a power cut can have left the bytes at w.pos: no valid batch
// begins after the unsynced window.
func (w *walk) checkLeftByPowerCut(bad error) error {
	if w.o.UnsyncedWindow <= 0 || w.o.UnsyncedWindow > w.size-w.pos {
		return nil
	}
	if w.reachesBeyondFile(bad) {
		return w.checkLength(bad)
	}
	return w.checkNoBatchFrom(w.pos+w.o.UnsyncedWindow, bad)
}

// reachesBeyondFile reports whether the header at w.pos is whole and its length reaches beyond the
// end of the file.
func (w *walk) reachesBeyondFile(bad error) bool {
	return errors.Is(bad, errEnd) && w.pos+record.HeaderSize <= w.size
}

// checkLength returns nil if the batch at w.pos, whose length reaches beyond the file, is the start
// of an interrupted write. Valid batches in its payload prove nothing: a value can be a copy of a
// log. But no CRC covers the length. If it is damaged, the batch ends where a valid batch begins,
// and the batch's CRC matches up to there.
func (w *walk) checkLength(bad error) error {
	torn, err := w.header(w.pos)
	if err != nil {
		return err
	}
	sum, from := uint32(0), w.pos+crcCoversFrom
	for pos := w.pos + record.HeaderSize; ; pos++ {
		if pos, err = w.validBatchFrom(pos, w.follows); err != nil {
			return err
		}
		if pos < 0 {
			return w.checkOtherLength(w.pos, bad)
		}
		if sum, err = w.checksum(sum, from, pos); err != nil {
			return err
		}
		if from = pos; sum == torn.CRC {
			return w.s.corrupt(w.pos, w.next, fmt.Sprintf("%v, yet it is whole if it ends at byte %d, where a valid one follows", bad, pos))
		}
	}
}

// checkNoBatchFrom returns nil if no valid batch is at or behind pos.
func (w *walk) checkNoBatchFrom(pos int64, bad error) error {
	far, err := w.validBatchFrom(pos, w.follows)
	if err != nil {
		return err
	}
	if far >= 0 {
		return w.s.corrupt(w.pos, w.next, fmt.Sprintf("%v, yet a valid batch follows at byte %d", bad, far))
	}
	return nil
}

// checkOtherLength returns a *CorruptError if only the length of the bad batch at pos is damaged,
// which no CRC covers. Then the batch is whole with another length, with which it ends after the
// last byte of the file that is not zero.
func (w *walk) checkOtherLength(pos int64, bad error) error {
	written, err := w.lastNonZero()
	if err != nil {
		return err
	}
	from := max(written+1, pos+record.HeaderSize)
	end := min(w.size, from+mostZeroBytes)
	if from > end || from-pos > mostBatchBytes {
		return nil
	}
	p := make([]byte, end-pos)
	if err := w.s.readFull(w.f, p, pos); err != nil {
		return err
	}
	if n := wholeAt(p, int(from-pos)); n > 0 {
		return w.s.corrupt(pos, w.next, fmt.Sprintf("%v, yet the batch is whole if it has %d bytes", bad, n))
	}
	return nil
}

const (
	mostBatchBytes = 64 << 20 // larger ones are not looked at
	// mostZeroBytes is the greatest number of zeros at the end of a batch with a damaged length
	// that recovery recognises.
	mostZeroBytes = 64 << 10
	// mostBitBytes bounds the missing bytes of a batch that is checked for one damaged bit.
	// The longer a torn batch is, the more often a bit is found that makes its CRC right by chance.
	mostBitBytes = 4096
)

// lastBatchIsTorn reports whether the last batch, whose header is good, was being written into
// preallocated space when the process died. Then the rest of the batch is zeros, as is everything
// behind it. Any other damage to it is a *CorruptError. A whole batch may also end with zeros. So
// if a change of one bit or of the length makes the batch whole, it is damaged, and not torn.
func (w *walk) lastBatchIsTorn(zerosBehind bool) (bool, error) {
	n := int(w.pos - w.last)
	if err := w.fill(w.last, n); err != nil {
		return false, err
	}
	_, _, bad := record.Parse(w.at(w.last)[:n])
	if bad == nil {
		return false, nil
	}
	if !zerosBehind {
		return false, w.s.corrupt(w.last, w.next, bad.Error())
	}
	p := slices.Clone(w.at(w.last)[:n])
	written, err := w.lastNonZero()
	if err == nil {
		err = w.checkOtherLength(w.last, bad)
	}
	switch {
	case err != nil:
		return false, err
	case w.pos-1-written >= mostBitBytes:
		return true, nil
	case written == w.pos-1 || wholeWithOneBitFlipped(p):
		return false, w.s.corrupt(w.last, w.next, bad.Error())
	}
	return true, nil
}

// dropLastBatch walks again, over a file that ends before the last batch. The batch before it was
// whole when the last one was written. If it no longer is, the disk has damaged it, and
// dropLastBatch returns a *CorruptError: the next recovery would consider the batch torn.
func (w *walk) dropLastBatch(rep *Report) error {
	size, cut := w.size, w.pos-w.last
	if err := w.start(w.last); err != nil {
		return err
	}
	bad, err := w.run()
	if err != nil {
		return err
	}
	if bad != nil { // the walk before found no fault in it
		return w.s.corrupt(w.pos, w.next, bad.Error())
	}
	w.size = size
	if w.last >= 0 {
		n := int(w.pos - w.last)
		if err := w.fill(w.last, n); err != nil {
			return err
		}
		if _, _, bad := record.Parse(w.at(w.last)[:n]); bad != nil {
			return w.s.corrupt(w.last, w.next, fmt.Sprintf("%v, and the batch behind it is incomplete", bad))
		}
	}
	if w.next < w.o.RecoveryPoint {
		return w.s.corrupt(w.pos, w.next, fmt.Sprintf("an incomplete batch, although everything below offset %d was on stable storage", w.o.RecoveryPoint))
	}
	rep.CutBytes = cut
	return nil
}
