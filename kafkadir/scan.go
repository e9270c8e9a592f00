package kafkadir

import (
	"errors"
	"io"
	"math"
	"os"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

const (
	windowBytes   = 1 << 20
	maxLogBytes   = math.MaxInt32 + 64<<20 // a segment and reserved space behind it
	maxBatchBytes = 512 << 20              // larger than any batch that a broker takes; bounds memory
)

// An ending is where the whole batches of a file end.
type ending struct {
	pos   int64  // bytes of whole batches
	next  int64  // offset after the last one; the start that was given, if there is none
	rest  int64  // bytes behind them, without zeros that a broker has reserved
	why   string // the fault of the first of these bytes; "": there are none
	later bool   // and there is a whole batch behind it
	old   bool   // it is a batch of an older format
}

// scanLog calls visit for every batch of a file of batches, whose CRC is right and whose offsets
// grow, from the offset start on. The batch aliases a buffer that the next one overwrites. The
// error is visit's, or one of the disk.
func scanLog(fsys vfs.FS, path string, start int64, visit func(*record.Batch) error) (e ending, err error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return e, err
	}
	if size > maxLogBytes {
		return e, damaged(path, "%d bytes, and a segment has at most %d", size, math.MaxInt32)
	}
	w := &window{f: f, size: size}
	e.next = start
	for e.pos < size {
		b, why, err := w.batch(e.pos)
		if err != nil {
			return e, err
		}
		if why == "" && b.BaseOffset < e.next {
			why = "offsets go back"
		}
		if why != "" {
			return e, w.judge(&e, why)
		}
		if err := visit(b); err != nil {
			return e, err
		}
		e.pos, e.next = e.pos+int64(b.Size()), b.NextOffset()
	}
	return e, nil
}

// A window is a part of a file.
type window struct {
	f    vfs.File
	size int64
	at   int64 // position of buf
	buf  []byte
}

// bytes returns n bytes of the file from pos on, fewer at its end. They are good until the next
// call.
func (w *window) bytes(pos int64, n int) ([]byte, error) {
	n = int(min(int64(n), w.size-pos))
	if pos >= w.at && pos+int64(n) <= w.at+int64(len(w.buf)) {
		return w.buf[pos-w.at:][:n], nil
	}
	want := int(min(int64(max(n, windowBytes)), w.size-pos))
	if cap(w.buf) < want {
		w.buf = make([]byte, want)
	}
	w.at, w.buf = pos, w.buf[:want]
	got, err := w.f.ReadAt(w.buf, pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	w.buf = w.buf[:got]
	return w.buf[:min(n, got)], nil
}

// batch returns the batch at pos, or why there is none.
func (w *window) batch(pos int64) (b *record.Batch, why string, err error) {
	head, err := w.bytes(pos, record.HeaderSize)
	if err != nil {
		return nil, "", err
	}
	h, err := record.ParseHeader(head)
	if err != nil {
		return nil, err.Error(), nil
	}
	switch {
	case int64(h.Size()) > w.size-pos:
		return nil, "the file ends inside of a batch", nil
	case h.Size() > maxBatchBytes:
		return nil, "length of a batch", nil
	}
	p, err := w.bytes(pos, h.Size())
	if err != nil {
		return nil, "", err
	}
	if b, _, err = record.Parse(p); err != nil {
		return nil, err.Error(), nil
	}
	return b, "", nil
}

// judge describes the bytes behind the last whole batch.
func (w *window) judge(e *ending, why string) error {
	last, err := w.lastNonZero(e.pos)
	if err != nil || last < e.pos {
		return err
	}
	e.rest, e.why = last+1-e.pos, why
	head, err := w.bytes(e.pos, record.HeaderSize)
	if err != nil || len(head) < record.HeaderSize {
		return err
	}
	const magicAt = 16
	e.old = head[magicAt] < 2
	size := int64(record.LogOverhead) + int64(int32(uint32(head[8])<<24|uint32(head[9])<<16|uint32(head[10])<<8|uint32(head[11])))
	if size < record.HeaderSize || e.pos+size >= w.size {
		return nil
	}
	_, bad, err := w.batch(e.pos + size)
	e.later = err == nil && bad == ""
	return err
}

// lastNonZero returns the position of the last byte from pos on that is not zero, less than pos if
// all are.
func (w *window) lastNonZero(pos int64) (last int64, err error) {
	last = pos - 1
	for at := pos; at < w.size; {
		p, err := w.bytes(at, windowBytes)
		if err != nil || len(p) == 0 {
			return last, err
		}
		for i := len(p) - 1; i >= 0; i-- {
			if p[i] != 0 {
				last = at + int64(i)
				break
			}
		}
		at += int64(len(p))
	}
	return last, nil
}
