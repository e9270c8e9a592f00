package producer

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/record"
)

// Typed is a producer of keys and values of given types: they are serialised first, then the
// partition is chosen by the key's bytes. It is safe for concurrent use if its serializers are.
type Typed[K, V any] struct {
	p     *Producer
	key   record.Serializer[K]
	value record.Serializer[V]
}

// NewTyped returns a typed view of p, which stays the caller's to close. A nil key serializer makes
// records without a key.
func NewTyped[K, V any](p *Producer, key record.Serializer[K], value record.Serializer[V]) *Typed[K, V] {
	return &Typed[K, V]{p, key, value}
}

// Record serialises key and value; Record.To and Send or SendAsync of the producer go from there.
func (t *Typed[K, V]) Record(topic string, key K, value V, headers ...record.Header) (record.Record, error) {
	r := record.Record{Topic: topic, Headers: headers}
	var err error
	if t.key != nil {
		if r.Key, err = t.key(topic, key); err != nil {
			return record.Record{}, fmt.Errorf("serialise key for topic %s: %w", topic, err)
		}
	}
	if r.Value, err = t.value(topic, value); err != nil {
		return record.Record{}, fmt.Errorf("serialise value for topic %s: %w", topic, err)
	}
	return r, nil
}

// Send is Producer.Send for one record. A serializer's error is returned before anything is sent.
func (t *Typed[K, V]) Send(ctx context.Context, topic string, key K, value V, headers ...record.Header) (Ack, error) {
	r, err := t.Record(topic, key, value, headers...)
	if err != nil {
		return Ack{Partition: -1, Offset: -1, Err: err}, err
	}
	acks, err := t.p.Send(ctx, r)
	return acks[0], err
}
