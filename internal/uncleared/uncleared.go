// Package uncleared allocates memory without clearing it, unlike make. Clearing memory that is then
// filled from a file or by encoding costs as much as filling it.
package uncleared

import (
	"strings"
	"unsafe"
)

// Bytes returns an empty slice with a capacity of n bytes or more, with arbitrary contents. n must
// be above 0.
func Bytes(n int) []byte {
	var b strings.Builder // the only part of the standard library that does not clear memory
	b.Grow(n)
	b.WriteByte(0) // an empty string has no address
	return unsafe.Slice(unsafe.StringData(b.String()), b.Cap())[:0]
}

// Grow returns p with room for at least n more bytes, with arbitrary contents. slices.Grow clears
// them.
func Grow(p []byte, n int) []byte {
	if n <= cap(p)-len(p) {
		return p
	}
	return append(Bytes(max(len(p)+n, 2*cap(p))), p...)
}
