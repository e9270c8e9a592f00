// Package wire reads and writes Kafka's primitive types for the embedded formats and the records of
// the coordinators' topics. Numbers are big endian. "Compact" types begin with an unsigned varint
// of length+1, where 0 is null.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

var be = binary.BigEndian

// ErrMalformed is matched by errors about malformed bytes.
var ErrMalformed = errors.New("wire: malformed bytes")

// AppendString appends a STRING; s is at most 32767 bytes long.
func AppendString(dst []byte, s string) []byte {
	return append(be.AppendUint16(dst, uint16(len(s))), s...)
}

// AppendNullableString writes an empty s as null.
func AppendNullableString(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, 0xff, 0xff)
	}
	return AppendString(dst, s)
}

// AppendBytes writes nil as null.
func AppendBytes(dst, p []byte) []byte {
	if p == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	return append(be.AppendUint32(dst, uint32(len(p))), p...)
}

// AppendCompactString appends a COMPACT_STRING.
func AppendCompactString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))+1), s...)
}

// AppendInt16 appends an INT16.
func AppendInt16(dst []byte, v int16) []byte { return be.AppendUint16(dst, uint16(v)) }

// AppendInt32 appends an INT32.
func AppendInt32(dst []byte, v int32) []byte { return be.AppendUint32(dst, uint32(v)) }

// AppendInt64 appends an INT64.
func AppendInt64(dst []byte, v int64) []byte { return be.AppendUint64(dst, uint64(v)) }

// TooLong reports whether s cannot be written as a STRING.
func TooLong(s string) bool { return len(s) > math.MaxInt16 }

// A Reader reads values from the front of P, and removes them. After the first failure it returns
// zero values, and Err is set. Byte slices that it returns alias P.
type Reader struct {
	P   []byte
	Err error
}

// Fail sets Err at the first failure, and empties P. what names the value.
func (r *Reader) Fail(what string) {
	if r.Err == nil {
		r.Err = fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	r.P = nil
}

// Take returns the next n bytes.
func (r *Reader) Take(n int, what string) []byte {
	if n < 0 || n > len(r.P) {
		r.Fail(what)
		return nil
	}
	b := r.P[:n:n]
	r.P = r.P[n:]
	return b
}

// Int8 reads one byte.
func (r *Reader) Int8() int8 {
	if b := r.Take(1, "int8"); b != nil {
		return int8(b[0])
	}
	return 0
}

// Int16 reads an INT16.
func (r *Reader) Int16() int16 {
	if b := r.Take(2, "int16"); b != nil {
		return int16(be.Uint16(b))
	}
	return 0
}

// Int32 reads an INT32.
func (r *Reader) Int32() int32 {
	if b := r.Take(4, "int32"); b != nil {
		return int32(be.Uint32(b))
	}
	return 0
}

// Int64 reads an INT64.
func (r *Reader) Int64() int64 {
	if b := r.Take(8, "int64"); b != nil {
		return int64(be.Uint64(b))
	}
	return 0
}

// Uvarint reads an unsigned varint of at most 32 bits.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.P)
	if n <= 0 || n > 5 || v > math.MaxUint32 {
		r.Fail("varint")
		return 0
	}
	r.P = r.P[n:]
	return v
}

// String reads a STRING.
func (r *Reader) String() string {
	n := r.Int16()
	if n < 0 {
		r.Fail("string")
		return ""
	}
	return string(r.Take(int(n), "string"))
}

// NullableString returns "" for null.
func (r *Reader) NullableString() string {
	n := r.Int16()
	if n == -1 {
		return ""
	}
	return string(r.Take(int(n), "string"))
}

// Bytes returns nil for null.
func (r *Reader) Bytes() []byte {
	n := r.Int32()
	if n == -1 {
		return nil
	}
	return r.Take(int(n), "bytes")
}

// CompactBytes reads COMPACT_BYTES; nil for null.
func (r *Reader) CompactBytes() []byte {
	n := r.Uvarint()
	if n == 0 {
		return nil
	}
	return r.Take(int(n-1), "bytes")
}

// CompactString reads a COMPACT_STRING; "" for null.
func (r *Reader) CompactString() string { return string(r.CompactBytes()) }

// Count reads an array's length; null is 0. It fails for a length that the rest of the input cannot
// hold at min bytes per element.
func (r *Reader) Count(min int) int {
	n := r.Int32()
	if n == -1 {
		return 0
	}
	return r.bounded(int(n), min)
}

// CompactCount is Count for a compact array.
func (r *Reader) CompactCount(min int) int {
	n := r.Uvarint()
	if n == 0 {
		return 0
	}
	return r.bounded(int(n-1), min)
}

func (r *Reader) bounded(n, min int) int {
	if n < 0 || n > len(r.P)/min {
		r.Fail("array length")
		return 0
	}
	return n
}

// Tags reads tagged fields and calls f for each; f may be nil.
func (r *Reader) Tags(f func(tag uint64, field *Reader)) {
	for n := r.compactTagCount(); n > 0 && r.Err == nil; n-- {
		tag, size := r.Uvarint(), r.Uvarint()
		field := Reader{P: r.Take(int(size), "tagged field")}
		if r.Err == nil && f != nil {
			f(tag, &field)
			if field.Err != nil {
				r.Err = field.Err
			}
		}
	}
}

func (r *Reader) compactTagCount() int { return r.bounded(int(r.Uvarint()), 2) }
