package offsets

import "bytes"

// A Record is one record of the offsets topic. A KeyOffset record has an Offset, a KeyGroup record
// a Group; without one it is a tombstone.
type Record struct {
	Key    Key
	Offset *OffsetValue
	Group  *GroupValue
}

// ParseRecord decodes a record of the offsets topic. known is false for records that a
// classic group does not have, which are not an error. A nil value is a tombstone. The result
// aliases value. Errors match ErrMalformed.
func ParseRecord(key, value []byte) (r Record, known bool, err error) {
	k, ok, err := ParseKey(key)
	if !ok {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, err
	}
	r.Key = k
	if k.Type != KeyOffset && k.Type != KeyGroup {
		return r, false, nil
	}
	switch {
	case value == nil:
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

// Clone returns r with bytes of its own.
func (r Record) Clone() Record {
	if r.Group != nil {
		for i := range r.Group.Members {
			m := &r.Group.Members[i]
			m.Subscription, m.Assignment = bytes.Clone(m.Subscription), bytes.Clone(m.Assignment)
		}
	}
	return r
}
