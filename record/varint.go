package record

import "math/bits"

// Varints of the record format are zigzag LEB128: at most 5 bytes for 32 bit values and 10 for 64
// bit ones. Kafka: ByteUtils.
const (
	maxVarint32 = 5
	maxVarint64 = 10
)

func zigzag(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// uvarintLen returns how many bytes u takes.
func uvarintLen(u uint64) int {
	if u < 1<<7 {
		return 1
	}
	if u < 1<<14 {
		return 2
	}
	return (bits.Len64(u) + 6) / 7
}

// putUvarint writes u at p[i:], where there must be room, and returns the index behind it.
func putUvarint(p []byte, i int, u uint64) int {
	for u >= 0x80 {
		p[i] = byte(u) | 0x80
		u >>= 7
		i++
	}
	p[i] = byte(u)
	return i + 1
}

// uvarint reads the varint at p[i:] and returns it with the index behind it, which is -1 if the
// varint is cut off or longer than 10 bytes.
func uvarint(p []byte, i int) (uint64, int) {
	if uint(i) < uint(len(p)) && p[i] < 0x80 {
		return uint64(p[i]), i + 1
	}
	return uvarintSlow(p, i)
}

func uvarintSlow(p []byte, i int) (uint64, int) {
	if i < 0 {
		return 0, -1
	}
	if i+1 < len(p) && p[i+1] < 0x80 { // two bytes: lengths of up to 8 KiB
		return uint64(p[i]&0x7f) | uint64(p[i+1])<<7, i + 2
	}
	var u uint64
	for n := 0; n < maxVarint64 && i+n < len(p); n++ {
		c := p[i+n]
		if n == maxVarint64-1 && c > 1 {
			return 0, -1 // does not fit in 64 bits
		}
		u |= uint64(c&0x7f) << (7 * n)
		if c < 0x80 {
			return u, i + n + 1
		}
	}
	return 0, -1
}

// varint32 reads a zigzag varint of at most 5 bytes whose value fits in 32 bits; the index is -1
// otherwise.
func varint32(p []byte, i int) (int32, int) {
	if uint(i) < uint(len(p)) {
		c := uint32(p[i])
		if c < 0x80 {
			return int32(c>>1) ^ -int32(c&1), i + 1
		}
		if j := i + 1; j < len(p) && p[j] < 0x80 { // lengths, and offsets in large batches
			u := c&0x7f | uint32(p[j])<<7
			return int32(u>>1) ^ -int32(u&1), j + 1
		}
	}
	u, j := uvarintSlow(p, i)
	if j-i > maxVarint32 || u > 1<<32-1 {
		return 0, -1
	}
	return int32(unzigzag(u)), j
}
