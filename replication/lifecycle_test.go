package replication

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestConfigIsCheckedBeforeAnythingIsTouched(t *testing.T) {
	fsys := vfs.Mem()
	for name, tc := range map[string]struct {
		cfg  Config
		want error
	}{
		"more brokers":       {Config{Brokers: 1001}, ErrTooManyBrokers},
		"a broker too many":  {Config{Brokers: 3, BrokerSpecs: map[int32]BrokerSpec{4: {Rack: "a"}}}, ErrUnknownBroker},
		"broker 0":           {Config{BrokerSpecs: map[int32]BrokerSpec{0: {Rack: "a"}}}, ErrUnknownBroker},
		"default assignment": {Config{Defaults: topic.Config{Assignment: [][]int32{{1}}}}, ErrInvalidAssignment},
		"default partitions": {Config{Defaults: topic.Config{Partitions: -1}}, ErrInvalidPartitions},
		"default replicas":   {Config{Defaults: topic.Config{ReplicationFactor: 1001}}, ErrInvalidReplicationFactor},
	} {
		tc.cfg.FS = fsys
		_, err := Open(tc.cfg)
		require.ErrorIs(t, err, tc.want, name)
	}
	for name, cfg := range map[string]Config{
		"negative brokers":              {Brokers: -1},
		"one directory for two brokers": {Brokers: 2, BrokerSpecs: map[int32]BrokerSpec{1: {Dir: "x"}, 2: {Dir: "./x"}}},
		"negative interval":             {RetentionCheckInterval: -time.Second},
		"negative expiry":               {ProducerIDExpiration: -time.Second},
		"broken defaults":               {Defaults: topic.Config{Properties: properties("retention.ms", "x")}},
	} {
		cfg.FS = fsys
		_, err := Open(cfg)
		require.Error(t, err, name)
	}
	require.Zero(t, fsys.Count(vfs.OpChange))
}

func TestZeroConfigIsAClusterInMemory(t *testing.T) {
	c := openWith(t, Config{})
	create(t, c, "orders", 0)
	produce(t, c, at("orders", 0), "x")
	require.Equal(t, []string{"x"}, values(t, c, at("orders", 0)))
	other := openWith(t, Config{})
	require.Empty(t, names(t, other), "each has its own memory")
	require.NotEqual(t, c.ClusterID(), other.ClusterID())
}

func TestClusterOnTheOperatingSystemsFiles(t *testing.T) {
	dir := t.TempDir()
	c := openWith(t, Config{Dir: dir})
	create(t, c, "orders", 2)
	produce(t, c, at("orders", 0), "x")
	_, err := Open(Config{Dir: dir})
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, c.Close())
	again := openWith(t, Config{Dir: dir})
	require.Equal(t, []string{"x"}, values(t, again, at("orders", 0)))
	require.NoError(t, again.DeleteTopic(t.Context(), "orders"))
}

func TestCloseIsIdempotentAndRefusesEverythingAfter(t *testing.T) {
	c, err := Open(Config{})
	require.NoError(t, err)
	create(t, c, "orders", 2)
	produce(t, c, at("orders", 0), "x")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { require.NoError(t, c.Close()) })
	}
	wg.Wait()
	require.NoError(t, c.Shutdown(t.Context()))
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"create": func() error { return c.CreateTopic(ctx, "a", topic.Config{}) },
		"ensure": func() error { return c.EnsureTopic(ctx, "a", topic.Config{}) },
		"delete": func() error { return c.DeleteTopic(ctx, "orders") },
		"grow":   func() error { return c.AddPartitions(ctx, "orders", 5) },
		"alter":  func() error { return c.AlterTopic(ctx, "orders", nil) },
		"topics": func() error { _, err := c.Topics(ctx); return err },
		"topic":  func() error { _, err := c.Topic(ctx, "orders"); return err },
		"produce": func() error {
			return tryProduce(c, at("orders", 0), "x").Err
		},
		"produce to an unopened partition": func() error { return tryProduce(c, at("orders", 1), "x").Err },
		"partition":                        func() error { _, err := c.Partition(at("orders", 0)); return err },
		"fetch":                            func() error { _, err := c.Fetch(ctx, ask("orders", 1, partition.FetchRequest{})); return err },
		"list": func() error {
			_, err := c.ListOffsets(ctx, map[tp]partition.OffsetSpec{at("orders", 0): partition.Latest}, 0)
			return err
		},
		"delete records": func() error { _, err := c.DeleteRecords(ctx, map[tp]int64{at("orders", 0): 0}); return err },
		"producer id":    func() error { _, _, err := c.InitProducerID(ctx); return err },
		"clean":          func() error { _, err := c.Clean(ctx); return err },
		"status":         func() error { return c.Status("orders", 0).Err },
		"written":        func() error { _, err := c.Written(at("orders", 0)); return err },
	} {
		require.ErrorIs(t, call(), ErrClosed, name)
	}
}

