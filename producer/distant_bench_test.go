package producer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// distant is a Backend that accepts every batch after a while.
type distant struct {
	*fake
	after time.Duration
}

func (d distant) Produce(req *partition.ProduceRequest) {
	time.AfterFunc(d.after, func() { req.Done(partition.ProduceResult{LogAppendTimeMs: -1}) })
}

// BenchmarkSendAsyncToADistantBackend measures the rate of one goroutine to one partition of a
// backend that answers after 10 ms.
func BenchmarkSendAsyncToADistantBackend(b *testing.B) {
	for _, size := range []int{100, 1 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			p, err := New(distant{newFake(map[string]int{"a": 1}), roundTrip}, Config{})
			require.NoError(b, err)
			r := record.Record{Topic: "a", Value: make([]byte, size)}
			_, err = p.Send(b.Context(), r) // the latency is known
			require.NoError(b, err)
			done := func(record.Record, error) {}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				p.SendAsync(b.Context(), r, done)
			}
			require.NoError(b, p.Close())
			b.ReportMetric(float64(b.N)/float64(max(p.Stats().Batches, 1)), "records/batch")
		})
	}
}
