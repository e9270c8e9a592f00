package segment

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"sync"

	"github.com/stratalog/strata/record"
)

// errEnd: the file ends before a batch does.
var errEnd = errors.New("the file ends before the batch does")

// windowBytes is the number of bytes that a window reads at once.
const windowBytes = 128 << 10

// windowBuffers holds the buffers of windows: a start of many logs after a kill would spend more on
// allocating one for each than on reading. A buffer belongs to one recovery from Get to Put;
// batches shown to RecoverOptions.Batch alias it.
var windowBuffers = sync.Pool{New: func() any { return new([windowBytes]byte) }}

// A window is the part of a .log file that is in memory while recovery looks at it. The file may
// end anywhere, and any byte may be wrong. One goroutine uses it, the holder of f.
type window struct {
	s       *Segment
	f       *openFile
	size    int64 // of the file, as far as it is looked at
	readAll bool  // every byte is going to be looked at: as much is read at once as buf takes
	buf     []byte
	from    int64 // buf[:have] holds the file from here on
	have    int
}

// fill makes buf hold [pos, pos+n); errEnd if the file does not.
func (w *window) fill(pos int64, n int) error {
	if pos+int64(n) > w.size {
		return errEnd
	}
	if w.holds(pos, n) {
		return nil
	}
	if n > len(w.buf) {
		w.buf = make([]byte, n)
	}
	return w.load(pos, w.readAhead(pos, n))
}

// holds reports whether buf has [pos, pos+n).
func (w *window) holds(pos int64, n int) bool {
	return pos >= w.from && pos+int64(n) <= w.from+int64(w.have)
}

// readAhead returns how many bytes to read at pos, n or more. A walk that skips from header to
// header reads far ahead only while several of them are in the window.
func (w *window) readAhead(pos int64, n int) int {
	if w.readAll {
		return len(w.buf)
	}
	ahead := 4 * w.have
	if pos > w.from+int64(w.have) {
		ahead = 0
	}
	return min(max(ahead, n, 4096), max(n, scanBytes), len(w.buf))
}

// load reads n bytes at pos to buf, or as many as the file has.
func (w *window) load(pos int64, n int) error {
	m := int(min(int64(n), w.size-pos))
	w.have = 0
	if err := w.s.readFull(w.f, w.buf[:m], pos); err != nil {
		return err
	}
	w.from, w.have = pos, m
	return nil
}

// at returns what buf has from pos on.
func (w *window) at(pos int64) []byte { return w.buf[pos-w.from : w.have] }

// header reads the header at pos; errEnd if the file ends before it does.
func (w *window) header(pos int64) (record.Batch, error) {
	if err := w.fill(pos, record.HeaderSize); err != nil {
		return record.Batch{}, err
	}
	return record.ParseHeader(w.at(pos))
}

// validBatchFrom looks, byte by byte, for a whole valid batch at or behind pos that follows
// accepts. It returns the batch's position, -1 if there is none.
func (w *window) validBatchFrom(pos int64, follows func(b *record.Batch) bool) (int64, error) {
	for ; pos+record.HeaderSize <= w.size; pos++ {
		if !w.holds(pos, record.HeaderSize) {
			if err := w.load(pos, scanBytes); err != nil {
				return -1, err
			}
		}
		p := w.at(pos)
		size := int64(int32(binary.BigEndian.Uint32(p[8:]))) + record.LogOverhead
		// At most positions there is no header of magic 2.
		if p[16] != 2 || size < record.HeaderSize || pos+size > w.size {
			continue
		}
		b, err := record.ParseHeader(p)
		if err != nil || !follows(&b) {
			continue
		}
		all := make([]byte, size)
		if err := w.s.readFull(w.f, all, pos); err != nil {
			return -1, err
		}
		if _, _, err := record.Parse(all); err == nil {
			return pos, nil
		}
	}
	return -1, nil
}

// zerosFrom reports whether the file holds nothing but zeros from pos on.
func (w *window) zerosFrom(pos int64) (bool, error) {
	for ; pos < w.size; pos += int64(w.have) {
		if err := w.load(pos, scanBytes); err != nil {
			return false, err
		}
		if lastNonZero(w.at(pos)) >= 0 {
			return false, nil
		}
	}
	return true, nil
}

// lastNonZero returns the position of the file's last byte that is not zero, -1 if there is none.
func (w *window) lastNonZero() (int64, error) {
	for end := w.size; end > 0; end = w.from {
		pos := max(end-scanBytes, 0)
		if err := w.load(pos, int(end-pos)); err != nil {
			return 0, err
		}
		if i := lastNonZero(w.at(pos)); i >= 0 {
			return pos + int64(i), nil
		}
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

// crcCoversFrom is the position in a batch from which on its CRC covers it.
const crcCoversFrom = 21

// checksum continues the CRC-32C sum over the bytes of the file between from and to.
func (w *window) checksum(sum uint32, from, to int64) (uint32, error) {
	buf := make([]byte, min(64<<10, to-from))
	for from < to {
		n := min(int64(len(buf)), to-from)
		if err := w.s.readFull(w.f, buf[:n], from); err != nil {
			return 0, err
		}
		sum, from = crc32.Update(sum, castagnoli, buf[:n]), from+n
	}
	return sum, nil
}
