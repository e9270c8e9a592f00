package offsets

import (
	"fmt"

	"github.com/stratalog/strata/internal/wire"
)

// A GroupValue is the value of a KeyGroup record: a classic group after its last completed
// rebalance.
type GroupValue struct {
	ProtocolType string
	Generation   int32
	Protocol     string // name of the chosen assignor; "": none
	Leader       string // member id of the group leader; "": none
	StateMs      int64  // time of the group's last state change; -1: unknown; version 2
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
	dst = wire.AppendString(wire.AppendInt16(dst, 3), v.ProtocolType)
	dst = wire.AppendInt32(dst, v.Generation)
	dst = wire.AppendNullableString(dst, v.Protocol)
	dst = wire.AppendNullableString(dst, v.Leader)
	dst = wire.AppendInt64(dst, v.StateMs)
	dst = wire.AppendInt32(dst, int32(len(v.Members)))
	for _, m := range v.Members {
		dst = wire.AppendString(dst, m.ID)
		dst = wire.AppendNullableString(dst, m.InstanceID)
		dst = wire.AppendString(dst, m.ClientID)
		dst = wire.AppendString(dst, m.ClientHost)
		dst = wire.AppendInt32(dst, m.RebalanceTimeoutMs)
		dst = wire.AppendInt32(dst, m.SessionTimeoutMs)
		dst = wire.AppendBytes(dst, notNil(m.Subscription))
		dst = wire.AppendBytes(dst, notNil(m.Assignment))
	}
	return dst
}

func notNil(p []byte) []byte {
	if p == nil {
		return []byte{}
	}
	return p
}

// ParseGroupValue parses versions 0 to 4. Subscriptions and assignments alias p. It returns an
// error matching ErrMalformed.
func ParseGroupValue(p []byte) (GroupValue, error) {
	r := wire.Reader{P: p}
	version := r.Int16()
	if r.Err == nil && (version < 0 || version > 4) {
		return GroupValue{}, fmt.Errorf("%w: group value version %d", ErrMalformed, version)
	}
	text, optional, bytes := r.String, r.NullableString, r.Bytes
	count := func() int { return r.Count(minMemberValue) }
	end := func() {}
	if version >= 4 { // flexible
		text, optional, bytes = r.CompactString, r.CompactString, r.CompactBytes
		count = func() int { return r.CompactCount(minMemberValue) }
		end = func() { r.Tags(nil) }
	}
	v := GroupValue{ProtocolType: text(), Generation: r.Int32(), Protocol: optional(), Leader: optional(), StateMs: -1}
	if version >= 2 {
		v.StateMs = r.Int64()
	}
	n := count()
	v.Members = make([]MemberValue, 0, n)
	for ; n > 0 && r.Err == nil; n-- {
		m := MemberValue{ID: text()}
		if version >= 3 {
			m.InstanceID = optional()
		}
		m.ClientID, m.ClientHost = text(), text()
		if version >= 1 {
			m.RebalanceTimeoutMs = r.Int32()
		}
		m.SessionTimeoutMs = r.Int32()
		if version == 0 {
			m.RebalanceTimeoutMs = m.SessionTimeoutMs // as Kafka reads it
		}
		m.Subscription, m.Assignment = bytes(), bytes()
		end()
		v.Members = append(v.Members, m)
	}
	end()
	if r.Err != nil {
		return GroupValue{}, r.Err
	}
	return v, nil
}

// minMemberValue is a lower bound of the size in bytes of a member of any version: two int32 and
// at least five fields of a byte or more.
const minMemberValue = 12
