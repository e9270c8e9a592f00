// Package murmur2 computes the 32-bit murmur2 hash with the seed of Kafka's Java client, so that
// all producers send a key to the same partition (Kafka: Utils.murmur2).
package murmur2

import "encoding/binary"

const (
	seed = 0x9747b28c
	m    = 0x5bd1e995
	r    = 24
)

// Sum returns the hash of p. Java's value is the same 32 bits read as a signed number.
func Sum(p []byte) uint32 {
	h := uint32(seed) ^ uint32(len(p))
	for ; len(p) >= 4; p = p[4:] {
		k := binary.LittleEndian.Uint32(p) * m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(p) {
	case 3:
		h ^= uint32(p[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(p[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(p[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// Partition returns the partition, of n, that Kafka's default partitioner chooses for a key. n must
// be positive. The sign bit of the hash is cleared: the absolute value of the lowest number would
// stay negative.
func Partition(key []byte, n int) int {
	return int(Sum(key)&0x7fffffff) % n
}
