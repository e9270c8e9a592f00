//go:build !race

package producer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// sink is a Backend that accepts every batch at once.
type sink struct{ *fake }

func (s sink) Produce(req *partition.ProduceRequest) {
	req.Done(partition.ProduceResult{LogAppendTimeMs: -1})
}

func TestSendAsyncDoesNotAllocatePerRecord(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.LZ4} {
		p := newProducer(t, sink{newFake(map[string]int{"a": 3})}, Config{Compression: codec})
		done := func(record.Record, error) {}
		r := record.Record{Topic: "a", Key: []byte("key"), Value: make([]byte, 100)}
		const n = 10_000
		round := func() {
			for range n {
				p.SendAsync(t.Context(), r, done)
			}
			require.NoError(t, p.Flush(t.Context()))
		}
		round()
		require.Less(t, testing.AllocsPerRun(20, round)/n, 0.02)
	}
}

func TestSendAllocatesTheAcksOnly(t *testing.T) {
	p := newProducer(t, sink{newFake(map[string]int{"a": 1})}, Config{})
	rs := []record.Record{{Topic: "a", Value: make([]byte, 100)}}
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		_, err := p.Send(t.Context(), rs...)
		require.NoError(t, err)
	}), 1.5)
}
