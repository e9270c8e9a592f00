package record

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// A Serializer turns a key or value into bytes before the record's partition is chosen. A nil
// result means no key, or a tombstone. It must be safe for concurrent use. SerializeJSON,
// SerializeString, SerializeBytes and SerializeInt64 are Serializers.
type Serializer[T any] func(topic string, v T) ([]byte, error)

// SerializeJSON is a Serializer that uses encoding/json.
func SerializeJSON[T any](_ string, v T) ([]byte, error) { return json.Marshal(v) }

// SerializeString is a Serializer that returns the bytes of v. The result is never nil.
func SerializeString(_ string, v string) ([]byte, error) { return []byte(v), nil }

// SerializeBytes is a Serializer that returns v itself, which must not be changed afterwards.
func SerializeBytes(_ string, v []byte) ([]byte, error) { return v, nil }

// SerializeInt64 is a Serializer to 8 bytes whose byte order equals the numeric order, including
// negative numbers, so that ranges of keys work. For numbers from 0 on it differs from Kafka's
// LongSerializer only in the first bit, which is set here.
func SerializeInt64(_ string, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(nil, uint64(v)^1<<63), nil
}

// DecodeJSON is the inverse of SerializeJSON; nil decodes to the zero T. With Decode it makes a
// sequence of values.
func DecodeJSON[T any](p []byte) (v T, err error) {
	if p == nil {
		return v, nil
	}
	err = json.Unmarshal(p, &v)
	return v, err
}

// DecodeString is the inverse of SerializeString.
func DecodeString(p []byte) (string, error) { return string(p), nil }

// DecodeBytes is the inverse of SerializeBytes: it returns p itself.
func DecodeBytes(p []byte) ([]byte, error) { return p, nil }

// DecodeInt64 is the inverse of SerializeInt64. It returns an error unless p has 8 bytes.
func DecodeInt64(p []byte) (int64, error) {
	if len(p) != 8 {
		return 0, fmt.Errorf("record: integer of %d bytes instead of 8", len(p))
	}
	return int64(binary.BigEndian.Uint64(p) ^ 1<<63), nil
}

// JSON makes a record whose value is v encoded by encoding/json. An empty key means no key (nil).
func JSON(topic, key string, v any) (Record, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return Record{}, fmt.Errorf("record for topic %s: %w", topic, err)
	}
	r := String(topic, key, "")
	r.Value = value
	return r, nil
}
