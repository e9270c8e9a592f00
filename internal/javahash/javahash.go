// Package javahash computes results that depend in Kafka on the hash codes of Java's strings: the
// partition of an id in a coordinator's topic, and the order of texts in a HashSet.
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

// code returns the hash code of a Java string.
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
