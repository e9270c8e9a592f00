package producer

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/record"
)

// Typed is a producer of keys and values of given types. They are serialised before the partition
// is chosen by the key's bytes. It is safe for concurrent use if its serializers are.
type Typed[K, V any] struct {
	p     *Producer
	key   record.Serializer[K]
	value record.Serializer[V]
}

// NewTyped returns a typed view of p, which the caller closes. A nil key serializer makes records
// without a key.
func NewTyped[K, V any](p *Producer, key record.Serializer[K], value record.Serializer[V]) *Typed[K, V] {
	return &Typed[K, V]{p, key, value}
}

// Record serialises key and value. Pass the result to Record.To, or to Send or SendAsync of the
// producer.
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

// Send is Producer.Send for one record. If a serializer fails, its error is returned and nothing is
// sent.
func (t *Typed[K, V]) Send(ctx context.Context, topic string, key K, value V, headers ...record.Header) (Ack, error) {
	r, err := t.Record(topic, key, value, headers...)
	if err != nil {
		return Ack{Partition: -1, Offset: -1, Err: err}, err
	}
	acks, err := t.p.Send(ctx, r)
	return acks[0], err
}
