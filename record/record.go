package record

import (
	"slices"
	"strings"
	"time"
)

// TimestampType is the source of a record's timestamp. Kafka: message.timestamp.type.
type TimestampType uint8

const (
	CreateTime    TimestampType = iota // set by the producer (the default)
	LogAppendTime                      // set by the leader when it appended the batch
)

// A Header is one named piece of metadata of a record. Names may repeat and may be empty; a nil
// Value differs from an empty one.
type Header struct {
	Key   string
	Value []byte
}

// A Record is one key and value of a topic, with headers and a timestamp.
//
// To send a record, set Topic, Key, Value, Headers and Timestamp (and a partition with To). In a
// consumed record every field is set. Key, Value and Headers (names too) of a consumed record alias
// a garbage-collected buffer: they may be kept but must not be written to; Clone copies them.
type Record struct {
	Topic         string
	Partition     int32 // set on consumed records; to send to a given partition use To
	LeaderEpoch   int32
	Offset        int64
	Timestamp     time.Time // millisecond precision; zero: set at send
	Key, Value    []byte    // nil differs from empty; a nil Value is a tombstone
	Headers       []Header
	TimestampType TimestampType

	explicit bool // Partition was chosen by To
}

// String makes a record of strings. An empty key means no key (nil); the value is never nil.
func String(topic, key, value string) Record {
	r := Record{Topic: topic, Value: []byte(value)}
	if key != "" {
		r.Key = []byte(key)
	}
	return r
}

// To returns r with an explicit partition, which takes precedence over any partitioner, as in
// Kafka. A negative partition lets the partitioner choose again.
func (r Record) To(partition int32) Record {
	r.Partition, r.explicit = partition, partition >= 0
	return r
}

// ExplicitPartition returns the partition set by To; ok is false if there is none.
func (r *Record) ExplicitPartition() (partition int32, ok bool) { return r.Partition, r.explicit }

// Header returns the value of the last header named key.
func (r Record) Header(key string) (value []byte, ok bool) {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == key {
			return h.Value, true
		}
	}
	return nil, false
}

// Clone returns a deep copy that shares no memory with r.
func (r Record) Clone() Record {
	r.Key, r.Value = slices.Clone(r.Key), slices.Clone(r.Value)
	r.Headers = slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i].Key = strings.Clone(r.Headers[i].Key)
		r.Headers[i].Value = slices.Clone(r.Headers[i].Value)
	}
	return r
}

// A TopicPartition names one partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Offsets maps each partition to one offset: the next one to read.
type Offsets map[TopicPartition]int64

// Committed is a group's committed offset of a partition.
type Committed struct {
	Offset      int64 // next offset to read; -1: none
	LeaderEpoch int32 // leader epoch of the record before Offset; -1: unknown
	Metadata    string
}

// Acks selects when an append is acknowledged. The zero value is the safest. Kafka: acks.
type Acks int8

const (
	AcksAll    Acks = iota // every in-sync replica has it (and, under SyncOnAck, on stable storage)
	AcksLeader             // the leader has it
	AcksNone               // no acknowledgement; losses go unnoticed
)

// String returns Kafka's spelling: "all", "1" or "0".
func (a Acks) String() string {
	switch a {
	case AcksAll:
		return "all"
	case AcksLeader:
		return "1"
	case AcksNone:
		return "0"
	}
	return "invalid"
}
