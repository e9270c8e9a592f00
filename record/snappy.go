package record

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/klauspost/compress/snappy"
)

// Xerial framing, which the Java client writes: a header of 16 bytes, then chunks of a length (4
// bytes, big endian) and a snappy block.
const (
	xerialMagic = "\x82SNAPPY\x00"
	// Version, oldest version that can read it.
	xerialHeader = xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01"
	xerialChunk  = 32 << 10 // uncompressed bytes per chunk
)

// snappyRatio is above the greatest ratio of a snappy block: a copy of 64 bytes takes 3 bytes.
const snappyRatio = 22

func compressXerial(dst, p []byte) []byte {
	dst = append(dst, xerialHeader...)
	for len(p) > 0 {
		chunk := p[:min(len(p), xerialChunk)]
		p = p[len(chunk):]
		at := len(dst) + 4
		dst = slices.Grow(dst, 4+snappy.MaxEncodedLen(len(chunk)))
		n := len(snappy.Encode(dst[at:cap(dst)], chunk)) // in place: there is room
		dst = dst[:at+n]
		binary.BigEndian.PutUint32(dst[at-4:], uint32(n))
	}
	return dst
}

// decompressSnappy reads xerial framing or, as some clients send, one bare block.
func decompressSnappy(dst, p []byte, limit int) ([]byte, error) {
	// Two walks over the chunks: the blocks announce their sizes, so that one allocation does, or
	// none if it would be too large.
	total := 0
	err := eachSnappyBlock(p, func(block []byte) error {
		n, err := snappy.DecodedLen(block)
		if err != nil || n > snappyRatio*len(block) {
			return corrupt(Snappy, "impossible block length")
		}
		if total += n; total > limit {
			return tooLarge(limit)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	dst = slices.Grow(dst, total)
	err = eachSnappyBlock(p, func(block []byte) error {
		// Strict: S2's extension of the format is not for Kafka's readers.
		out, err := snappy.DecodeStrict(dst[len(dst):cap(dst)], block)
		if err != nil {
			return corrupt(Snappy, err)
		}
		dst = dst[:len(dst)+len(out)]
		return nil
	})
	return dst, err
}

func eachSnappyBlock(p []byte, f func(block []byte) error) error {
	if !bytes.HasPrefix(p, []byte(xerialMagic)) {
		return f(p)
	}
	for len(p) > 0 {
		if bytes.HasPrefix(p, []byte(xerialMagic)) { // streams may follow one another
			if len(p) < len(xerialHeader) || binary.BigEndian.Uint32(p[12:]) > 1 {
				return corrupt(Snappy, "bad xerial header")
			}
			p = p[len(xerialHeader):]
			continue
		}
		if len(p) < 4 {
			return corrupt(Snappy, "cut off")
		}
		n := binary.BigEndian.Uint32(p)
		p = p[4:]
		if uint64(n) > uint64(len(p)) {
			return corrupt(Snappy, "cut off")
		}
		if err := f(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}
