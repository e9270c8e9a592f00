package kafkafile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/stratalog/strata/record"
)

// A Visitor receives the contents of a log file in order. Each function may be nil. An error that
// one returns ends the scan.
type Visitor struct {
	// Batch receives the position of a batch with a valid CRC, and the batch, which is borrowed.
	Batch func(pos int64, b *record.Batch) error
	// Damage receives a range of bytes that are no batch.
	Damage func(d Damage) error
	// Rewritten is called if the file was truncated below pos and written again after batches up to
	// pos were visited. The scan continues with the first batch at or after next.
	Rewritten func(pos, next int64) error
}

// Damage is a malformed range of bytes.
type Damage struct {
	Pos, Size int64
	Reason    string
	// Last is set if only zeros follow, so that it may be an interrupted write of a crash.
	Last bool
}

// An End is the end of a log file.
type End struct {
	Pos   int64 // position after the last valid batch
	Zeros int64 // bytes of preallocated space at the end of the file
	Size  int64 // of the file, which may have changed since the scan began
}

// ScanLog reads a .log file of size bytes batch by batch. After damage it continues with the next
// valid batch. It returns read errors, errors of the visitor, and one that matches ErrDamaged if
// the file is larger than a segment can be: the search for its last batch might take hours.
func ScanLog(r io.ReaderAt, size int64, v Visitor) (End, error) {
	if size > maxLogBytes {
		return End{}, damaged("%d bytes, and a segment has at most %d", size, math.MaxInt32)
	}
	s := scanner{r: r, size: size, v: v}
	for s.pos < s.size {
		if err := s.step(); err != nil {
			return s.end, err
		}
	}
	s.end.Size = s.size
	return s.end, nil
}

// maxLogBytes is the largest file that is read: positions in a segment are int32, and reserved
// space may follow the last batch.
const maxLogBytes = math.MaxInt32 + 64<<20

type scanner struct {
	r    io.ReaderAt
	size int64
	v    Visitor
	pos  int64
	end  End
	buf  []byte
	next int64 // least base offset that the next batch can have
	last seen  // the batch that ends at pos; none if resync has found the batch at pos
}

// seen is a batch that was visited.
type seen struct {
	pos, base int64
	size      int
	crc       uint32
}

// step visits the batch at s.pos, or the damage in its place.
func (s *scanner) step() error {
	b, err := s.batchAt(s.pos)
	for try := 0; err != nil && try < lookAgain && s.follow(); try++ {
		b, err = s.batchAt(s.pos)
	}
	if s.pos >= s.size { // the file was truncated
		return nil
	}
	var bad *badBatch
	switch {
	case err == nil:
		if s.v.Batch != nil {
			if err := s.v.Batch(s.pos, b); err != nil {
				return err
			}
		}
		s.next = b.NextOffset()
		s.last = seen{s.pos, b.BaseOffset, b.Size(), b.CRC}
		s.pos += int64(b.Size())
		s.end.Pos = s.pos
		return nil
	case errors.As(err, &bad):
		err = s.skip(bad)
		if _, ok := s.r.(sizer); ok && errors.Is(err, io.EOF) { // truncated meanwhile
			s.follow()
			return nil // the next step reads again from here, if bytes are left
		}
	}
	return err
}

// A sizer is a file, whose size may have changed since the scan began.
type sizer interface{ Size() (int64, error) }

// Bytes that are no batch may be an incomplete batch of a writer, or it may be truncating the file
// there. They are read up to lookAgain times more, lookPause apart, before they count as damage.
const (
	lookAgain = 4
	lookPause = time.Millisecond
)

// follow waits lookPause for a writer at s.pos, and then reads the file's size. It returns false if
// no writer can be at s.pos, or if the file then ends there.
func (s *scanner) follow() bool {
	f, ok := s.r.(sizer)
	if !ok { // not a file
		return false
	}
	data, err := lastNonZero(s.r, s.pos, s.size)
	if data < 0 && err == nil { // reserved space
		return false
	}
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the file was truncated meanwhile
		return false
	}
	time.Sleep(lookPause)
	size, err := f.Size()
	if err != nil {
		return false
	}
	s.size = size
	return s.pos < size
}

// badBatch is the reason why there is no valid batch at a position. size is its apparent size; 0:
// unknown.
type badBatch struct {
	reason string
	size   int64
}

func (e *badBatch) Error() string { return e.reason }

// batchAt reads the batch at pos into the buffer.
func (s *scanner) batchAt(pos int64) (*record.Batch, error) {
	if s.size-pos < record.HeaderSize {
		return nil, &badBatch{reason: fmt.Sprintf("%d bytes, too few for a batch", s.size-pos)}
	}
	if err := s.fill(pos, record.HeaderSize); err != nil {
		return nil, err
	}
	h, err := record.ParseHeader(s.buf)
	if err != nil {
		return nil, &badBatch{reason: err.Error()}
	}
	n := int64(h.Length) + record.LogOverhead
	if n > s.size-pos {
		return nil, &badBatch{reason: fmt.Sprintf("a batch of %d bytes, of which the file has %d", n, s.size-pos)}
	}
	if err := s.fill(pos, int(n)); err != nil {
		return nil, err
	}
	b, _, err := record.Parse(s.buf)
	if err != nil {
		return nil, &badBatch{reason: err.Error(), size: n}
	}
	return b, nil
}

