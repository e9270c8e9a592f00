package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

var (
	// ErrNoFrame is matched by the error for bytes that do not begin with the magic byte and an id.
	ErrNoFrame = errors.New("schema: no schema id")
	// ErrIndexes is matched by errors for invalid message indexes.
	ErrIndexes = errors.New("schema: invalid message indexes")
)

const (
	magic      = 0
	frameBytes = 5

	// maxDepth bounds the nesting of messages, and so the memory that bytes from the wire can take.
	maxDepth = 100
)

// AppendFrame appends the magic byte and the id of a schema to dst.
func AppendFrame(dst []byte, id int32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, magic), uint32(id))
}

// ParseFrame returns the schema id at the start of p and the remaining bytes, which alias p. The
// error matches ErrNoFrame.
func ParseFrame(p []byte) (id int32, rest []byte, err error) {
	switch {
	case len(p) < frameBytes:
		return 0, nil, fmt.Errorf("%w: %d bytes, at least %d are needed", ErrNoFrame, len(p), frameBytes)
	case p[0] != magic:
		return 0, nil, fmt.Errorf("%w: first byte is %#x instead of 0", ErrNoFrame, p[0])
	}
	return int32(binary.BigEndian.Uint32(p[1:])), p[frameBytes:], nil
}

// AppendIndexes appends the path of a Protobuf message: its index among the messages of the file,
// then its index among the messages nested in that one, and so on. No indexes mean the first
// message, [0], encoded as a single 0 byte. Others are encoded as their count and then the indexes,
// all as zigzag varints.
func AppendIndexes(dst []byte, indexes ...int) []byte {
	if len(indexes) == 0 || len(indexes) == 1 && indexes[0] == 0 {
		return append(dst, 0)
	}
	dst = binary.AppendVarint(dst, int64(len(indexes)))
	for _, i := range indexes {
		dst = binary.AppendVarint(dst, int64(i))
	}
	return dst
}

// ParseIndexes is the inverse of AppendIndexes. It returns the indexes at the start of p and the
// remaining bytes, which alias p. The error matches ErrIndexes.
func ParseIndexes(p []byte) (indexes []int, rest []byte, err error) {
	count, n := binary.Varint(p)
	if n <= 0 || count < 0 || count > maxDepth {
		return nil, nil, fmt.Errorf("%w: their count is missing or not from 0 to %d", ErrIndexes, maxDepth)
	}
	if p = p[n:]; count == 0 {
		return []int{0}, p, nil
	}
	indexes = make([]int, count)
	for i := range indexes {
		v, n := binary.Varint(p)
		if n <= 0 || v < 0 || v > math.MaxInt32 {
			return nil, nil, fmt.Errorf("%w: number %d of %d", ErrIndexes, i, count)
		}
		indexes[i], p = int(v), p[n:]
	}
	return indexes, p, nil
}
