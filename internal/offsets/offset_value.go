package offsets

import (
	"fmt"

	"github.com/stratalog/strata/internal/wire"
)

// An OffsetValue is the value of a KeyOffset record: one committed offset.
type OffsetValue struct {
	Offset      int64
	LeaderEpoch int32 // -1: unknown; version 3
	Metadata    string
	CommitMs    int64
	ExpireMs    int64    // explicit expiry; -1: none, the retention applies. Only in version 1
	TopicID     [16]byte // zero: unknown; version 4
}

// AppendTo appends v: in version 1 if it has an explicit expiry (without leader epoch and topic id,
// as in Kafka), otherwise in version 4.
func (v OffsetValue) AppendTo(dst []byte) []byte {
	if v.ExpireMs >= 0 {
		dst = wire.AppendInt64(wire.AppendInt16(dst, 1), v.Offset)
		return wire.AppendInt64(wire.AppendInt64(wire.AppendString(dst, v.Metadata), v.CommitMs), v.ExpireMs)
	}
	dst = wire.AppendInt32(wire.AppendInt64(wire.AppendInt16(dst, 4), v.Offset), v.LeaderEpoch)
	dst = wire.AppendInt64(wire.AppendCompactString(dst, v.Metadata), v.CommitMs)
	if v.TopicID == [16]byte{} {
		return append(dst, 0) // no tagged fields
	}
	return append(append(dst, 1, 0, 16), v.TopicID[:]...)
}

// ParseOffsetValue parses versions 0 to 4. It returns an error matching ErrMalformed.
func ParseOffsetValue(p []byte) (OffsetValue, error) {
	r := wire.Reader{P: p}
	v := OffsetValue{LeaderEpoch: -1, ExpireMs: -1}
	version := r.Int16()
	if r.Err == nil && (version < 0 || version > 4) {
		return v, fmt.Errorf("%w: offset value version %d", ErrMalformed, version)
	}
	v.Offset = r.Int64()
	if version >= 3 {
		v.LeaderEpoch = r.Int32()
	}
	if version >= 4 {
		v.Metadata = r.CompactString()
	} else {
		v.Metadata = r.NullableString()
	}
	v.CommitMs = r.Int64()
	if version == 1 {
		v.ExpireMs = max(r.Int64(), -1)
	}
	if version >= 4 {
		r.Tags(func(tag uint64, f *wire.Reader) {
			if tag == 0 {
				copy(v.TopicID[:], f.Take(16, "topic id"))
			}
		})
	}
	if r.Err != nil {
		return OffsetValue{}, r.Err
	}
	return v, nil
}