func (s *scanner) fill(pos int64, n int) error {
	if cap(s.buf) < n {
		s.buf = make([]byte, n)
	}
	s.buf = s.buf[:n]
	if k, err := s.r.ReadAt(s.buf, pos); err != nil && !(errors.Is(err, io.EOF) && k == n) {
		if errors.Is(err, io.EOF) { // the file was longer
			return &badBatch{reason: fmt.Sprintf("the file ends within %d bytes", n)}
		}
		return fmt.Errorf("read %d bytes at %d: %w", n, pos, err)
	}
	return nil
}

// skip reports the damage at s.pos and moves to the next batch.
func (s *scanner) skip(bad *badBatch) error {
	data, err := lastNonZero(s.r, s.pos, s.size)
	if err != nil {
		return err
	}
	if data < 0 {
		s.end.Zeros = s.size - s.pos
		s.pos = s.size
		return nil
	}
	rewritten, err := s.rewritten()
	if err != nil {
		return err
	}
	if rewritten {
		return s.goOn()
	}
	to, err := s.resync(bad)
	if err != nil {
		return err
	}
	d := Damage{Pos: s.pos, Size: to - s.pos, Reason: bad.reason}
	if to == s.size {
		d.Size, d.Last = data+1-s.pos, true
		s.end.Zeros = s.size - data - 1
	}
	s.pos, s.last = to, seen{}
	if s.v.Damage == nil {
		return nil
	}
	return s.v.Damage(d)
}

// rewritten reports whether the batch that ended or began at s.pos is no longer there.
func (s *scanner) rewritten() (bool, error) {
	if s.last.size == 0 {
		return s.pos > 0, nil // resync found a batch at s.pos
	}
	b, err := s.batchAt(s.last.pos)
	var bad *badBatch
	if errors.As(err, &bad) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return s.last != seen{s.last.pos, b.BaseOffset, b.Size(), b.CRC}, nil
}

// goOn moves to the next batch of a file that was rewritten. s.pos may lie within a batch of the
// new file, and its offsets may begin lower.
func (s *scanner) goOn() error {
	s.next = 0
	to, err := s.resync(&badBatch{})
	if err != nil {
		return err
	}
	pos := s.pos
	s.pos, s.last = to, seen{}
	if s.v.Rewritten == nil {
		return nil
	}
	return s.v.Rewritten(pos, to)
}

// resync returns the position of the next valid batch, or the size of the file if there is none.
func (s *scanner) resync(bad *badBatch) (int64, error) {
	if to := s.pos + bad.size; bad.size > 0 {
		_, err := s.batchAt(to)
		var next *badBatch
		if err == nil || !errors.As(err, &next) {
			return to, err
		}
	}
	window := make([]byte, 64<<10)
	for from := s.pos + 1; from+record.HeaderSize <= s.size; {
		n := int(min(int64(len(window)), s.size-from))
		if k, err := s.r.ReadAt(window[:n], from); err != nil && !(errors.Is(err, io.EOF) && k == n) {
			return 0, fmt.Errorf("read %d bytes at %d: %w", n, from, err)
		}
		i := 0
		for ; i+record.HeaderSize <= n; i++ {
			if !s.plausible(window[i:n], s.size-from-int64(i)) {
				continue
			}
			_, err := s.batchAt(from + int64(i))
			var no *badBatch
			if err == nil || !errors.As(err, &no) {
				return from + int64(i), err
			}
		}
		from += int64(i)
	}
	return s.size, nil
}

// maxResync is the largest batch that resync accepts. Without it, arbitrary bytes that look like a
// length could cause reads of gigabytes again and again.
const maxResync = 128 << 20

// plausible reports whether p may begin with a batch that continues the log; left is the number of
// bytes to the end of the file.
func (s *scanner) plausible(p []byte, left int64) bool {
	size := int64(int32(binary.BigEndian.Uint32(p[8:]))) + record.LogOverhead
	if p[16] != 2 || size < record.HeaderSize || size > min(left, maxResync) {
		return false
	}
	h, err := record.ParseHeader(p)
	return err == nil && h.BaseOffset >= s.next
}

// lastNonZero returns the position of the last byte of [from, to) that is not zero, -1 if all are.
func lastNonZero(r io.ReaderAt, from, to int64) (int64, error) {
	buf := make([]byte, min(64<<10, max(to-from, 0)))
	for to > from {
		n := min(int64(len(buf)), to-from)
		if k, err := r.ReadAt(buf[:n], to-n); err != nil && !(errors.Is(err, io.EOF) && int64(k) == n) {
			return 0, fmt.Errorf("read %d bytes at %d: %w", n, to-n, err)
		}
		for i := n - 1; i >= 0; i-- {
			if buf[i] != 0 {
				return to - n + i, nil
			}
		}
		to -= n
	}
	return -1, nil
}
