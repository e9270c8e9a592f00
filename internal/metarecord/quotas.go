package metarecord

import "math"

// ClientQuota sets one quota of an entity, or takes it away.
type ClientQuota struct {
	Entity []QuotaPart
	Key    string
	Value  float64 // of a removal without meaning, 0
	Remove bool
}

// A QuotaPart is one part of the entity: a type (user, client-id, ip) and a name; nil: the default
// of that type.
type QuotaPart struct {
	Type string
	Name *string
}

func (*ClientQuota) header() (uint32, uint32) { return typeClientQuota, 0 }

func (q *ClientQuota) appendFields(dst []byte, _ uint32) []byte {
	dst = appendUvarint(dst, uint32(len(q.Entity))+1)
	for _, p := range q.Entity {
		if dst = appendString(dst, p.Type); p.Name == nil {
			dst = appendUvarint(dst, 0)
		} else {
			dst = appendString(dst, *p.Name)
		}
		dst = appendUvarint(dst, 0)
	}
	dst = appendInt64(appendString(dst, q.Key), int64(math.Float64bits(q.Value)))
	return appendUvarint(appendBool(dst, q.Remove), 0)
}

func (q *ClientQuota) readFields(r *reader, _ uint32) {
	const leastPart = 3 // bytes: a type, a name, no tags
	for range r.array(leastPart) {
		p := QuotaPart{Type: r.string()}
		if name, ok := r.str(); ok {
			p.Name = &name
		}
		r.untagged()
		q.Entity = append(q.Entity, p)
	}
	q.Key = r.string()
	q.Value = math.Float64frombits(uint64(r.int64()))
	q.Remove = r.int8() != 0
	r.untagged()
}
