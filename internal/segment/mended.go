package segment

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"

	"github.com/stratalog/strata/record"
)

// Positions in a batch.
const (
	lengthAt = 8
	crcAt    = 17
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// wholeAt returns the smallest number of bytes, from at least on, with which the batch at
// the beginning of p is whole, whatever its length field is; 0: there is none. The bytes of p from
// least on are zeros.
func wholeAt(p []byte, least int) int {
	want := binary.BigEndian.Uint32(p[crcAt:])
	sum := crc32.Checksum(p[crcCoversFrom:least], castagnoli)
	for n := least; ; n++ {
		if sum == want {
			b := append([]byte(nil), p[:n]...)
			binary.BigEndian.PutUint32(b[lengthAt:], uint32(n-record.LogOverhead))
			if sound(b) {
				return n
			}
		}
		if n == len(p) {
			return 0
		}
		sum = crc32.Update(sum, castagnoli, p[n:n+1])
	}
}

// wholeWithOneBitFlipped reports whether p, a batch whose CRC does not match, is whole if one
// bit of the covered bytes, or of the CRC, is flipped. It changes p.
//
// CRCs are linear: the change of the sum by a flipped bit depends only on the number of bits that
// follow. So one walk from the end finds the bit, if there is one.
func wholeWithOneBitFlipped(p []byte) bool {
	covered := p[crcCoversFrom:]
	change := crc32.Checksum(covered, castagnoli) ^ binary.BigEndian.Uint32(p[crcAt:])
	if bits.OnesCount32(change) == 1 {
		binary.BigEndian.PutUint32(p[crcAt:], binary.BigEndian.Uint32(p[crcAt:])^change)
		return sound(p)
	}
	by := uint32(1) // the change of the sum by a flip of the bit at i, one step ahead
	for i := len(covered)*8 - 1; i >= 0; i-- {
		if by = by>>1 ^ crc32.Castagnoli&-(by&1); by == change {
			covered[i/8] ^= 1 << (i % 8)
			return sound(p)
		}
	}
	return false
}

// sound reports whether p is a whole batch, records and all.
func sound(p []byte) bool {
	b, n, err := record.Parse(p)
	if err != nil || n != len(p) {
		return false
	}
	for _, err := range b.All() {
		if err != nil {
			return false
		}
	}
	return true
}
