package txnlog

import (
	"encoding/binary"
	"fmt"

	"github.com/stratalog/strata/internal/wire"
	"github.com/stratalog/strata/record"
)

// A Record is one record of the topic. Without a Value it is a tombstone: the id has expired.
type Record struct {
	ID    string // the transactional id
	Value *Value
}

// A Value is the stored state of a transactional id.
type Value struct {
	ProducerID int64
	Epoch      int16 // of the producer; in Prepare* and Complete* of version 2 one above the transaction's
	TimeoutMs  int32
	State      State
	Partitions []record.TopicPartition // of the transaction; none in Empty and Complete*
	UpdateMs   int64                   // time of this change of state
	StartMs    int64                   // time of the transaction's begin; -1 in Empty

	// Fields that a value of version 0 does not have.
	PreviousID    int64 // ProducerID of the record before; -1: none
	NextID        int64 // in Prepare*: the producer's id once the markers are written; -1: the same
	ClientVersion int16 // transaction.version of the client whose request caused this state

	// LastEpoch is the producer's epoch before Epoch, which a retry of InitProducerId may still
	// have; -1 if none. Kafka's format does not have it: Kafka's readers skip it, and Kafka's
	// coordinator loses it when it moves.
	LastEpoch int16
}

// Tags of a Value in version 1.
const (
	tagPreviousID    = 0
	tagNextID        = 1
	tagClientVersion = 2
	tagLastEpoch     = 10_000 // Strata's own, far from tags that Kafka may add
)

// AppendKey appends the key of the records of a transactional id, which is at most 32767 bytes
// long.
func AppendKey(dst []byte, id string) []byte {
	return wire.AppendString(wire.AppendInt16(dst, 0), id)
}

// AppendTo appends v in the version for that level of the feature transaction.version: 0 at level
// 0, else 1. Version 0 cannot have the results of a client of version 2. Partitions of one topic
// must be consecutive.
func (v *Value) AppendTo(dst []byte, level int16) []byte {
	version := min(max(level, v.ClientVersion), 1)
	dst = wire.AppendInt64(wire.AppendInt16(dst, version), v.ProducerID)
	dst = wire.AppendInt32(wire.AppendInt16(dst, v.Epoch), v.TimeoutMs)
	dst = append(dst, byte(v.State))
	flexible := version >= 1
	dst = v.appendPartitions(dst, flexible)
	dst = wire.AppendInt64(wire.AppendInt64(dst, v.UpdateMs), v.StartMs)
	if flexible {
		dst = v.appendTags(dst)
	}
	return dst
}

// appendPartitions writes null in Empty, as Kafka does, and an array elsewhere.
func (v *Value) appendPartitions(dst []byte, flexible bool) []byte {
	if v.State == Empty {
		return appendCount(dst, -1, flexible)
	}
	topics := 0
	for i, tp := range v.Partitions {
		if i == 0 || tp.Topic != v.Partitions[i-1].Topic {
			topics++
		}
	}
	dst = appendCount(dst, topics, flexible)
	for rest := v.Partitions; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Topic == rest[0].Topic {
			n++
		}
		if flexible {
			dst = wire.AppendCompactString(dst, rest[0].Topic)
		} else {
			dst = wire.AppendString(dst, rest[0].Topic)
		}
		dst = appendCount(dst, n, flexible)
		for _, tp := range rest[:n] {
			dst = wire.AppendInt32(dst, tp.Partition)
		}
		if flexible {
			dst = append(dst, 0) // no tagged fields
		}
		rest = rest[n:]
	}
	return dst
}

// appendCount writes the length of an array, -1 for null.
func appendCount(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(dst, uint64(n+1))
	}
	return wire.AppendInt32(dst, int32(n))
}

// appendTags writes the tagged fields that differ from their defaults, in their order.
func (v *Value) appendTags(dst []byte) []byte {
	var tags []byte
	n := byte(0)
	tag := func(tag uint64, set bool, value int64, size int) {
		if !set {
			return
		}
		n++
		tags = binary.AppendUvarint(binary.AppendUvarint(tags, tag), uint64(size))
		if size == 8 {
			tags = wire.AppendInt64(tags, value)
		} else {
			tags = wire.AppendInt16(tags, int16(value))
		}
	}
	tag(tagPreviousID, v.PreviousID != -1, v.PreviousID, 8)
	tag(tagNextID, v.NextID != -1, v.NextID, 8)
	tag(tagClientVersion, v.ClientVersion != 0, int64(v.ClientVersion), 2)
	tag(tagLastEpoch, v.LastEpoch != -1, int64(v.LastEpoch), 2)
	return append(append(dst, n), tags...)
}

// ParseRecord decodes a record of the topic. known is false for a key of another version, which is
// not an error: a reader skips it. A nil value is a tombstone. The result does not alias key or
// value. Errors match ErrMalformed.
func ParseRecord(key, value []byte) (r Record, known bool, err error) {
	k := wire.Reader{P: key}
	if version := k.Int16(); k.Err == nil && version != 0 {
		return Record{}, false, nil
	}
	r.ID = k.String()
	if k.Err == nil && len(k.P) > 0 {
		k.Fail("bytes after the key")
	}
	if k.Err != nil {
		return Record{}, false, k.Err
	}
	if value == nil {
		return r, true, nil
	}
	v, err := ParseValue(value)
	if err != nil {
		return Record{}, false, err
	}
	r.Value = &v
	return r, true, nil
}

// ParseValue reads versions 0 and 1. It returns an error matching ErrMalformed.
func ParseValue(p []byte) (Value, error) {
	r := wire.Reader{P: p}
	version := r.Int16()
	if r.Err == nil && (version < 0 || version > 1) {
		return Value{}, fmt.Errorf("%w: transaction value version %d", ErrMalformed, version)
	}
	v := Value{ProducerID: r.Int64(), Epoch: r.Int16(), TimeoutMs: r.Int32(), State: State(r.Int8()), PreviousID: -1, NextID: -1, LastEpoch: -1}
	if r.Err == nil && (v.State < Empty || v.State > Dead) {
		r.Fail("state")
	}
	v.Partitions = readPartitions(&r, version)
	v.UpdateMs, v.StartMs = r.Int64(), r.Int64()
	if version >= 1 {
		r.Tags(func(tag uint64, f *wire.Reader) {
			switch tag {
			case tagPreviousID:
				v.PreviousID = f.Int64()
			case tagNextID:
				v.NextID = f.Int64()
			case tagClientVersion:
				v.ClientVersion = f.Int16()
			case tagLastEpoch:
				v.LastEpoch = f.Int16()
			}
		})
	}
	if r.Err != nil {
		return Value{}, r.Err
	}
	return v, nil
}

// readPartitions returns the partitions in the order in which they are written.
func readPartitions(r *wire.Reader, version int16) (out []record.TopicPartition) {
	text, count := r.String, r.Count
	if version >= 1 {
		text, count = r.CompactString, r.CompactCount
	}
	for n := count(minTopic); n > 0 && r.Err == nil; n-- {
		topic := text()
		for m := count(4); m > 0 && r.Err == nil; m-- {
			out = append(out, record.TopicPartition{Topic: topic, Partition: r.Int32()})
		}
		if version >= 1 {
			r.Tags(nil)
		}
	}
	return out
}

// minTopic is a lower bound of the size in bytes of a topic of either version.
const minTopic = 3
