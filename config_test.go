package strata_test

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// Every number of the configuration, including group and transaction settings, is rejected below
// 0. The error has its name, and nothing is written before.
func TestConfigurationsThatMakeNoSenseAreRefused(t *testing.T) {
	numbers := 0
	negative := func(of reflect.Type, number func(cfg *strata.Config, i int) reflect.Value) {
		for i := range of.NumField() {
			disk := vfs.Mem()
			cfg := strata.Config{FS: disk, Dir: "data"}
			field, name := number(&cfg, i), of.Field(i).Name
			if !field.CanInt() {
				continue
			}
			numbers++
			field.SetInt(-5)
			t.Run(name, func(t *testing.T) {
				_, err := strata.Open(cfg)
				var because *topic.ConfigError
				require.ErrorAs(t, err, &because)
				require.Equal(t, name, because.Key)
				require.Zero(t, disk.Count(vfs.OpChange))
			})
		}
	}
	negative(reflect.TypeFor[strata.Config](), func(cfg *strata.Config, i int) reflect.Value { return reflect.ValueOf(cfg).Elem().Field(i) })
	negative(reflect.TypeFor[group.Config](), func(cfg *strata.Config, i int) reflect.Value { return reflect.ValueOf(&cfg.Group).Elem().Field(i) })
	negative(reflect.TypeFor[transaction.Config](), func(cfg *strata.Config, i int) reflect.Value {
		return reflect.ValueOf(&cfg.Transactions).Elem().Field(i)
	})
	require.Greater(t, numbers, 20)
}

// Otherwise groups would have no coordinator, without an error. An existing topic keeps its number
// of replicas, and brokers that are down count.
func TestMoreReplicasOfOffsetsThanBrokersAreRefused(t *testing.T) {
	_, err := strata.Open(strata.Config{Brokers: 2, Group: group.Config{OffsetsReplicas: 3}})
	require.ErrorIs(t, err, replication.ErrInvalidReplicationFactor)
	require.ErrorContains(t, err, "OffsetsReplicas")
	disk := vfs.Mem()
	open := func(brokers int) *strata.Cluster {
		c, err := strata.Open(strata.Config{FS: disk, Dir: "data", Brokers: brokers, Group: group.Config{OffsetsReplicas: 3, OffsetsPartitions: 1}})
		require.NoError(t, err)
		return c
	}
	c := open(3)
	require.NoError(t, c.Close())
	c = open(2)
	require.NoError(t, c.Close(), "the third is down")
	c = open(3)
	_, err = c.Backend().FindCoordinator(t.Context(), "g")
	require.NoError(t, err)
	require.NoError(t, c.Close())
	c = open(2)
	require.NoError(t, c.Close())
}

func TestMoreReplicasOfTransactionalIDsThanBrokersAreRefused(t *testing.T) {
	_, err := strata.Open(strata.Config{Brokers: 2, Transactions: transaction.Config{Topic: transaction.TopicConfig{Replicas: 3}}})
	require.ErrorIs(t, err, replication.ErrInvalidReplicationFactor)
	require.ErrorContains(t, err, "Topic.Replicas")
}

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

func TestNoMoreFilesAreOpenThanTheClusterMayHave(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("open files are counted in /proc")
	}
	dir := t.TempDir()
	c, err := strata.Open(strata.Config{Dir: dir, MaxOpenFiles: 8})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 40}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	for i := range int32(40) {
		_, err = p.Send(t.Context(), record.String("orders", "k", "v").To(i))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	open := 0
	for _, l := range links {
		if name, err := os.Readlink(l); err == nil && strings.HasPrefix(name, dir) && strings.HasSuffix(name, ".log") {
			open++
		}
	}
	require.LessOrEqual(t, open, 8)
	require.Positive(t, open)
}
