package group

import "fmt"

// An OffsetValue is the value of a KeyOffset record: one committed offset.
type OffsetValue struct {
	Offset      int64
	LeaderEpoch int32 // -1: unknown; version 3
	Metadata    string
	CommitMs    int64
	ExpireMs    int64    // explicit expiry; -1: none, the retention decides. Only version 1 has it
	TopicID     [16]byte // zero: unknown; version 4
}

// AppendTo appends v: in version 1 if it has an explicit expiry (which loses the leader epoch and topic id, as in Kafka), otherwise in version 4.
func (v OffsetValue) AppendTo(dst []byte) []byte {
	if v.ExpireMs >= 0 {
		dst = appendInt64(appendInt16(dst, 1), v.Offset)
		return appendInt64(appendInt64(appendString(dst, v.Metadata), v.CommitMs), v.ExpireMs)
	}
	dst = appendInt32(appendInt64(appendInt16(dst, 4), v.Offset), v.LeaderEpoch)
	dst = appendInt64(appendCompactString(dst, v.Metadata), v.CommitMs)
	if v.TopicID == [16]byte{} {
		return append(dst, 0) // no tagged fields
	}
	return append(append(dst, 1, 0, 16), v.TopicID[:]...)
}

// ParseOffsetValue reads versions 0 to 4. It returns an error matching ErrMalformed.
func ParseOffsetValue(p []byte) (OffsetValue, error) {
	r := reader{p: p}
	v := OffsetValue{LeaderEpoch: -1, ExpireMs: -1}
	version := r.int16()
	if r.err == nil && (version < 0 || version > 4) {
		return v, fmt.Errorf("%w: offset value version %d", ErrMalformed, version)
	}
	v.Offset = r.int64()
	if version >= 3 {
		v.LeaderEpoch = r.int32()
	}
	if version >= 4 {
		v.Metadata = r.compactString()
	} else {
		v.Metadata = r.nullableString()
	}
	v.CommitMs = r.int64()
	if version == 1 {
		v.ExpireMs = max(r.int64(), -1)
	}
	if version >= 4 {
		r.tags(func(tag uint64, f *reader) {
			if tag == 0 {
				copy(v.TopicID[:], f.take(16, "topic id"))
			}
		})
	}
	if r.err != nil {
		return OffsetValue{}, r.err
	}
	return v, nil
}
