package schema

import (
	"fmt"
	"sync"
)

// Config says what a Serializer writes.
type Config struct {
	Registry Registry
	Schema   Schema

	// Subject names what the schema is registered under, from the topic; nil: the topic with
	// "-value" behind it. Use TopicKey for keys.
	Subject func(topic string) string

	// Indexes lead to the message in a Protobuf schema, see AppendIndexes; nil: the first one.
	// Other schemas have none.
	Indexes []int
}

// TopicValue and TopicKey are the usual subjects of a topic's values and keys. Confluent:
// TopicNameStrategy.
func TopicValue(topic string) string { return topic + "-value" }

// TopicKey is the subject of a topic's keys.
func TopicKey(topic string) string { return topic + "-key" }

// Serializer returns a record.Serializer that writes values with the id of cfg.Schema, which it
// registers when it first writes to a topic. A registration that fails fails the record, and is
// tried again with the next one. encode returns the value in its own format; nil, for a tombstone,
// stays nil. The result is safe for concurrent use if encode is.
func Serializer[T any](cfg Config, encode func(T) ([]byte, error)) func(topic string, v T) ([]byte, error) {
	subject := cfg.Subject
	if subject == nil {
		subject = TopicValue
	}
	var ids sync.Map // of topics: int32
	return func(topic string, v T) ([]byte, error) {
		p, err := encode(v)
		if p == nil || err != nil {
			return nil, err
		}
		id, ok := ids.Load(topic)
		if !ok {
			if id, err = cfg.Registry.Register(subject(topic), cfg.Schema); err != nil {
				return nil, fmt.Errorf("register schema of topic %s: %w", topic, err)
			}
			ids.Store(topic, id)
		}
		out := AppendFrame(make([]byte, 0, frameBytes+1+len(p)), id.(int32))
		if cfg.Schema.Type == Protobuf {
			out = AppendIndexes(out, cfg.Indexes...)
		}
		return append(out, p...), nil
	}
}

// Written is a value as it was written.
type Written struct {
	ID      int32
	Schema  Schema // it was written with
	Indexes []int  // of its message, if the schema is Protobuf
	Bytes   []byte // the value in its own format; aliases the record's
}

// Decoder returns the inverse of Serializer, for record.Decode: it looks up the schema that a value
// was written with, once for each id, and leaves the rest to decode. nil bytes, a tombstone, are
// the zero T. Errors match ErrNoFrame, ErrIndexes or ErrUnknown, or are those of the registry or
// decode, with the id; a lookup that failed is tried again with the next value. The result is safe
// for concurrent use if decode is.
func Decoder[T any](r Registry, decode func(Written) (T, error)) func([]byte) (T, error) {
	var schemas sync.Map // by id
	return func(p []byte) (v T, err error) {
		if p == nil {
			return v, nil
		}
		w := Written{}
		if w.ID, w.Bytes, err = ParseFrame(p); err != nil {
			return v, err
		}
		known, ok := schemas.Load(w.ID)
		if !ok {
			if known, err = r.Schema(w.ID); err != nil {
				return v, fmt.Errorf("schema with id %d: %w", w.ID, err)
			}
			schemas.Store(w.ID, known)
		}
		if w.Schema = known.(Schema); w.Schema.Type == Protobuf {
			if w.Indexes, w.Bytes, err = ParseIndexes(w.Bytes); err != nil {
				return v, err
			}
		}
		if v, err = decode(w); err != nil {
			return v, fmt.Errorf("value with schema id %d: %w", w.ID, err)
		}
		return v, nil
	}
}
