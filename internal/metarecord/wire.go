package metarecord

import (
	"encoding/binary"
	"math"
)

// Appending. All integers are big endian; lengths and counts are one
// more than the number, 0 meaning null.

func appendUvarint(dst []byte, v uint32) []byte { return binary.AppendUvarint(dst, uint64(v)) }
func appendInt16(dst []byte, v int16) []byte    { return binary.BigEndian.AppendUint16(dst, uint16(v)) }
func appendInt32(dst []byte, v int32) []byte    { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte    { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendString(dst []byte, s string) []byte {
	return append(appendUvarint(dst, uint32(len(s))+1), s...)
}

func appendInt32s(dst []byte, vs []int32) []byte {
	dst = appendUvarint(dst, uint32(len(vs))+1)
	for _, v := range vs {
		dst = appendInt32(dst, v)
	}
	return dst
}

func appendIDs(dst []byte, ids []ID) []byte {
	dst = appendUvarint(dst, uint32(len(ids))+1)
	for _, id := range ids {
		dst = append(dst, id[:]...)
	}
	return dst
}

// tags collects tagged fields; they must be added in ascending order.
type tags struct {
	n    uint32
	data []byte
}

func (t *tags) add(tag uint32, field []byte) {
	t.n++
	t.data = appendUvarint(appendUvarint(t.data, tag), uint32(len(field)))
	t.data = append(t.data, field...)
}

func (t *tags) appendTo(dst []byte) []byte { return append(appendUvarint(dst, t.n), t.data...) }

// reader consumes p. After the first failure it returns zeros, and bad is the reason.
type reader struct {
	p   []byte
	bad string
}

func (r *reader) fail(what string) {
	if r.bad == "" {
		r.bad = what
	}
	r.p = nil
}

func (r *reader) take(n int) []byte {
	if n > len(r.p) {
		r.fail("cut short")
		return nil
	}
	b := r.p[:n]
	r.p = r.p[n:]
	return b
}

func (r *reader) uvarint() uint32 {
	v, n := binary.Uvarint(r.p)
	if n <= 0 || v > math.MaxUint32 {
		r.fail("bad varint")
		return 0
	}
	r.p = r.p[n:]
	return uint32(v)
}

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) id() (id ID) {
	copy(id[:], r.take(len(id)))
	return id
}

// str reads a compact string; ok is false for null.
func (r *reader) str() (s string, ok bool) {
	n := r.uvarint()
	if n == 0 {
		return "", false
	}
	return string(r.take(r.count(n, 1))), true
}

func (r *reader) string() string {
	s, ok := r.str()
	if !ok {
		r.fail("null string")
	}
	return s
}

// count turns a compact length into a number of elements of at least size bytes. The number is
// checked against the remaining bytes before anything is allocated.
func (r *reader) count(n uint32, size int) int {
	if uint64(n-1)*uint64(size) > uint64(len(r.p)) {
		r.fail("length beyond the end")
		return 0
	}
	return int(n - 1)
}

// array reads the length of a compact array whose elements take at least size bytes; 0 for null.
func (r *reader) array(size int) int {
	n := r.uvarint()
	if n == 0 {
		return 0
	}
	return r.count(n, size)
}

// int32s reads a compact array; null and empty are both nil.
func (r *reader) int32s() []int32 {
	n := r.uvarint()
	if n <= 1 {
		return nil
	}
	vs := make([]int32, r.count(n, 4))
	for i := range vs {
		vs[i] = r.int32()
	}
	return vs
}

func (r *reader) ids() []ID {
	n := r.uvarint()
	if n <= 1 {
		return nil
	}
	ids := make([]ID, r.count(n, 16))
	for i := range ids {
		ids[i] = r.id()
	}
	return ids
}

// tagged reads the tagged fields; read gets a reader of exactly one field and must consume the
// known ones. Unknown tags are skipped.
func (r *reader) tagged(read func(tag uint32, field *reader)) {
	last := int64(-1)
	for n := r.uvarint(); n > 0 && r.bad == ""; n-- {
		tag := r.uvarint()
		size := r.uvarint()
		if uint64(size) > uint64(len(r.p)) {
			r.fail("tagged field beyond the end")
			return
		}
		if int64(tag) <= last {
			r.fail("tags out of order")
			return
		}
		last = int64(tag)
		field := &reader{p: r.take(int(size))}
		read(tag, field)
		if field.bad != "" {
			r.fail(field.bad + " in a tagged field")
			return
		}
	}
}

// untagged reads the tagged fields of a record that has none:
// whatever a later version adds is skipped.
func (r *reader) untagged() { r.tagged(func(uint32, *reader) {}) }
