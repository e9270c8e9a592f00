package record

import (
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdWindow is what Java's default level uses; batches are hardly ever larger.
const zstdWindow = 2 << 20

type zstdWriter struct {
	out appender
	z   *zstd.Encoder
}

// Encoders run as streams without concurrency: that way they hold no channel, which would tie a
// pooled one to the synctest bubble it was made in.
var zstdWriters = sync.Pool{New: func() any {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(zstdWindow), zstd.WithZeroFrames(true))
	if err != nil {
		panic(err) // only for options out of range
	}
	return &zstdWriter{z: z}
}}

// zstdDecoder is stateless and shared. It is made when the program starts, not on first use, for
// the same reason; it starts no goroutine. DecodeAll never grows the given buffer, so its
// capacity is the bound on memory.
var zstdDecoder = func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(max(2, runtime.GOMAXPROCS(0))), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(128<<20))
	if err != nil {
		panic(err) // only for options out of range
	}
	return d
}()

func compressZstd(dst, p []byte) []byte {
	w := zstdWriters.Get().(*zstdWriter)
	defer zstdWriters.Put(w)
	w.out.p = dst
	w.z.ResetContentSize(&w.out, int64(len(p))) // the reader sizes its buffer by it
	// Neither fails: an appender takes everything.
	_, _ = w.z.Write(p)
	_ = w.z.Close()
	dst, w.out.p = w.out.p, nil
	return dst
}

func decompressZstd(dst, p []byte, limit int) ([]byte, error) {
	least, most, err := zstdSize(p)
	if err != nil {
		return nil, err
	}
	if least > uint64(limit) {
		return nil, tooLarge(limit)
	}
	most = min(most, uint64(limit))
	for size := uint64(max(4*len(p), 1<<10, cap(dst)-len(dst))); ; size *= 4 {
		size = min(size, most)
		room := dst
		if uint64(cap(dst)-len(dst)) < size {
			room = append(make([]byte, 0, len(dst)+int(size)), dst...)
		}
		// The capacity is the bound.
		out, err := zstdDecoder.DecodeAll(p, room[:len(dst):len(dst)+int(size)])
		switch {
		case err == nil:
			return out, nil
		case size < most: // the decoder has no separate error for a buffer that is too small
			continue
		case most == uint64(limit):
			return nil, tooLarge(limit)
		default:
			return nil, corrupt(Zstd, err)
		}
	}
}

// zstdSize returns the least and the greatest size that p can inflate to, from the headers of its
// frames and blocks. Java's streams do not announce a size, but then no block makes more than 128
// KiB.
func zstdSize(p []byte) (least, most uint64, err error) {
	for len(p) > 0 {
		var h zstd.Header
		if err := h.Decode(p); err != nil {
			return 0, 0, corrupt(Zstd, err)
		}
		skip := uint64(h.HeaderSize) + uint64(h.SkippableSize)
		if skip > uint64(len(p)) {
			return 0, 0, corrupt(Zstd, "cut off")
		}
		p = p[skip:]
		if h.Skippable {
			continue
		}
		known, bound, n, err := zstdBlocks(p)
		if err != nil {
			return 0, 0, err
		}
		if h.HasCheckSum {
			n += 4
		}
		if n > len(p) {
			return 0, 0, corrupt(Zstd, "cut off")
		}
		p = p[n:]
		if h.HasFCS {
			if h.FrameContentSize < known || h.FrameContentSize > bound {
				return 0, 0, corrupt(Zstd, "impossible content size")
			}
			known, bound = h.FrameContentSize, h.FrameContentSize
		}
		least, most = least+known, most+bound
	}
	return least, most, nil
}

// zstdBlocks walks the blocks of one frame, n bytes of p: known is what stored and repeated bytes
// make, bound the most that all can make.
func zstdBlocks(p []byte) (known, bound uint64, n int, err error) {
	for {
		if n+3 > len(p) {
			return 0, 0, 0, corrupt(Zstd, "cut off")
		}
		head := uint32(p[n]) | uint32(p[n+1])<<8 | uint32(p[n+2])<<16
		last, kind, size := head&1 != 0, head>>1&3, head>>3
		n += 3
		switch kind {
		case 0: // stored
			known, bound = known+uint64(size), bound+uint64(size)
			n += int(size)
		case 1: // one byte repeated
			known, bound = known+uint64(size), bound+uint64(size)
			n++
		case 2:
			bound += 128 << 10
			n += int(size)
		default:
			return 0, 0, 0, corrupt(Zstd, "reserved block type")
		}
		if last {
			return known, bound, n, nil
		}
	}
}
