package kafkafile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// An IndexEntry is one entry of an offset index.
type IndexEntry struct {
	RelativeOffset int32 // last offset of the batch, less the segment's base offset
	Position       int32 // of the batch in the .log file
}

// A TimeEntry is one entry of a time index.
type TimeEntry struct {
	Timestamp      int64 // ms, the largest so far
	RelativeOffset int32 // last offset of the batch with Timestamp, less the segment's base offset
}

// An AbortedTxn is one entry of a transaction index.
type AbortedTxn struct {
	Version                                         int16
	ProducerID, FirstOffset, LastOffset, LastStable int64
}

// Sizes of entries in bytes.
const (
	indexEntry = 8
	timeEntry  = 12
	txnEntry   = 34
)

// ReadIndex calls fn for each entry of an offset index with its position in the file. Zeros at the
// end are preallocated space. An error that matches ErrDamaged describes the damage; entries are
// not checked.
func ReadIndex(r io.ReaderAt, size int64, fn func(pos int64, e IndexEntry) error) error {
	return entries(r, size, indexEntry, func(pos int64, p []byte) error {
		return fn(pos, IndexEntry{int32(binary.BigEndian.Uint32(p)), int32(binary.BigEndian.Uint32(p[4:]))})
	})
}

// ReadTimeIndex is ReadIndex for a time index.
func ReadTimeIndex(r io.ReaderAt, size int64, fn func(pos int64, e TimeEntry) error) error {
	return entries(r, size, timeEntry, func(pos int64, p []byte) error {
		return fn(pos, TimeEntry{int64(binary.BigEndian.Uint64(p)), int32(binary.BigEndian.Uint32(p[8:]))})
	})
}

// ReadTxnIndex is ReadIndex for a transaction index, which is never preallocated.
func ReadTxnIndex(r io.ReaderAt, size int64, fn func(pos int64, e AbortedTxn) error) error {
	return entries(r, size, txnEntry, func(pos int64, p []byte) error {
		at := func(i int) int64 { return int64(binary.BigEndian.Uint64(p[2+8*i:])) }
		return fn(pos, AbortedTxn{int16(binary.BigEndian.Uint16(p)), at(0), at(1), at(2), at(3)})
	})
}

// ErrDamaged is matched by errors about malformed files.
var ErrDamaged = errors.New("damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// entries calls fn for every entry before the zeros at the end. A first entry of zeros is an entry
// if others follow it.
func entries(r io.ReaderAt, size int64, n int, fn func(pos int64, p []byte) error) error {
	if size > math.MaxInt32 {
		return damaged("%d bytes, and an index has at most %d", size, math.MaxInt32)
	}
	last, err := lastNonZero(r, 0, size)
	if err != nil {
		return err
	}
	in, p := bufio.NewReader(io.NewSectionReader(r, 0, size)), make([]byte, n)
	for pos := int64(0); pos <= last; pos += int64(n) {
		if size-pos < int64(n) {
			break
		}
		if _, err := io.ReadFull(in, p); err != nil {
			return fmt.Errorf("read entry at %d: %w", pos, err)
		}
		if err := fn(pos, p); err != nil {
			return err
		}
	}
	if size%int64(n) != 0 {
		return damaged("%d bytes, which is no multiple of %d", size, n)
	}
	return nil
}
