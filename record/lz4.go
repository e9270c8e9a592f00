package record

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// LZ4 frames are read and written here, block by block: the frame is a dozen lines, and Kafka's
// dialect of it is narrower than any library's.
const (
	lz4Magic     = 0x184d2204
	lz4BlockSize = 64 << 10
	lz4Stored    = 1 << 31 // in a block's length: the block is not compressed
	lz4Ratio     = 255     // no block inflates to more than this per byte

	lz4FlagVersion  = 0xc0 // must be 01
	lz4FlagIndep    = 0x20
	lz4FlagBlockSum = 0x10
	lz4FlagSize     = 0x08
	lz4FlagSum      = 0x04
	lz4FlagReserved = 0x02
	lz4FlagDict     = 0x01
)

// lz4Header is what Kafka writes: version 1, independent blocks of at most 64 KiB, no checksums, no
// content size.
const lz4Header = "\x04\x22\x4d\x18\x60\x40\x82"

var lz4Compressors = sync.Pool{New: func() any { return new(lz4.Compressor) }}

func compressLZ4(dst, p []byte) []byte {
	z := lz4Compressors.Get().(*lz4.Compressor)
	defer lz4Compressors.Put(z)
	dst = append(dst, lz4Header...)
	for len(p) > 0 {
		block := p[:min(len(p), lz4BlockSize)]
		p = p[len(block):]
		at := len(dst) + 4
		dst = slices.Grow(dst, 4+len(block))
		n, err := z.CompressBlock(block, dst[at:at+len(block)-1])
		size := uint32(n)
		if err != nil || n == 0 { // does not get smaller
			n = copy(dst[at:at+len(block)], block)
			size = uint32(n) | lz4Stored
		}
		dst = dst[:at+n]
		binary.LittleEndian.PutUint32(dst[at-4:], size)
	}
	return append(dst, 0, 0, 0, 0) // end mark
}

// An lz4Frame is one frame being read.
type lz4Frame struct {
	p        []byte // at the next block
	maxBlock int
	flags    byte
}

// An lz4Block is one block of a frame.
type lz4Block struct {
	data   []byte
	stored bool
}

// openLZ4 reads the header of the frame that p begins with. Linked blocks and dictionaries are
// refused, as by Kafka's reader.
func openLZ4(p []byte) (lz4Frame, error) {
	if len(p) < len(lz4Header) || binary.LittleEndian.Uint32(p) != lz4Magic {
		return lz4Frame{}, corrupt(LZ4, "no frame")
	}
	flags, bd := p[4], p[5]
	end := 6
	if flags&lz4FlagSize != 0 {
		end += 8 // not used: the announced size can be wrong
	}
	code := bd >> 4
	switch {
	case flags&lz4FlagVersion != 0x40, flags&lz4FlagReserved != 0, bd&0x8f != 0, code < 4:
		return lz4Frame{}, corrupt(LZ4, "bad frame header")
	case flags&lz4FlagIndep == 0, flags&lz4FlagDict != 0:
		return lz4Frame{}, corrupt(LZ4, "blocks depend on others")
	case end >= len(p) || p[end] != byte(xxh32(p[4:end])>>8):
		return lz4Frame{}, corrupt(LZ4, "bad header checksum")
	}
	return lz4Frame{p: p[end+1:], flags: flags, maxBlock: 1 << (8 + 2*code)}, nil
}

// next returns the next block; more is false at the end mark.
func (f *lz4Frame) next() (b lz4Block, more bool, err error) {
	if len(f.p) < 4 {
		return b, false, corrupt(LZ4, "cut off")
	}
	size := binary.LittleEndian.Uint32(f.p)
	f.p = f.p[4:]
	if size == 0 {
		if f.flags&lz4FlagSum != 0 { // read but not verified, as in Kafka: the batch has its own
			if len(f.p) < 4 {
				return b, false, corrupt(LZ4, "cut off")
			}
			f.p = f.p[4:]
		}
		return b, false, nil
	}
	n := int(size &^ lz4Stored)
	if n > f.maxBlock || n > len(f.p) {
		return b, false, corrupt(LZ4, "bad block length")
	}
	b = lz4Block{data: f.p[:n], stored: size&lz4Stored != 0}
	f.p = f.p[n:]
	if f.flags&lz4FlagBlockSum != 0 {
		if len(f.p) < 4 || binary.LittleEndian.Uint32(f.p) != xxh32(b.data) {
			return b, false, corrupt(LZ4, "bad block checksum")
		}
		f.p = f.p[4:]
	}
	return b, true, nil
}

// room returns the most that b can inflate to.
func (b *lz4Block) room(maxBlock int) int {
	if b.stored {
		return len(b.data)
	}
	return min(maxBlock, lz4Ratio*len(b.data))
}

func decompressLZ4(dst, p []byte, limit int) ([]byte, error) {
	size, err := lz4Size(p, limit)
	if err != nil {
		return nil, err
	}
	f, err := openLZ4(p)
	if err != nil {
		return nil, err
	}
	start := len(dst)
	dst = slices.Grow(dst, size)
	for {
		b, more, err := f.next()
		if err != nil || !more {
			if err == nil && len(f.p) > 0 {
				err = corrupt(LZ4, "bytes behind the frame")
			}
			return dst, err
		}
		if b.stored {
			dst = append(dst, b.data...)
		} else {
			room := b.room(f.maxBlock)
			dst = slices.Grow(dst, room)
			n, err := lz4.UncompressBlock(b.data, dst[len(dst):len(dst)+room])
			if err != nil {
				return nil, corrupt(LZ4, err)
			}
			dst = dst[:len(dst)+n]
		}
		if len(dst)-start > limit {
			return nil, tooLarge(limit)
		}
	}
}

// lz4Size returns a good size of a buffer for the inflated frame p, or ErrTooLarge if that passes
// limit.
func lz4Size(p []byte, limit int) (int, error) {
	f, err := openLZ4(p)
	if err != nil {
		return 0, err
	}
	bound, exact := 0, 0 // bound is what fits in any case; exact costs a walk through the blocks
	for walk := f; ; {
		b, more, err := walk.next()
		if err != nil {
			return 0, err
		}
		if !more {
			break
		}
		bound += b.room(f.maxBlock)
	}
	if bound <= limit && bound <= 16*len(p) {
		return bound, nil
	}
	for {
		b, more, err := f.next()
		if err != nil {
			return 0, err
		}
		if !more {
			return exact, nil
		}
		n := len(b.data)
		if !b.stored {
			if n, err = lz4BlockLen(b.data); err != nil {
				return 0, err
			}
		}
		if exact += n; exact > limit {
			return 0, tooLarge(limit)
		}
	}
}

// lz4BlockLen returns the inflated size of a compressed block: the sum over its sequences.
func lz4BlockLen(p []byte) (int, error) {
	n, i := 0, 0
	// length reads the rest of a length whose first four bits are v.
	length := func(v int) int {
		if v < 15 {
			return v
		}
		for i < len(p) {
			c := p[i]
			i++
			v += int(c)
			if c != 255 {
				break
			}
		}
		return v
	}
	for i < len(p) {
		token := p[i]
		i++
		literals := length(int(token >> 4))
		n += literals
		i += literals
		if i == len(p) {
			return n, nil // the last sequence has no match
		}
		i += 2 // offset
		n += length(int(token&15)) + 4
	}
	if i > len(p) {
		return 0, corrupt(LZ4, "cut off")
	}
	return n, nil
}
