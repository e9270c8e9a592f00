package strata_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// An application moves a partition at a limited rate, to spare its brokers.
func TestPartitionIsMovedAtALimitedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{FS: vfs.Mem(), Dir: "data", Brokers: 2})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		ctx, tp := t.Context(), record.TopicPartition{Topic: "orders"}
		require.NoError(t, c.CreateTopic(ctx, "orders", topic.Config{Assignment: [][]int32{{1}}}))
		p, err := producer.New(c, producer.Config{BatchBytes: 10_000})
		require.NoError(t, err)
		for range 100 {
			_, err := p.Send(ctx, record.String("orders", "", strings.Repeat("v", 9_900)))
			require.NoError(t, err)
		}
		require.NoError(t, p.Close())

		const rate, replicas = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
		require.NoError(t, c.AlterBrokerConfig(ctx, replication.AllBrokers, replication.ConfigChange{Key: rate, Value: "100000"}))
		require.NoError(t, c.AlterTopic(ctx, "orders", map[string]string{replicas: "*"}))
		begin := time.Now()
		require.NoError(t, c.AlterPartitionReassignments(ctx, replication.Reassignment{Partition: tp, Replicas: []int32{2}})[0])
		require.NoError(t, c.WaitReassigned(ctx, tp))
		require.InDelta(t, 9, time.Since(begin).Seconds(), 1)
		require.Equal(t, map[string]string{rate: "100000"}, c.BrokerConfig(replication.AllBrokers))
		require.NoError(t, c.AlterBrokerConfig(ctx, replication.AllBrokers, replication.ConfigChange{Key: rate, Op: replication.UnsetConfig}))
		require.NoError(t, c.AlterTopicConfig(ctx, "orders", replication.ConfigChange{Key: replicas, Op: replication.UnsetConfig}))
		require.Empty(t, c.BrokerConfig(replication.AllBrokers))
	})
}
