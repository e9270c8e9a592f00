package producer_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// openBench returns a producer on files, with one partition.
func openBench(b testing.TB, sync log.SyncPolicy, cfg producer.Config) *producer.Producer {
	c, err := replication.Open(replication.Config{Dir: b.TempDir(), Defaults: topic.Config{Log: log.Config{Sync: sync}}})
	require.NoError(b, err)
	require.NoError(b, c.CreateTopic(b.Context(), "a", topic.Config{Partitions: 1}))
	p, err := producer.New(c, cfg)
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, p.Close())
		require.NoError(b, c.Close())
	})
	return p
}

var benchSyncs = []struct {
	name string
	sync log.SyncPolicy
}{{"fsync=never", log.SyncNever}, {"fsync=batch", log.SyncOnAck}}

// BenchmarkSendAsync measures the rate of one goroutine. All records have the same callback.
func BenchmarkSendAsync(b *testing.B) {
	for _, s := range benchSyncs {
		b.Run(fmt.Sprintf("%s/size=100", s.name), func(b *testing.B) {
			p := openBench(b, s.sync, producer.Config{})
			r := record.Record{Topic: "a", Value: make([]byte, 100)}
			var failed error
			done := func(_ record.Record, err error) {
				if err != nil {
					failed = err
				}
			}
			b.SetBytes(100)
			b.ReportAllocs()
			for b.Loop() {
				p.SendAsync(b.Context(), r, done)
			}
			require.NoError(b, p.Flush(b.Context()))
			require.NoError(b, failed)
			b.ReportMetric(float64(b.N)/float64(max(p.Stats().Batches, 1)), "records/batch")
		})
	}
}

// BenchmarkSendWindow is BenchmarkSendAsync with at most 4096 records not acknowledged.
func BenchmarkSendWindow(b *testing.B) {
	for _, s := range benchSyncs {
		b.Run(s.name, func(b *testing.B) {
			p := openBench(b, s.sync, producer.Config{})
			r := record.Record{Topic: "a", Value: make([]byte, 100)}
			window := make(chan struct{}, 4096)
			done := func(record.Record, error) { <-window }
			b.SetBytes(100)
			b.ReportAllocs()
			for b.Loop() {
				window <- struct{}{}
				p.SendAsync(b.Context(), r, done)
			}
			require.NoError(b, p.Flush(b.Context()))
			b.ReportMetric(float64(b.N)/float64(max(p.Stats().Batches, 1)), "records/batch")
		})
	}
}

// BenchmarkSend sends one record at a time, from one goroutine and from 64.
func BenchmarkSend(b *testing.B) {
	for _, s := range benchSyncs {
		b.Run(s.name+"/writers=1", func(b *testing.B) {
			p := openBench(b, s.sync, producer.Config{})
			r := record.Record{Topic: "a", Value: make([]byte, 100)}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Send(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(s.name+"/writers=64", func(b *testing.B) {
			p := openBench(b, s.sync, producer.Config{})
			b.ReportAllocs()
			b.SetParallelism(max(64/runtime.GOMAXPROCS(0), 1))
			b.RunParallel(func(pb *testing.PB) {
				r := record.Record{Topic: "a", Value: make([]byte, 100)}
				for pb.Next() {
					if _, err := p.Send(b.Context(), r); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
