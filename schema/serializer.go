package schema

import (
	"fmt"
	"sync"
)

// Config describes a Serializer.
type Config struct {
	Registry Registry
	Schema   Schema

	// Subject returns the subject under which the schema is registered for a topic; nil: the topic
	// with the suffix "-value". Use TopicKey for keys.
	Subject func(topic string) string

	// Indexes are the path of the message in a Protobuf schema, see AppendIndexes; nil: the first
	// message. Other schemas have none.
	Indexes []int
}

// TopicValue is the usual subject of a topic's values. Confluent: TopicNameStrategy.
func TopicValue(topic string) string { return topic + "-value" }

// TopicKey is the usual subject of a topic's keys. Confluent: TopicNameStrategy.
func TopicKey(topic string) string { return topic + "-key" }

// Serializer returns a record.Serializer that adds the id of cfg.Schema to values. It registers the
// schema at the first write to each topic. If that fails, the record fails, and the next record
// tries again. encode returns the value in its own format; nil, for a tombstone, stays nil. The
// result is safe for concurrent use if encode is.
func Serializer[T any](cfg Config, encode func(T) ([]byte, error)) func(topic string, v T) ([]byte, error) {
	subject := cfg.Subject
	if subject == nil {
		subject = TopicValue
	}
	var ids sync.Map // int32 by topic
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

// Written is a serialised value with its schema.
type Written struct {
	ID      int32
	Schema  Schema // schema the value was written with
	Indexes []int  // path of its message if the schema is Protobuf
	Bytes   []byte // the value in its own format; aliases the record's
}

// Decoder returns the inverse of Serializer, for record.Decode. It looks up the schema of a value,
// once for each id, and calls decode. nil bytes, a tombstone, become the zero T. Errors match
// ErrNoFrame, ErrIndexes or ErrUnknown, or come from the registry or decode, with the id added. A
// failed lookup is retried with the next value. The result is safe for concurrent use if decode is.
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
