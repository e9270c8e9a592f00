package kafkatest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/replication"
)

// Quotas delay clients in virtual time, and no record is lost.
func TestQuotasHoldClientsUpInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 1}})
		refused, err := s.Cluster().AlterClientQuotas(t.Context(), replication.QuotaChange{
			Entity: replication.QuotaEntity{ClientID: replication.QuotaName{Name: "fast"}},
			Changes: []replication.QuotaValue{
				{Key: replication.ProducerByteRate, Value: 1000}, {Key: replication.ConsumerByteRate, Value: 1000},
			},
		})
		require.NoError(t, err)
		require.Empty(t, refused)
		const records, size = 30, 1000
		took := func(id string, do func(cl *kgo.Client), opts ...kgo.Opt) time.Duration {
			start := time.Now()
			cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ClientID(id), kgo.DefaultProduceTopic("a"), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
			require.NoError(t, err)
			defer cl.Close()
			do(cl)
			return time.Since(start)
		}
		produce := func(cl *kgo.Client) {
			for range records {
				require.NoError(t, cl.ProduceSync(t.Context(), kgo.SliceRecord(make([]byte, size))).FirstErr())
			}
		}
		consume := func(cl *kgo.Client) {
			for read := 0; read < records; {
				got := cl.PollFetches(t.Context())
				require.NoError(t, got.Err())
				read += got.NumRecords()
			}
		}
		require.Less(t, took("other", produce), 5*time.Second)
		require.Greater(t, took("fast", produce), 15*time.Second)
		require.Less(t, took("other", consume, kgo.ConsumeTopics("a")), 5*time.Second)
		require.Greater(t, took("fast", consume, kgo.ConsumeTopics("a"), kgo.FetchMaxBytes(5*size)), 10*time.Second)
		require.Len(t, s.Topic("a"), 2*records)
	})
}
