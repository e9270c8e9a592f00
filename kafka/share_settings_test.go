package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/transaction"
)

// A broker shows its settings of share groups and transactions, with Kafka's defaults and the
// values of its Config.
func TestBrokersShowSettingsOfShareGroupsAndTransactions(t *testing.T) {
	defaults := map[string]string{
		"group.share.assignment.interval.ms": "1000", "group.share.delivery.count.limit": "5", "group.share.heartbeat.interval.ms": "5000",
		"group.share.max.assignment.interval.ms": "15000", "group.share.max.heartbeat.interval.ms": "15000", "group.share.max.session.timeout.ms": "60000",
		"group.share.max.size": "200", "group.share.min.heartbeat.interval.ms": "5000", "group.share.min.session.timeout.ms": "45000",
		"group.share.partition.max.record.locks": "2000", "group.share.record.lock.duration.ms": "30000", "group.share.session.timeout.ms": "45000",
		"offsets.topic.replication.factor": "3", "transaction.max.timeout.ms": "900000", "transaction.state.log.min.isr": "2",
		"transaction.state.log.num.partitions": "50", "transaction.state.log.replication.factor": "3", "transactional.id.expiration.ms": "604800000",
	}
	given := map[string]string{
		"group.share.delivery.count.limit": "7", "group.share.record.lock.duration.ms": "20000", "group.share.max.size": "9", "group.share.session.timeout.ms": "50000",
		"offsets.topic.replication.factor": "1", "transaction.max.timeout.ms": "60000", "transaction.state.log.num.partitions": "4", "transactional.id.expiration.ms": "3600000",
	}
	cluster, err := strata.Open(strata.Config{
		Group:        group.Config{ShareMaxSize: 9, ShareSessionTimeout: 50 * time.Second, OffsetsReplicas: 1},
		Shares:       share.Config{MaxDeliveryCount: 7, LockDuration: 20 * time.Second},
		Transactions: transaction.Config{MaxTimeout: time.Minute, Expiration: time.Hour, Topic: transaction.TopicConfig{Partitions: 4}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	_, changed := serveCluster(t, cluster, Config{})
	_, plain := serve(t, Config{})
	for _, addr := range []string{plain, changed} {
		shown := map[string]string{}
		for _, c := range askConfigs(t, addr, resourceBroker, "1").Configs {
			if defaults[c.Name] == "" {
				continue
			}
			shown[c.Name] = *c.Value
			require.True(t, c.ReadOnly, c.Name)
			require.NotZero(t, c.ConfigType, c.Name)
			require.NotEmpty(t, *c.Documentation)
			want, source := defaults[c.Name], sourceDefault
			if v, ok := given[c.Name]; ok && addr == changed {
				want, source = v, sourceStatic
			}
			require.Equal(t, want, *c.Value, c.Name)
			require.EqualValues(t, source, c.Source, c.Name)
		}
		require.Len(t, shown, len(defaults))
	}
}
