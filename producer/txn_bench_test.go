package producer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// BenchmarkTransaction sends a thousand records of 100 bytes to three partitions in memory: plain,
// idempotent, and in a transaction. It waits until all are acknowledged and the transaction is
// committed.
func BenchmarkTransaction(b *testing.B) {
	w := openTxnWorld(b, 2)
	value := make([]byte, 100)
	rs := make([]record.Record, 1000)
	for i := range rs {
		rs[i] = record.Record{Topic: "a", Value: value}.To(int32(i % 3))
	}
	b.Run("plain", func(b *testing.B) {
		p, err := producer.New(w.backend(b), producer.Config{})
		require.NoError(b, err)
		defer p.Close()
		b.ReportAllocs()
		for b.Loop() {
			p.SendAllAsync(b.Context(), rs, nil)
			require.NoError(b, p.Flush(b.Context()))
		}
		b.ReportMetric(float64(len(rs)*b.N)/b.Elapsed().Seconds(), "records/s")
	})
	for i, name := range []string{"transaction", "each"} {
		b.Run(name, func(b *testing.B) {
			p, err := producer.New(w.backend(b), producer.Config{TransactionalID: fmt.Sprint("x", i)})
			require.NoError(b, err)
			defer p.Close()
			b.ReportAllocs()
			var commits []time.Duration
			for b.Loop() {
				tx, err := p.Begin(b.Context())
				require.NoError(b, err)
				if name == "each" {
					for _, r := range rs {
						if err := tx.Send(b.Context(), r); err != nil {
							b.Fatal(err)
						}
					}
				} else {
					require.NoError(b, tx.Send(b.Context(), rs...))
				}
				began := time.Now()
				require.NoError(b, tx.Commit(b.Context()))
				commits = append(commits, time.Since(began))
			}
			slices.Sort(commits)
			b.ReportMetric(float64(len(rs)*b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(commits[len(commits)/2].Microseconds()), "commit-p50-µs")
			b.ReportMetric(float64(commits[len(commits)*99/100].Microseconds()), "commit-p99-µs")
		})
	}
}
