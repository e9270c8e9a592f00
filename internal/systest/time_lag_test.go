package systest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Records with old timestamps in two topics, one with append times, through transactions,
// deletions, and a group that stops before, inside and behind them. Each batch has one record, so
// that the lag in time is exact.
func TestTimeLagAgreesWithTheTimestampsOfTheRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		require.NoError(t, c.CreateTopic(t.Context(), "created", topic.Config{Partitions: 1}))
		require.NoError(t, c.CreateTopic(t.Context(), "appended", topic.Config{Partitions: 1, Properties: map[string]string{"message.timestamp.type": "LogAppendTime"}}))
		created, appended := record.TopicPartition{Topic: "created"}, record.TopicPartition{Topic: "appended"}
		p, err := producer.New(c, producer.Config{TransactionalID: "x"})
		require.NoError(t, err)
		truth := map[record.TopicPartition]map[int64]time.Time{created: {}, appended: {}}
		for i := range 20 {
			failure := context.Canceled // some transactions are aborted
			err := p.Transact(t.Context(), func(tx *producer.Txn) error {
				for _, tp := range []record.TopicPartition{created, appended} {
					for range 2 {
						r := record.String(tp.Topic, "k", "v").To(0)
						r.Timestamp = time.Now().Add(-time.Duration(1+i*7%11) * time.Hour).Truncate(time.Millisecond)
						if err := tx.Send(t.Context(), r); err != nil {
							return err
						}
						time.Sleep(7 * time.Second)
					}
				}
				if i%5 == 4 {
					return failure
				}
				return nil
			})
			if i%5 != 4 {
				require.NoError(t, err)
			}
		}
		require.NoError(t, p.Close())
		synctest.Wait() // for the last markers
		for tp := range truth {
			for r, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: tp.Topic, Isolation: consumer.ReadUncommitted}) {
				require.NoError(t, err)
				truth[tp][r.Offset] = r.Timestamp
			}
			require.Len(t, truth[tp], 40)
		}
		check := func(at int64) {
			t.Helper()
			require.NoError(t, c.ResetOffsets(t.Context(), "g", record.Offsets{created: at, appended: at}))
			lags, err := c.TimeLags(t.Context())
			require.NoError(t, err)
			require.Len(t, lags, 1)
			require.Zero(t, lags[0].Unknown)
			info, err := c.Group(t.Context(), "g")
			require.NoError(t, err)
			for tp, records := range truth {
				want := time.Duration(0)
				for offset := max(at, info.Offsets[tp].Start); offset < info.Offsets[tp].End; offset++ {
					if ts, ok := records[offset]; ok {
						want = time.Since(ts)
						break
					}
				}
				require.Equal(t, want, lags[0].Partitions[tp], "%s from offset %d", tp.Topic, at)
			}
		}
		info, err := c.Topic(t.Context(), "created")
		require.NoError(t, err)
		end := info.Partitions[0].HighWatermark
		_, isRecord := truth[created][end-1]
		require.False(t, isRecord, "the last one is a marker")
		for at := range end + 1 {
			check(at)
		}
		_, err = c.DeleteRecords(t.Context(), map[record.TopicPartition]int64{created: 31, appended: 17})
		require.NoError(t, err)
		for _, at := range []int64{0, 16, 17, 30, 31, 32, end} {
			check(at)
		}
	})
}
