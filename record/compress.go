package record

import (
	"errors"
	"fmt"
	"sync"
)

var (
	// ErrTooLarge is matched by errors that say that the records of a batch inflate to more than
	// the caller allows.
	ErrTooLarge = errors.New("record: decompressed batch too large")
	// ErrUnsupportedCodec is matched by errors about a codec that is none of the five.
	ErrUnsupportedCodec = errors.New("record: unsupported compression codec")
)

// Inflate appends the record area of b, decompressed, to dst. Uncompressed records are not copied
// if dst has no capacity: the result aliases b then. No more than limit bytes are produced; 0 means
// DefaultMaxInflated. Uncompressed records are as large as they are. Errors match ErrCorrupt,
// ErrTooLarge, ErrUnsupportedCodec, or ErrShort if b is only a header.
func (b *Batch) Inflate(dst []byte, limit int) ([]byte, error) {
	if len(b.raw) < HeaderSize || len(b.raw) != b.Size() {
		return nil, ErrShort
	}
	p := b.raw[HeaderSize:]
	if b.Codec() == None || b.RecordCount == 0 && len(p) == 0 {
		if cap(dst) == 0 {
			return p, nil
		}
		return append(dst, p...), nil
	}
	if limit <= 0 {
		limit = DefaultMaxInflated
	}
	return decompress(dst, p, b.Codec(), limit)
}

// compress appends p, compressed, to dst. The only error is ErrUnsupportedCodec; dst is returned
// then.
func compress(dst, p []byte, c Codec) ([]byte, error) {
	switch c {
	case None:
		return append(dst, p...), nil
	case Gzip:
		return compressGzip(dst, p), nil
	case Snappy:
		return compressXerial(dst, p), nil
	case LZ4:
		return compressLZ4(dst, p), nil
	case Zstd:
		return compressZstd(dst, p), nil
	}
	return dst, fmt.Errorf("%w: %d", ErrUnsupportedCodec, c)
}

// decompress appends what p inflates to, at most limit bytes, to dst. Whatever sizes p itself
// announces are checked against limit, and against what its codec can reach at all, before memory
// is asked for. It returns nil on error, so that dst must not be lost by the caller.
func decompress(dst, p []byte, c Codec, limit int) (out []byte, err error) {
	switch c {
	case Gzip:
		out, err = decompressGzip(dst, p, limit)
	case Snappy:
		out, err = decompressSnappy(dst, p, limit)
	case LZ4:
		out, err = decompressLZ4(dst, p, limit)
	case Zstd:
		out, err = decompressZstd(dst, p, limit)
	default:
		err = fmt.Errorf("%w: %d", ErrUnsupportedCodec, c)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func tooLarge(limit int) error {
	return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
}

// corrupt says that compressed bytes cannot be read; reason is a string or an error.
func corrupt(c Codec, reason any) error {
	return fmt.Errorf("%w: %v data: %v", ErrCorrupt, c, reason)
}

// An appender is an io.Writer onto the end of a slice.
type appender struct{ p []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.p = append(a.p, p...)
	return len(p), nil
}

// maxPooledBytes is the largest scratch buffer that is kept: one huge batch must not pin memory for
// ever.
const maxPooledBytes = 4 << 20

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// A scratch is a buffer for decompressed records that do not outlive a call. Only its own function
// puts it back.
type scratch struct{ p []byte }

func getScratch() *scratch { return scratchPool.Get().(*scratch) }

func putScratch(s *scratch) {
	if cap(s.p) <= maxPooledBytes {
		poison(s.p)
		scratchPool.Put(s)
	}
}

// inflate is Inflate into the scratch buffer; the result is valid until putScratch.
func (s *scratch) inflate(b *Batch, limit int) ([]byte, error) {
	if b.Codec() == None {
		return b.Inflate(nil, 0) // aliases b
	}
	p, err := b.Inflate(s.p[:0], limit)
	if cap(p) > cap(s.p) {
		s.p = p[:0]
	}
	return p, err
}
