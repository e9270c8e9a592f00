package record

import (
	"errors"
	"fmt"
)

var (
	// ErrTooLarge is matched by errors that say that the records of a batch inflate to more than the caller allows.
	ErrTooLarge = errors.New("record: decompressed batch too large")
	// ErrUnsupportedCodec is matched by errors about a codec that is none of the five.
	ErrUnsupportedCodec = errors.New("record: unsupported compression codec")
)

// Inflate appends the record area of b, decompressed, to dst. Uncompressed records are not copied if dst has no capacity: the result aliases b then.
// No more than limit bytes are produced; 0 means DefaultMaxInflated. Uncompressed records are as large as they are.
// Errors match ErrCorrupt, ErrTooLarge, ErrUnsupportedCodec, or ErrShort if b is only a header.
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

// compress appends p, compressed, to dst.
func compress(dst, p []byte, c Codec) ([]byte, error) {
	switch c {
	case None:
		return append(dst, p...), nil
	}
	return dst, fmt.Errorf("%w: %d", ErrUnsupportedCodec, c)
}

// decompress appends what p inflates to, at most limit bytes, to dst.
func decompress(dst, p []byte, c Codec, limit int) ([]byte, error) {
	switch c {
	}
	return dst, fmt.Errorf("%w: %d", ErrUnsupportedCodec, c)
}
