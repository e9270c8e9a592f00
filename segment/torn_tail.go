package segment

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/record"
)

// What follows the last good batch of a file is a torn tail, which a crash left of a write, or
// damage. A torn tail is cut off. Damage is a *CorruptError: a cut would lose records that were
// acknowledged.

// pageBytes is the unit in which a write that a kill interrupts gets into the file.
const pageBytes = 4096

// pageEnd returns where the page that holds pos ends.
func pageEnd(pos int64) int64 { return (pos + pageBytes) / pageBytes * pageBytes }

// checkTail decides whether a crash can have left what follows w.pos, where bytes are no good batch
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
// is at w.pos: a batch that the file, or what is not zero of it, ends before. A length that only
// seems to reach so far, with batches behind it, is damage.
func (w *walk) checkLeftByKill(bad error) error {
	if w.reachesBeyondFile(bad) {
		return w.checkLength(bad)
	}
	if !errors.Is(bad, errEnd) {
		written, err := w.lastNonZero()
		if err != nil {
			return err
		}
		// Into preallocated space a write gets page by page; this one ended before the header did.
		if pageEnd(written) >= w.pos+record.HeaderSize {
			return w.s.corrupt(w.pos, w.next, bad.Error())
		}
	}
	return w.checkNoBatchFrom(w.pos+1, bad)
}

// checkLeftByPowerCut returns nil if a power cut can have left what is at w.pos: nothing valid
// further behind than what was not synced.
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

// checkLength returns nil if the batch at w.pos, whose length reaches beyond the file, was cut off
// in its write. The valid batches that its payload may hold prove nothing: a value can be a copy of
// a log. If it is the length that is damaged, which no CRC covers, then the batch ends where one of
// those begins, and its CRC says so.
func (w *walk) checkLength(bad error) error {
	torn, err := w.header(w.pos)
	if err != nil {
		return err
	}
	sum, from := uint32(0), w.pos+crcCoversFrom
	for pos := w.pos + record.HeaderSize; ; pos++ {
		if pos, err = w.validBatchFrom(pos, w.follows); err != nil || pos < 0 {
			return err
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

// lastBatchIsTorn reports whether the last batch, whose header is good, was being written into
// preallocated space when the process died: the rest of it, from a page boundary on, is zeros, as
// is everything behind. Any other damage to it is a *CorruptError.
func (w *walk) lastBatchIsTorn(zerosBehind bool) (bool, error) {
	n := int(w.pos - w.last)
	if err := w.fill(w.last, n); err != nil {
		return false, err
	}
	_, _, bad := record.Parse(w.at(w.last)[:n])
	if bad == nil {
		return false, nil
	}
	if zerosBehind {
		written, err := w.lastNonZero()
		if err != nil {
			return false, err
		}
		if pageEnd(written) < w.pos {
			return true, nil
		}
	}
	return false, w.s.corrupt(w.last, w.next, bad.Error())
}

// dropLastBatch walks again, over a file that ends before the last batch.
func (w *walk) dropLastBatch(rep *Report) error {
	size, cut := w.size, w.pos-w.last
	if err := w.start(w.last); err != nil {
		return err
	}
	bad, err := w.run()
	if err != nil {
		return err
	}
	if bad != nil { // it was fine a moment ago
		return w.s.corrupt(w.pos, w.next, bad.Error())
	}
	w.size = size
	if w.next < w.o.RecoveryPoint {
		return w.s.corrupt(w.pos, w.next, fmt.Sprintf("an incomplete batch, although everything below offset %d was on stable storage", w.o.RecoveryPoint))
	}
	rep.CutBytes = cut
	return nil
}
