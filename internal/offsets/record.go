package offsets

import "bytes"

// A Record is one record of the offsets topic. A KeyOffset record has an Offset, a KeyGroup record
// a Group, and all others a Value; a record without any is a tombstone.
type Record struct {
	Key    Key
	Offset *OffsetValue
	Group  *GroupValue
	Value  Value
}

// A Value is the value of a record of a type other than KeyOffset and KeyGroup. It owns its bytes.
// It is not changed once it is in a Record.
type Value interface {
	// AppendTo appends the value in Kafka's format.
	AppendTo(dst []byte) []byte
}

// AppendValue appends the value of r, which must not be a tombstone.
func (r Record) AppendValue(dst []byte) []byte {
	switch {
	case r.Offset != nil:
		return r.Offset.AppendTo(dst)
	case r.Group != nil:
		return r.Group.AppendTo(dst)
	}
	return r.Value.AppendTo(dst)
}

// Tombstone reports whether r is a tombstone, which removes the record with its key.
func (r Record) Tombstone() bool { return r.Offset == nil && r.Group == nil && r.Value == nil }

// ParseRecord parses a record of the offsets topic. known is false, without an error, for record
// types that are obsolete or unknown. A nil value is a tombstone. The result aliases value. Errors
// match ErrMalformed.
func ParseRecord(key, value []byte) (r Record, known bool, err error) {
	k, ok, err := ParseKey(key)
	if !ok {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, err
	}
	r.Key = k
	switch {
	case value == nil:
	case k.Type == KeyPartitionMetadata:
		return r, false, nil
	case k.Type != KeyOffset && k.Type != KeyGroup:
		v, err := ParseValue(k.Type, value)
		if err != nil {
			return Record{}, false, err
		}
		r.Value = v.(Value)
	case k.Type == KeyOffset:
		v, err := ParseOffsetValue(value)
		if err != nil {
			return Record{}, false, err
		}
		r.Offset = &v
	default:
		v, err := ParseGroupValue(value)
		if err != nil {
			return Record{}, false, err
		}
		r.Group = &v
	}
	return r, true, nil
}

// Clone returns a copy of r that owns its bytes.
func (r Record) Clone() Record {
	if r.Group != nil {
		for i := range r.Group.Members {
			m := &r.Group.Members[i]
			m.Subscription, m.Assignment = bytes.Clone(m.Subscription), bytes.Clone(m.Assignment)
		}
	}
	return r
}
