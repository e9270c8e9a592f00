package log

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

func BenchmarkAppend(b *testing.B) {
	for _, policy := range []struct {
		name string
		sync SyncPolicy
	}{{"never", SyncNever}, {"always", SyncOnAck}} {
		for _, n := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("fsync=%s/batch=%d", policy.name, n), func(b *testing.B) {
				l, rs := openBench(b, Config{Sync: policy.sync}), benchRecords(n, 100)
				ctx := context.Background()
				b.SetBytes(int64(100 * n))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := l.Append(ctx, rs...); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkAppendDurable has 64 writers, spread over some logs of one directory.
func BenchmarkAppendDurable(b *testing.B) {
	for _, n := range []int{1, 6, 64} {
		b.Run(fmt.Sprintf("fsync=batch/writers=64/logs=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			d, err := OpenDirectory(dir, DirectoryConfig{})
			require.NoError(b, err)
			var logs []*Log
			for i := range n {
				l, err := Open(fmt.Sprintf("%s/bench-%d", dir, i), Config{Dir: d})
				require.NoError(b, err)
				logs = append(logs, l)
			}
			rec := record.Record{Value: make([]byte, 100)}
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var wg sync.WaitGroup
			for w := range 64 {
				wg.Go(func() {
					l := logs[w%n]
					for left.Add(-1) >= 0 {
						if _, err := l.Append(context.Background(), rec); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			rounds := int64(0)
			for _, l := range logs {
				rounds += l.Stats().Rounds
			}
			b.ReportMetric(float64(b.N)/float64(rounds), "records/round")
			for _, l := range logs {
				require.NoError(b, l.Close())
			}
			require.NoError(b, d.Close())
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{100, 1000} {
		b.Run(fmt.Sprintf("record=%d", size), func(b *testing.B) { benchmarkRead(b, size) })
	}
}

func benchmarkRead(b *testing.B, size int) {
	l, rs := openBench(b, Config{Sync: SyncNever}), benchRecords(1000, size)
	for range 500 {
		_, err := l.Append(context.Background(), rs...)
		require.NoError(b, err)
	}
	n := int(l.EndOffset())
	b.Run("raw", func(b *testing.B) {
		buf := make([]byte, 0, 1<<20)
		b.SetBytes(int64(size * n))
		b.ReportAllocs()
		for b.Loop() {
			for from := int64(0); from < l.EndOffset(); {
				p, err := l.Read(buf[:0], from, cap(buf))
				if err != nil {
					b.Fatal(err)
				}
				for len(p) > 0 {
					h, _ := record.ParseHeader(p)
					p, from = p[h.Size():], h.NextOffset()
				}
			}
		}
	})
	b.Run("records", func(b *testing.B) {
		b.SetBytes(int64(size * n))
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range l.Records(0) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
