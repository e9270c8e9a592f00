package strata_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func TestHousekeepingIsConfiguredWithTheCluster(t *testing.T) {
	for name, cfg := range map[string]strata.Config{
		"fields":     {ProducerIDExpiration: time.Hour, RetentionCheckInterval: time.Second, CompactionInterval: log.Unlimited, CompactionMemory: 30 << 10},
		"properties": {Properties: map[string]string{"producer.id.expiration.ms": "3600000", "log.retention.check.interval.ms": "1000", "log.cleaner.enable": "false", "log.cleaner.dedupe.buffer.size": "30720"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := strata.Open(cfg)
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Properties: map[string]string{"retention.ms": "7200000", "cleanup.policy": "compact,delete"}}))
				p, err := producer.New(c, producer.Config{})
				require.NoError(t, err)
				for range 10 {
					_, err = p.Send(t.Context(), record.String("orders", "k", "v"))
					require.NoError(t, err)
				}
				require.NoError(t, p.Close())
				tp := record.TopicPartition{Topic: "orders"}
				known, err := c.Backend().Producers(t.Context(), tp)
				require.NoError(t, err)
				require.Len(t, known, 1)
				require.NoError(t, c.Roll(t.Context(), "orders"))

				time.Sleep(80 * time.Minute)
				another, err := producer.New(c, producer.Config{})
				require.NoError(t, err)
				_, err = another.Send(t.Context(), record.String("orders", "k", "v"))
				require.NoError(t, err)
				require.NoError(t, another.Close())
				left, err := c.Backend().Producers(t.Context(), tp)
				require.NoError(t, err)
				require.Len(t, left, 1, "the first is forgotten after an hour")
				require.NotEqual(t, known[0].ProducerID, left[0].ProducerID)
				require.Zero(t, c.Backend().Status("orders", 0).LogStartOffset)
				time.Sleep(40*time.Minute + 2*time.Second)
				require.Equal(t, int64(10), c.Backend().Status("orders", 0).LogStartOffset, "looked at every second")
				require.Equal(t, int64(30<<10), c.Backend().ClusterConfig().CompactionMemory)
				require.Equal(t, time.Duration(log.Unlimited), c.Backend().ClusterConfig().CompactionInterval)
			})
		})
	}
	_, err := strata.Open(strata.Config{Properties: map[string]string{"log.cleaner.threads": "2"}})
	var bad *topic.ConfigError
	require.ErrorAs(t, err, &bad)
}
