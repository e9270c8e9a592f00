package kafka

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// benchServer serves a topic on files that nobody syncs.
func benchServer(b *testing.B) string {
	b.Helper()
	cluster, err := strata.Open(strata.Config{Dir: b.TempDir()})
	require.NoError(b, err)
	b.Cleanup(func() { cluster.Close() })
	never := map[string]string{"flush.messages": "9223372036854775807"}
	require.NoError(b, cluster.CreateTopic(b.Context(), "t", topic.Config{Properties: never}))
	_, addr := serveCluster(b, cluster, Config{})
	return addr
}

// What the server alone costs: the same encoded request of 1,000 records of 100 B, a window of 5.
func BenchmarkProduce(b *testing.B) {
	addr := benchServer(b)
	var batch record.Builder
	for range 1000 {
		batch.AppendKV(1_700_000_000_000, nil, make([]byte, 100), nil)
	}
	records, err := batch.AppendBatch(nil, record.None)
	require.NoError(b, err)
	nc, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	defer nc.Close()
	request := kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, produceOne(9, "t", records), 1)
	c := &client{t: b, nc: nc}
	b.SetBytes(int64(len(records)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n++; n > 5 {
			c.frame()
		}
		_, err := nc.Write(request)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(n)*1000/b.Elapsed().Seconds(), "records/s")
}

// Through a client that people use, in the same process.
func BenchmarkProduceThroughFranzGo(b *testing.B) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(benchServer(b)), kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(100_000))
	require.NoError(b, err)
	defer cl.Close()
	value := make([]byte, 100)
	b.SetBytes(100)
	b.ReportAllocs()
	for b.Loop() {
		cl.Produce(b.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	require.NoError(b, cl.Flush(b.Context()))
}
