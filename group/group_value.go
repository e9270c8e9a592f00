package group

import "fmt"

// A GroupValue is the value of a KeyGroup record: a classic group as its last completed rebalance left it.
type GroupValue struct {
	ProtocolType string
	Generation   int32
	Protocol     string // the assignor chosen; "": none
	Leader       string // member id of the group leader; "": none
	StateMs      int64  // when the group came into its state; -1: unknown; version 2
	Members      []MemberValue
}

// A MemberValue is one member in a GroupValue.
type MemberValue struct {
	ID, InstanceID       string // InstanceID "": dynamic member; version 3
	ClientID, ClientHost string
	RebalanceTimeoutMs   int32 // version 1
	SessionTimeoutMs     int32
	Subscription         []byte // for the chosen protocol
	Assignment           []byte
}

// AppendTo appends v in version 3, which Kafka 4 writes too. Strings are at most 32767 bytes long.
func (v GroupValue) AppendTo(dst []byte) []byte {
	dst = appendString(appendInt16(dst, 3), v.ProtocolType)
	dst = appendInt32(dst, v.Generation)
	dst = appendNullableString(dst, v.Protocol)
	dst = appendNullableString(dst, v.Leader)
	dst = appendInt64(dst, v.StateMs)
	dst = appendInt32(dst, int32(len(v.Members)))
	for _, m := range v.Members {
		dst = appendString(dst, m.ID)
		dst = appendNullableString(dst, m.InstanceID)
		dst = appendString(dst, m.ClientID)
		dst = appendString(dst, m.ClientHost)
		dst = appendInt32(dst, m.RebalanceTimeoutMs)
		dst = appendInt32(dst, m.SessionTimeoutMs)
		dst = appendBytes(dst, notNil(m.Subscription))
		dst = appendBytes(dst, notNil(m.Assignment))
	}
	return dst
}

func notNil(p []byte) []byte {
	if p == nil {
		return []byte{}
	}
	return p
}

// ParseGroupValue reads versions 0 to 4. Subscriptions and assignments alias p. It returns an error matching ErrMalformed.
func ParseGroupValue(p []byte) (GroupValue, error) {
	r := reader{p: p}
	version := r.int16()
	if r.err == nil && (version < 0 || version > 4) {
		return GroupValue{}, fmt.Errorf("%w: group value version %d", ErrMalformed, version)
	}
	text, optional, bytes := r.string, r.nullableString, r.bytes
	count := func() int { return r.count(minMemberValue) }
	end := func() {}
	if version >= 4 { // flexible
		text, optional, bytes = r.compactString, r.compactString, r.compactBytes
		count = func() int { return r.compactCount(minMemberValue) }
		end = func() { r.tags(nil) }
	}
	v := GroupValue{ProtocolType: text(), Generation: r.int32(), Protocol: optional(), Leader: optional(), StateMs: -1}
	if version >= 2 {
		v.StateMs = r.int64()
	}
	n := count()
	v.Members = make([]MemberValue, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		m := MemberValue{ID: text()}
		if version >= 3 {
			m.InstanceID = optional()
		}
		m.ClientID, m.ClientHost = text(), text()
		if version >= 1 {
			m.RebalanceTimeoutMs = r.int32()
		}
		m.SessionTimeoutMs = r.int32()
		if version == 0 {
			m.RebalanceTimeoutMs = m.SessionTimeoutMs // as Kafka reads it
		}
		m.Subscription, m.Assignment = bytes(), bytes()
		end()
		v.Members = append(v.Members, m)
	}
	end()
	if r.err != nil {
		return GroupValue{}, r.err
	}
	return v, nil
}

// minMemberValue is a lower bound of the size in bytes of a member of any version: two int32 and at least five fields of a byte or more.
const minMemberValue = 12
