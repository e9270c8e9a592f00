package log

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkTailingReaders has one writer append ten records of 100 B per millisecond, with no
// reader and with a hundred followers at the end. It reports the writer's rate, and the time from
// the start of a record's append until a reader gets it.
func BenchmarkTailingReaders(b *testing.B) {
	for _, policy := range []SyncPolicy{SyncNever, SyncOnAck} {
		for _, readers := range []int{0, 100} {
			b.Run(fmt.Sprintf("fsync=%s/readers=%d", policy, readers), func(b *testing.B) { tailing(b, policy, readers) })
		}
	}
}

func tailing(b *testing.B, policy SyncPolicy, readers int) {
	l, err := Open(b.TempDir(), Config{Sync: policy})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	epoch, lats := time.Now(), make([][]time.Duration, readers)
	var wg sync.WaitGroup
	for i := range readers {
		lats[i] = make([]time.Duration, 0, 10*b.N)
		wg.Go(func() {
			for r, err := range l.Follow(ctx, 0) {
				if err != nil {
					b.Error(err)
					return
				}
				lats[i] = append(lats[i], time.Since(epoch)-time.Duration(binary.BigEndian.Uint64(r.Value)))
				if len(lats[i]) == 10*b.N {
					return
				}
			}
		})
	}
	tick := time.NewTicker(time.Millisecond)
	rs := benchRecords(10, 100)
	b.ResetTimer()
	start := time.Now()
	for i := 0; i < b.N; {
		<-tick.C
		// Ticks may be dropped: keep the rate.
		for ; i < min(b.N, int(time.Since(start)/time.Millisecond)); i++ {
			for j := range rs {
				rs[j].Value = binary.BigEndian.AppendUint64(make([]byte, 0, 100), uint64(time.Since(epoch)))[:100]
			}
			if _, err := l.Append(context.Background(), rs...); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.StopTimer()
	tick.Stop()
	b.ReportMetric(float64(10*b.N)/b.Elapsed().Seconds(), "records/s")
	wg.Wait()
	cancel()
	if all := slices.Concat(lats...); len(all) > 0 {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
	}
	require.NoError(b, l.Close())
}
