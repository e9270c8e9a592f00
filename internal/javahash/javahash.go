// Package javahash does what Kafka leaves to the hash codes of Java's strings: it places the ids
// that coordinators look after in the partitions of their topics, and puts texts in the order of a
// HashSet.
package javahash

import "unicode/utf16"

// Partition returns the partition that owns id: its Java string hash, absolute, modulo partitions
// (at least 1).
func Partition(id string, partitions int32) int32 {
	h := code(id)
	if h < 0 {
		h = -h
	}
	if h < 0 { // the smallest int32 has no absolute value: Kafka's Utils.abs makes it 0
		h = 0
	}
	return h % partitions
}

// code is the hash code of a Java string.
func code(s string) (h int32) {
	for _, r := range s {
		if r1, r2 := utf16.EncodeRune(r); r1 != '\ufffd' {
			h = 31*h + r1
			r = r2
		}
		h = 31*h + r
	}
	return h
}
