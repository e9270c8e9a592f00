package consumer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

const benchRecords = 100_000

// openFull returns a consumer of one partition, on files, that holds benchRecords records of the
// given size, in batches of about 64 KiB.
func openFull(b testing.TB, size int, cfg consumer.Config) *consumer.Consumer {
	c, err := replication.Open(replication.Config{Dir: b.TempDir()})
	require.NoError(b, err)
	never := map[string]string{"flush.messages": fmt.Sprint(int64(1)<<62 - 1)}
	require.NoError(b, c.CreateTopic(b.Context(), "t", topic.Config{Partitions: 1, Properties: never}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(b, err)
	v := make([]byte, size)
	for range benchRecords {
		p.SendAsync(b.Context(), record.Record{Topic: "t", Value: v}, nil)
	}
	require.NoError(b, p.Close())
	cfg.Assign = record.Offsets{tp(0): 0}
	r, err := consumer.New(c, cfg)
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, r.Close())
		require.NoError(b, c.Close())
	})
	return r
}

// BenchmarkRecords is the rate of owned records by value, one by one, from the file.
func BenchmarkRecords(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			c := openFull(b, size, consumer.Config{})
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; {
				require.NoError(b, c.Seek(tp(0), 0))
				at := 0
				for r, err := range c.Records(b.Context()) {
					if err != nil || len(r.Value) != size {
						b.Fatal(err)
					}
					if at++; at == benchRecords || n+at == b.N {
						break
					}
				}
				n += at
			}
		})
	}
}

// BenchmarkPoll measures the rate of batches that Poll returns.
func BenchmarkPoll(b *testing.B) {
	for _, most := range []int{consumer.DefaultMaxPollRecords, 10_000} {
		b.Run(fmt.Sprintf("size=100/most=%d", most), func(b *testing.B) {
			c := openFull(b, 100, consumer.Config{MaxPollRecords: most})
			b.SetBytes(100)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; {
				require.NoError(b, c.Seek(tp(0), 0))
				for at := 0; at < benchRecords && n < b.N; {
					batch, err := c.Poll(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					for _, rs := range batch.Partitions() {
						for i := range rs {
							if len(rs[i].Value) != 100 {
								b.Fatal("not the record")
							}
						}
					}
					at += batch.Len()
					n += batch.Len()
				}
			}
		})
	}
}

// BenchmarkCommitEachBatch measures the rate of records whose offsets are committed batch by
// batch, until the last commit is durable. A sync of the disk takes 2 ms.
func BenchmarkCommitEachBatch(b *testing.B) {
	for _, async := range []bool{false, true} {
		b.Run(fmt.Sprintf("async=%t/sync=2ms", async), func(b *testing.B) {
			disk := vfs.Mem()
			cl, err := strata.Open(strata.Config{FS: disk})
			require.NoError(b, err)
			require.NoError(b, cl.CreateTopic(b.Context(), "t", topic.Config{Partitions: 1}))
			p, err := producer.New(cl, producer.Config{})
			require.NoError(b, err)
			for range benchRecords {
				p.SendAsync(b.Context(), record.Record{Topic: "t", Value: make([]byte, 100)}, nil)
			}
			require.NoError(b, p.Close())
			c, err := consumer.New(cl, consumer.Config{Group: "g", Topics: []string{"t"}, Commit: consumer.CommitManual})
			require.NoError(b, err)
			batch, err := c.Poll(b.Context())
			require.NoError(b, err)
			// creates the files of the offsets topic
			require.NoError(b, c.CommitOffsets(b.Context(), batch.Offsets()))
			remove := disk.Inject(vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Delay: 2 * time.Millisecond})
			b.ResetTimer()
			for range b.N {
				require.NoError(b, c.Seek(tp(0), 0))
				for at := 0; at < benchRecords; {
					batch, err := c.Poll(b.Context())
					require.NoError(b, err)
					at += batch.Len()
					if async {
						c.CommitAsync(batch.Offsets(), nil)
					} else {
						require.NoError(b, c.CommitOffsets(b.Context(), batch.Offsets()))
					}
				}
				require.NoError(b, c.CommitOffsets(b.Context(), record.Offsets{tp(0): benchRecords}))
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N*benchRecords)/b.Elapsed().Seconds(), "records/s")
			remove()
			require.NoError(b, c.Close())
			require.NoError(b, cl.Close())
		})
	}
}
