package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// The dead letter topic has the size limit of the source topic, so a record of that size is too
// large with the added headers.
func TestARecordNearTheSizeLimitIsDeadLetteredByReference(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		require.NoError(t, b.CreateTopic(t.Context(), "dead", topic.Config{Partitions: 1}))
		p, err := producer.New(b, producer.Config{MaxRequestBytes: 2 << 20})
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
		big := bytes.Repeat([]byte("x"), 1<<20-100)
		r := record.Record{Topic: "t", Key: []byte("k"), Value: big, Headers: []record.Header{{Key: "trace", Value: []byte("1")}}}
		_, err = p.Send(t.Context(), r.To(0), record.String("t", "k", "next").To(0))
		require.NoError(t, err)

		c := open(t, b, config(consumer.CommitProcessed))
		err = c.Run(hour(t), func(_ context.Context, r record.Record) error {
			if r.Offset == 1 {
				c.Wakeup()
				return nil
			}
			return errors.New("no luck")
		}, consumer.RunConfig{DeadLetter: consumer.DeadLetterTopic(p, "dead")})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 2}, committed(t, b, "g"))

		d := read(t, open(t, b, consumer.Config{Topics: []string{"dead"}}), 1)[0]
		require.Equal(t, "k", string(d.Key))
		require.Empty(t, d.Value)
		left, _ := d.Header(consumer.HeaderOmitted)
		require.Equal(t, "value", string(left))
		trace, _ := d.Header("trace")
		require.Equal(t, "1", string(trace))
		offset, _ := d.Header(consumer.HeaderOffset)
		require.Equal(t, "0", string(offset))
	})
}

// The topic rejects even a reference: Run returns the producer's error and does not loop.
func TestADeadLetterThatCannotBeSmallEnoughIsAnErrorOfRun(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		require.NoError(t, b.CreateTopic(t.Context(), "dead", topic.Config{Partitions: 1, Properties: map[string]string{"max.message.bytes": "100"}}))
		p, err := producer.New(b, producer.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
		fill(t, b, 0, 1)
		c := open(t, b, config(consumer.CommitProcessed))
		err = c.Run(hour(t), func(context.Context, record.Record) error { return errors.New("no luck") },
			consumer.RunConfig{DeadLetter: consumer.DeadLetterTopic(p, "dead")})
		require.ErrorIs(t, err, producer.ErrMessageTooLarge)
		require.ErrorContains(t, err, "no luck")
	})
}

// The parts are omitted step by step: stack, value, own headers, key.
func TestADeadLetterLeavesOutNoMoreThanItMust(t *testing.T) {
	pad := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	for name, test := range map[string]struct {
		r       record.Record
		omitted string
		value   int
	}{
		"fits":            {record.Record{Key: pad(10), Value: pad(1000)}, "", 1000},
		"without value":   {record.Record{Key: pad(10), Value: pad(1900)}, "value", 0},
		"without headers": {record.Record{Key: pad(10), Value: pad(10), Headers: []record.Header{{Key: "own", Value: pad(1900)}}}, "value,headers", 0},
		"without key":     {record.Record{Key: pad(1900), Value: pad(10)}, "key,value,headers", 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				require.NoError(t, b.CreateTopic(t.Context(), "dead", topic.Config{Partitions: 1, Properties: map[string]string{"max.message.bytes": "2000"}}))
				p, err := producer.New(b, producer.Config{})
				require.NoError(t, err)
				t.Cleanup(func() { _ = p.Close() })
				test.r.Topic = "t"
				_, err = p.Send(t.Context(), test.r)
				require.NoError(t, err)
				c := open(t, b, config(consumer.CommitProcessed))
				toTopic := consumer.DeadLetterTopic(p, "dead")
				err = c.Run(hour(t), func(context.Context, record.Record) error {
					panic("with a stack that does not fit either")
				}, consumer.RunConfig{DeadLetter: func(ctx context.Context, r record.Record, err error) error {
					defer c.Wakeup()
					return toTopic(ctx, r, err)
				}})
				require.NoError(t, err)
				d := read(t, open(t, b, consumer.Config{Topics: []string{"dead"}}), 1)[0]
				omitted, _ := d.Header(consumer.HeaderOmitted)
				require.Equal(t, test.omitted, string(omitted))
				require.Len(t, d.Value, test.value)
				from, _, ok := consumer.Origin(d)
				require.True(t, ok)
				require.Equal(t, tp(0), from)
				require.Contains(t, header(t, d, consumer.HeaderError), "does not fit")
			})
		})
	}
}
