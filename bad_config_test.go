package strata_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// Every number of the configuration, and of those of groups and transactions, is refused below 0 by
// its name, before anything is written.
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

// Groups would have no coordinator, and nobody would say why. With the topic there it is as large
// as it is, and brokers that are down count.
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
