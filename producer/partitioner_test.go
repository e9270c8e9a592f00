package producer

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func TestExplicitPartitionWinsOverThePartitioner(t *testing.T) {
	f := newFake(map[string]int{"a": 3})
	p := newProducer(t, f, Config{Partitioner: topic.PartitionerFunc(func(record.Record, int) int { return 0 })})
	acks, err := p.Send(t.Context(), value("a", 0).To(2), value("a", 1))
	require.NoError(t, err)
	require.Equal(t, int32(2), acks[0].Partition)
	require.Equal(t, int32(0), acks[1].Partition)
}

func TestPartitionerMayRefuse(t *testing.T) {
	f := newFake(map[string]int{"a": 2})
	p := newProducer(t, f, Config{Partitioner: topic.List(map[string]int{"de": 1}, nil)})
	acks, err := p.Send(t.Context(), record.String("a", "fr", "x"), record.String("a", "de", "y"))
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorIs(t, acks[0].Err, ErrRefused)
	require.Equal(t, Ack{Partition: 1, Timestamp: acks[1].Timestamp}, acks[1])
	require.Equal(t, int64(1), p.Stats().Refused)
}

func TestSerializersRunBeforeThePartitioner(t *testing.T) {
	f := newFake(map[string]int{"a": 10})
	var seen []byte
	p := newProducer(t, f, Config{Partitioner: topic.PartitionerFunc(func(r record.Record, n int) int {
		seen = r.Key
		return topic.Hash().Partition(r, n)
	})})
	typed := NewTyped(p, record.SerializeString, record.SerializeJSON[map[string]int])
	ack, err := typed.Send(t.Context(), "a", "kafka", map[string]int{"n": 1}, record.Header{Key: "h", Value: []byte("v")})
	require.NoError(t, err)
	require.Equal(t, "kafka", string(seen))
	require.Equal(t, int32(0), ack.Partition) // 1348980580 mod 10, as in the Java client
	require.Equal(t, []string{`{"n":1}`}, f.values("a", 0))

	failing := NewTyped[int](p, nil, func(string, string) ([]byte, error) { return nil, errors.ErrUnsupported })
	ack, err = failing.Send(t.Context(), "a", 0, "x")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.Equal(t, int64(-1), ack.Offset)
}

func TestStickyPartitionerFillsABatchBeforeItMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 8})
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: time.Millisecond} }
		p := newProducer(t, f, Config{Partitioner: topic.Sticky(), BatchBytes: 2000, Linger: time.Second})
		for i := range 40000 {
			p.SendAsync(t.Context(), value("a", i), nil)
		}
		require.NoError(t, p.Flush(t.Context()))
		full := 0
		for _, b := range f.headers() {
			if b.Size() > 1900 {
				full++
			}
		}
		require.Greater(t, full, len(f.headers())*9/10, "of %d batches", len(f.headers()))
		for i := range 8 {
			require.NotEmpty(t, f.values("a", i), "partition %d: chosen by chance, but more than a hundred times", i)
		}
		require.NoError(t, p.Close())
	})
}