func TestCloseAmidTraffic(t *testing.T) {
	for range 20 {
		c, err := Open(Config{})
		require.NoError(t, err)
		create(t, c, "orders", 4)
		var wg sync.WaitGroup
		for g := range int32(4) {
			wg.Go(func() {
				for tryProduce(c, at("orders", g), "x").Err == nil {
				}
			})
			wg.Go(func() {
				for {
					if _, err := c.Fetch(context.Background(), ask("orders", 4, partition.FetchRequest{MaxWait: time.Hour, MinBytes: 1 << 20})); err != nil {
						return
					}
				}
			})
			wg.Go(func() {
				for c.CreateTopic(context.Background(), "t", topic.Config{}) == nil && c.DeleteTopic(context.Background(), "t") == nil {
				}
			})
			wg.Go(func() {
				for v, err := int64(0), error(nil); err == nil; {
					v, err = c.WaitMetadata(context.Background(), v)
				}
			})
		}
		produce(t, c, at("orders", 0), "x")
		require.NoError(t, c.Close())
		wg.Wait()
	}
}

func TestOldRecordsExpireByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Open(Config{})
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Properties: properties("retention.ms", "3600000", "segment.ms", "600000")}))
		for range 4 {
			produce(t, c, at("orders", 0), "x")
			time.Sleep(20 * time.Minute)
		}
		time.Sleep(defaultRetentionCheckInterval + time.Second)
		s := c.Status("orders", 0)
		require.Equal(t, int64(4), s.LogEndOffset)
		require.Equal(t, int64(2), s.LogStartOffset, "an hour and 25 minutes after the first, an hour and 5 after the second record")
		time.Sleep(2 * time.Hour)
		require.Equal(t, int64(4), c.Status("orders", 0).LogStartOffset, "in the end the active segment too")
	})
}

func TestCompactedTopicIsCompactedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Open(Config{RetentionCheckInterval: log.Unlimited})
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{
			Properties: properties("cleanup.policy", "compact", "internal.segment.bytes", "200", "min.cleanable.dirty.ratio", "0.01"),
		}))
		for range 20 {
			produce(t, c, at("orders", 0), "value")
		}
		before, err := c.Topic(t.Context(), "orders")
		require.NoError(t, err)
		time.Sleep(2 * defaultCompactionInterval)
		after, err := c.Topic(t.Context(), "orders")
		require.NoError(t, err)
		require.Less(t, after.SizeBytes(), before.SizeBytes()/2, "one key: one record and the active segment are left")
	})
}

func TestCleaningCanBeSwitchedOffAndAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Open(Config{RetentionCheckInterval: log.Unlimited, CompactionInterval: log.Unlimited})
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Properties: properties("retention.ms", "1000")}))
		produce(t, c, at("orders", 0), "x")
		time.Sleep(24 * time.Hour)
		require.Equal(t, int64(0), c.Status("orders", 0).LogStartOffset)
		_, err = c.Clean(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(1), c.Status("orders", 0).LogStartOffset)
	})
}
