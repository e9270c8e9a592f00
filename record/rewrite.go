package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Stamp writes the timestamp type and the largest timestamp into p, one whole batch owned by the
// caller, and updates the CRC. For LogAppendTime ms is the time of the append, and becomes the
// timestamp of all records; their own timestamps stay in the bytes, as in Kafka.
func Stamp(p []byte, t TimestampType, ms int64) {
	attributes := Attributes(binary.BigEndian.Uint16(p[posAttributes:])) &^ attrLogAppendTime
	if t == LogAppendTime {
		attributes |= attrLogAppendTime
	}
	binary.BigEndian.PutUint16(p[posAttributes:], uint16(attributes))
	binary.BigEndian.PutUint64(p[posMaxTimestamp:], uint64(ms))
	sealBytes(p)
}

// RewriteOptions are the properties of a rewritten batch.
type RewriteOptions struct {
	Codec         Codec         // codec of the result; b.Codec() keeps the compressed bytes unchanged
	TimestampType TimestampType // the topic's timestamp type
	// MaxTimestamp is the time of the append, or the records' largest timestamp as returned by
	// Check.
	MaxTimestamp int64
	MaxInflated  int // bound on the decompressed records; 0: DefaultMaxInflated
}

// Rewrite appends b to dst in the form that the leader stores for a topic with its own compression
// or timestamp type. Producer, sequence, offsets, epoch, flags and the bytes of the records stay: b
// must have passed Check. b is not changed. On error it returns dst unchanged; errors are those of
// Inflate.
func Rewrite(dst []byte, b *Batch, o RewriteOptions) ([]byte, error) {
	if len(b.raw) < HeaderSize || len(b.raw) != b.Size() {
		return dst, ErrShort
	}
	start := len(dst)
	out := append(dst, b.raw[:HeaderSize]...)
	if o.Codec == b.Codec() {
		out = append(out, b.raw[HeaderSize:]...)
	} else {
		s := getScratch()
		defer putScratch(s)
		area, err := s.inflate(b, o.MaxInflated)
		if err != nil {
			return dst, err
		}
		if out, err = compress(out, area, o.Codec); err != nil {
			return dst, err
		}
		binary.BigEndian.PutUint16(out[start+posAttributes:], uint16(b.Attributes&^attrCodecMask|Attributes(o.Codec)))
	}
	if len(out)-start > math.MaxInt32 {
		return dst, fmt.Errorf("%w: %d bytes", ErrBatchTooLarge, len(out)-start)
	}
	Stamp(out[start:], o.TimestampType, o.MaxTimestamp)
	return out, nil
}
