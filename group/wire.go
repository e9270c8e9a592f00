package group

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Kafka's primitive types as the embedded formats and the records of the offsets topic use them: big endian; "compact" ones carry
// an unsigned varint of length+1, where 0 is null.

var be = binary.BigEndian

func appendString(dst []byte, s string) []byte {
	return append(be.AppendUint16(dst, uint16(len(s))), s...)
}

// appendNullableString writes an empty s as null.
func appendNullableString(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, 0xff, 0xff)
	}
	return appendString(dst, s)
}

// appendBytes writes nil as null.
func appendBytes(dst, p []byte) []byte {
	if p == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	return append(be.AppendUint32(dst, uint32(len(p))), p...)
}

func appendCompactString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))+1), s...)
}

func appendInt16(dst []byte, v int16) []byte { return be.AppendUint16(dst, uint16(v)) }
func appendInt32(dst []byte, v int32) []byte { return be.AppendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte { return be.AppendUint64(dst, uint64(v)) }

// tooLongForString reports whether s cannot be written as a STRING.
func tooLongForString(s string) bool { return len(s) > math.MaxInt16 }

// A reader takes values off the front of p; after the first failure it returns zeros, and err says why.
// Byte slices it returns alias p.
type reader struct {
	p   []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	r.p = nil
}

func (r *reader) take(n int, what string) []byte {
	if n < 0 || n > len(r.p) {
		r.fail(what)
		return nil
	}
	b := r.p[:n:n]
	r.p = r.p[n:]
	return b
}

func (r *reader) int8() int8 {
	if b := r.take(1, "int8"); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) int16() int16 {
	if b := r.take(2, "int16"); b != nil {
		return int16(be.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4, "int32"); b != nil {
		return int32(be.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8, "int64"); b != nil {
		return int64(be.Uint64(b))
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.p)
	if n <= 0 || n > 5 || v > math.MaxUint32 {
		r.fail("varint")
		return 0
	}
	r.p = r.p[n:]
	return v
}

func (r *reader) string() string {
	n := r.int16()
	if n < 0 {
		r.fail("string")
		return ""
	}
	return string(r.take(int(n), "string"))
}

// nullableString returns "" for null.
func (r *reader) nullableString() string {
	n := r.int16()
	if n == -1 {
		return ""
	}
	return string(r.take(int(n), "string"))
}

// bytes returns nil for null.
func (r *reader) bytes() []byte {
	n := r.int32()
	if n == -1 {
		return nil
	}
	return r.take(int(n), "bytes")
}

func (r *reader) compactBytes() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	return r.take(int(n-1), "bytes")
}

func (r *reader) compactString() string { return string(r.compactBytes()) }

// count reads an array's length; null is 0. It refuses a length that the rest of the input cannot hold at min bytes an element.
func (r *reader) count(min int) int {
	n := r.int32()
	if n == -1 {
		return 0
	}
	return r.bounded(int(n), min)
}

func (r *reader) compactCount(min int) int {
	n := r.uvarint()
	if n == 0 {
		return 0
	}
	return r.bounded(int(n-1), min)
}

func (r *reader) bounded(n, min int) int {
	if n < 0 || n > len(r.p)/min {
		r.fail("array length")
		return 0
	}
	return n
}

// tags reads tagged fields and hands each to f, which may be nil.
func (r *reader) tags(f func(tag uint64, field *reader)) {
	for n := r.compactTagCount(); n > 0 && r.err == nil; n-- {
		tag, size := r.uvarint(), r.uvarint()
		field := reader{p: r.take(int(size), "tagged field")}
		if r.err == nil && f != nil {
			f(tag, &field)
			if field.err != nil {
				r.err = field.err
			}
		}
	}
}

func (r *reader) compactTagCount() int { return r.bounded(int(r.uvarint()), 2) }
