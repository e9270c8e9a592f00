package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/stratalog/strata/record"
)

// pageBytes is the unit in which a write that a kill interrupts gets into the file.
const pageBytes = 4096

// judge decides whether a crash can have left what follows w.pos, where bytes are no good batch
// because of bad (nil: the file ends there).
func (w *walk) judge(bad error, rep *Report) error {
	zeros, err := w.zerosFrom(w.pos)
	if err != nil {
		return err
	}
	if zeros {
		rep.ZeroBytes = w.size - w.pos
	}
	if !w.full() && w.last >= 0 {
		if torn, err := w.lastIsTorn(zeros); err != nil {
			return err
		} else if torn {
			return w.dropLast(rep)
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
		err = w.tornWrite(bad)
	default:
		err = w.unsyncedTail(bad)
	}
	if err != nil {
		return err
	}
	rep.CutBytes = w.size - w.pos
	return nil
}

// tornWrite returns nil if a process that was killed during its last write can have left what is at
// w.pos: a batch that the file, or what is not zero of it, ends before. A length that only seems to
// reach so far, with batches behind it, is damage.
func (w *walk) tornWrite(bad error) error {
	if errors.Is(bad, errEnd) && w.pos+record.HeaderSize <= w.size {
		return w.lengthHolds(bad)
	}
	if !errors.Is(bad, errEnd) {
		written, err := w.lastNonZero()
		if err != nil {
			return err
		}
		// Into preallocated space a write gets page by page; this one ended before the header did.
		if (written+pageBytes)/pageBytes*pageBytes >= w.pos+record.HeaderSize {
			return w.s.corrupt(w.pos, w.next, bad.Error())
		}
	}
	return w.noneBehind(w.pos+1, bad)
}

// lengthHolds returns nil if the batch at w.pos, whose header is whole and whose length reaches
// beyond the file, was cut off in its write. The valid batches that its payload may hold prove
// nothing: a value can be a copy of a log. If it is the length that is damaged, which no CRC
// covers, then the batch ends where one of those begins, and its CRC says so.
func (w *walk) lengthHolds(bad error) error {
	torn, err := w.header(w.pos)
	if err != nil {
		return err
	}
	sum, from := uint32(0), w.pos+crcCoversFrom
	for pos := w.pos + record.HeaderSize; ; pos++ {
		if pos, err = w.validBatchFrom(pos); err != nil || pos < 0 {
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

// crcCoversFrom is the position in a batch from which on its CRC covers it.
const crcCoversFrom = 21

// checksum goes on with the CRC-32C sum over the bytes of the file from from up to to.
func (w *walk) checksum(sum uint32, from, to int64) (uint32, error) {
	table := crc32.MakeTable(crc32.Castagnoli)
	buf := make([]byte, min(64<<10, to-from))
	for from < to {
		n := min(int64(len(buf)), to-from)
		if err := w.s.readFull(w.f, buf[:n], from); err != nil {
			return 0, err
		}
		sum, from = crc32.Update(sum, table, buf[:n]), from+n
	}
	return sum, nil
}

// unsyncedTail returns nil if a power cut can have left what is at w.pos: nothing valid further
// behind than what was not synced.
func (w *walk) unsyncedTail(bad error) error {
	if w.o.UnsyncedWindow <= 0 || w.o.UnsyncedWindow > w.size-w.pos {
		return nil
	}
	if errors.Is(bad, errEnd) && w.pos+record.HeaderSize <= w.size {
		return w.lengthHolds(bad)
	}
	return w.noneBehind(w.pos+w.o.UnsyncedWindow, bad)
}

func (w *walk) noneBehind(pos int64, bad error) error {
	far, err := w.validBatchFrom(pos)
	if err != nil {
		return err
	}
	if far >= 0 {
		return w.s.corrupt(w.pos, w.next, fmt.Sprintf("%v, yet a valid batch follows at byte %d", bad, far))
	}
	return nil
}

// lastIsTorn reports whether the last batch, whose header is good, was being written into
// preallocated space when the process died: the rest of it, from a page boundary on, is zeros, as
// is everything behind. Any other damage to it is a *CorruptError.
func (w *walk) lastIsTorn(zerosBehind bool) (bool, error) {
	n := int(w.pos - w.last)
	if err := w.fill(w.last, n); err != nil {
		return false, err
	}
	_, _, bad := record.Parse(w.buf[w.last-w.from:][:n])
	if bad == nil {
		return false, nil
	}
	if zerosBehind {
		written, err := w.lastNonZero()
		if err != nil {
			return false, err
		}
		if (written+pageBytes)/pageBytes*pageBytes < w.pos {
			return true, nil
		}
	}
	return false, w.s.corrupt(w.last, w.next, bad.Error())
}

// dropLast walks again, over a file that ends before the last batch.
func (w *walk) dropLast(rep *Report) error {
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

// zerosFrom reports whether the file holds nothing but zeros from pos on.
func (w *walk) zerosFrom(pos int64) (bool, error) {
	w.have = 0
	buf := w.buf[:min(scanBytes, w.size-pos)]
	for pos < w.size {
		n := int(min(int64(len(buf)), w.size-pos))
		if err := w.s.readFull(w.f, buf[:n], pos); err != nil {
			return false, err
		}
		if lastNonZero(buf[:n]) >= 0 {
			return false, nil
		}
		pos += int64(n)
	}
	return true, nil
}

// lastNonZero returns the position of the file's last byte that is not zero, -1 if there is none.
func (w *walk) lastNonZero() (int64, error) {
	w.have = 0
	buf := w.buf[:min(scanBytes, w.size)]
	for end := w.size; end > 0; {
		n := min(int64(len(buf)), end)
		if err := w.s.readFull(w.f, buf[:n], end-n); err != nil {
			return 0, err
		}
		if i := lastNonZero(buf[:n]); i >= 0 {
			return end - n + int64(i), nil
		}
		end -= n
	}
	return -1, nil
}

func lastNonZero(p []byte) int {
	for len(p) >= 8 && binary.NativeEndian.Uint64(p[len(p)-8:]) == 0 {
		p = p[:len(p)-8]
	}
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != 0 {
			return i
		}
	}
	return -1
}

// validBatchFrom looks for a whole valid batch at or behind pos that continues the log; it returns
// its position, -1 if there is none.
func (w *walk) validBatchFrom(pos int64) (int64, error) {
	for ; pos+record.HeaderSize <= w.size; pos++ {
		if err := w.fillScan(pos); err != nil {
			return -1, err
		}
		p := w.buf[pos-w.from : w.have]
		size := int64(int32(binary.BigEndian.Uint32(p[8:]))) + record.LogOverhead
		if p[16] != 2 || size < record.HeaderSize || pos+size > w.size { // quick: most bytes are none
			continue
		}
		b, err := record.ParseHeader(p)
		if err != nil || !w.follows(&b) {
			continue
		}
		whole := make([]byte, size)
		if err := w.s.readFull(w.f, whole, pos); err != nil {
			return -1, err
		}
		if _, _, err := record.Parse(whole); err == nil {
			return pos, nil
		}
	}
	return -1, nil
}

// fillScan makes buf hold a header at pos, reading far ahead.
func (w *walk) fillScan(pos int64) error {
	if pos >= w.from && pos+record.HeaderSize <= w.from+int64(w.have) {
		return nil
	}
	n := int(min(scanBytes, w.size-pos))
	w.have = 0
	if err := w.s.readFull(w.f, w.buf[:n], pos); err != nil {
		return err
	}
	w.from, w.have = pos, n
	return nil
}
