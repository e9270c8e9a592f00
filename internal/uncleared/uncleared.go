// Package uncleared allocates memory without clearing it, unlike make. To clear memory that is
// filled next, from a file or by encoding, costs as much as to fill it.
package uncleared

import (
	"strings"
	"unsafe"
)

// Bytes returns an empty slice with room for n bytes or more,
// which hold anything. n must be above 0.
func Bytes(n int) []byte {
	var b strings.Builder // the one place of the standard library that does not clear
	b.Grow(n)
	b.WriteByte(0) // an empty string has no address
	return unsafe.Slice(unsafe.StringData(b.String()), b.Cap())[:0]
}

// Grow returns p with room for n bytes more at least, which hold anything: as slices.Grow, but that
// slices.Grow clears them.
func Grow(p []byte, n int) []byte {
	if n <= cap(p)-len(p) {
		return p
	}
	return append(Bytes(max(len(p)+n, 2*cap(p))), p...)
}
