package replication

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// quiet opens a cluster that cleans only on a call, in a synctest bubble.
func quiet(t *testing.T, fn func(*testing.T, *Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		fn(t, openWith(t, Config{RetentionCheckInterval: log.Unlimited, CompactionInterval: log.Unlimited}))
	})
}

// held returns the number of records in a partition, whatever their offsets.
func held(t *testing.T, c *Cluster, tp tp) (n int) {
	t.Helper()
	for next := c.Status(tp.Topic, tp.Partition).LogStartOffset; ; {
		res, err := c.Fetch(t.Context(), &partition.FetchRequest{Partitions: []partition.FetchPartition{{TopicPartition: tp, Offset: next, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 1 << 20}}})
		require.NoError(t, err)
		require.NoError(t, res.Partitions[0].Err)
		p := res.Partitions[0].Bytes
		if len(p) == 0 {
			return n
		}
		for len(p) > 0 {
			b, size, err := record.Parse(p)
			require.NoError(t, err)
			n += int(b.RecordCount)
			p, next = p[size:], b.NextOffset()
		}
	}
}

func TestSmallCompactedTopicIsCompactedOnceItsSegmentIsRolled(t *testing.T) {
	quiet(t, func(t *testing.T, c *Cluster) {
		create(t, c, "orders", 3, "cleanup.policy", "compact")
		create(t, c, "events", 1)
		for i := range int32(2) {
			for range 10 {
				produce(t, c, at("orders", i), "same key")
			}
		}
		produce(t, c, at("events", 0), "x")
		report, err := c.Clean(t.Context())
		require.NoError(t, err)
		require.Len(t, report, 3, "what was never written has nothing to clean")
		require.Equal(t, []any{at("events", 0), at("orders", 0), at("orders", 1)}, []any{report[0].TopicPartition, report[1].TopicPartition, report[2].TopicPartition})
		require.Nil(t, report[0].Compaction)
		require.Equal(t, "events-0: 0 of 1 segments removed, the oldest of the others stays: within the limits", report[0].String())
		require.Equal(t, "no closed segment has anything new that may be compacted", report[1].Compaction.Skipped)

		require.NoError(t, c.Roll(t.Context(), "orders", 1))
		report, err = c.Clean(t.Context(), "orders")
		require.NoError(t, err)
		require.Len(t, report, 2)
		require.NotEmpty(t, report[0].Compaction.Skipped, "it was not rolled")
		require.Equal(t, "orders-1: 0 of 2 segments removed, the oldest of the others stays: within the limits; compacted to offset 10: 1 of 10 records left",
			report[1].String())
		require.Equal(t, 1, held(t, c, at("orders", 1)))
		require.Equal(t, 10, held(t, c, at("orders", 0)))

		require.NoError(t, c.Roll(t.Context(), "orders"))
		report, err = c.Clean(t.Context(), "orders")
		require.NoError(t, err)
		require.Empty(t, report[0].Compaction.Skipped)
		require.Equal(t, 1, held(t, c, at("orders", 0)))
	})
}

func TestCleanTellsWhatRetentionHasRemoved(t *testing.T) {
	quiet(t, func(t *testing.T, c *Cluster) {
		create(t, c, "events", 1, "retention.ms", "3600000")
		produce(t, c, at("events", 0), "old")
		require.NoError(t, c.Roll(t.Context(), "events"))
		time.Sleep(2 * time.Hour)
		produce(t, c, at("events", 0), "new")
		report, err := c.Clean(t.Context(), "events")
		require.NoError(t, err)
		require.Equal(t, "events-0: 1 of 2 segments removed, the oldest of the others stays: within the limits", report[0].String())
		require.Equal(t, "its newest record is 2h0m0s old, 1h0m0s are to be kept", report[0].Segments[0].Reason)
		require.Equal(t, int64(1), report[0].StartOffset)
	})
}

func TestCleanAndRollRefuseWhatIsNotThere(t *testing.T) {
	c := openWith(t, Config{})
	create(t, c, "orders", 1)
	_, err := c.Clean(t.Context(), "ordres")
	var unknown *UnknownTopicError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "orders", unknown.Nearest)
	require.ErrorIs(t, c.Roll(t.Context(), "ordres"), ErrUnknownTopic)
	require.ErrorIs(t, c.Roll(t.Context(), "orders", 1), ErrUnknownTopic)
	require.NoError(t, c.Roll(t.Context(), "orders", 0), "it was never written to")
}

func TestCleanTellsWhichPartitionCouldNotBeCleaned(t *testing.T) {
	fsys := vfs.Mem()
	c := openWith(t, Config{FS: fsys, Dir: "data"})
	create(t, c, "orders", 2, "cleanup.policy", "compact")
	for i := range int32(2) {
		produce(t, c, at("orders", i), "x")
	}
	require.NoError(t, c.Roll(t.Context(), "orders"))
	full := errors.New("no more room")
	remove := fsys.Inject(vfs.Fault{Ops: vfs.OpWrite | vfs.OpCreate, Pattern: "*.cleaned", Times: 1, Err: full})
	report, err := c.Clean(t.Context())
	remove()
	require.ErrorIs(t, err, full)
	require.ErrorIs(t, report[0].Err, full)
	require.Contains(t, report[0].String(), "orders-0: ")
	require.NoError(t, report[1].Err)
	require.Empty(t, report[1].Compaction.Skipped, "the others are cleaned")
}

func TestIdleCompactedTopicIsCompactedWhenItsSegmentIsOldEnough(t *testing.T) {
	for key, ms := range map[string]string{"segment.ms": "3600000", "max.compaction.lag.ms": "3600000"} {
		synctest.Test(t, func(t *testing.T) {
			c := openWith(t, Config{})
			create(t, c, "orders", 1, "cleanup.policy", "compact", key, ms)
			for range 10 {
				produce(t, c, at("orders", 0), "same key")
			}
			time.Sleep(59 * time.Minute)
			require.Equal(t, 10, held(t, c, at("orders", 0)), key)
			time.Sleep(2 * time.Minute)
			require.Equal(t, 1, held(t, c, at("orders", 0)), "%s: nobody has written since", key)
		})
	}
}

func TestRecordsWithOldTimestampsDoNotGetASegmentEach(t *testing.T) {
	quiet(t, func(t *testing.T, c *Cluster) {
		time.Sleep(24 * time.Hour)
		old := batch("x")
		time.Sleep(24 * time.Hour)
		create(t, c, "orders", 1, "cleanup.policy", "compact", "segment.ms", "3600000")
		done := make(chan partition.ProduceResult, 1)
		for range 20 {
			c.Produce(&partition.ProduceRequest{TopicPartition: at("orders", 0), Batch: old, Done: func(r partition.ProduceResult) { done <- r }})
			require.NoError(t, (<-done).Err)
			time.Sleep(time.Minute)
			report, err := c.Clean(t.Context())
			require.NoError(t, err)
			require.Len(t, report[0].Segments, 1)
		}
	})
}

func TestCleanerThatIsSwitchedOffDoesNotCompact(t *testing.T) {
	for _, cfg := range []Config{
		{CompactionInterval: log.Unlimited},
		{Properties: properties("log.cleaner.enable", "false")},
		{Properties: properties("log.cleaner.enable", "FALSE", "log.cleaner.backoff.ms", "1000")},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := openWith(t, cfg)
			create(t, c, "orders", 1, "cleanup.policy", "compact,delete", "segment.ms", "1000", "retention.ms", "36000000")
			for range 10 {
				produce(t, c, at("orders", 0), "same key")
				time.Sleep(2 * time.Second)
			}
			time.Sleep(time.Hour)
			require.Equal(t, 10, held(t, c, at("orders", 0)), "retention looks at it, and compacts nothing")
			_, err := c.Clean(t.Context())
			require.NoError(t, err)
			require.Less(t, held(t, c, at("orders", 0)), 10)
			time.Sleep(24 * time.Hour)
			require.Equal(t, int64(10), c.Status("orders", 0).LogStartOffset, "retention goes on")
		})
	}
}

func TestBrokerPropertiesAreHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openWith(t, Config{Properties: properties(
			"log.cleaner.backoff.ms", "60000", "log.cleaner.min.cleanable.ratio", "0.9", "log.cleaner.delete.retention.ms", "1000",
			"log.cleaner.dedupe.buffer.size", "24576", "log.retention.check.interval.ms", "7000", "log.retention.ms", "5000",
			"producer.id.expiration.ms", "3600000", "log.cleaner.enable", "true",
		)})
		cfg := c.ClusterConfig()
		require.Equal(t, time.Minute, cfg.CompactionInterval)
		require.Equal(t, 7*time.Second, cfg.RetentionCheckInterval)
		require.Equal(t, time.Hour, cfg.ProducerIDExpiration)
		require.Equal(t, int64(24576), cfg.CompactionMemory)
		create(t, c, "orders", 1)
		info, err := c.Topic(t.Context(), "orders")
		require.NoError(t, err)
		for key, want := range properties("min.cleanable.dirty.ratio", "0.9", "delete.retention.ms", "1000", "retention.ms", "5000") {
			got, source := info.Settings.Value(key)
			require.Equal(t, want, got)
			require.Equal(t, topic.SourceCluster, source)
		}
		produce(t, c, at("orders", 0), "x")
		time.Sleep(15 * time.Second)
		require.Equal(t, int64(1), c.Status("orders", 0).LogStartOffset)

		create(t, c, "keys", 1, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0")
		for i := range 3000 { // more keys than fit in the compaction table
			b := keyBatch(strconv.Itoa(i))
			done := make(chan partition.ProduceResult, 1)
			c.Produce(&partition.ProduceRequest{TopicPartition: at("keys", 0), Batch: b, Done: func(r partition.ProduceResult) { done <- r }})
			require.NoError(t, (<-done).Err)
		}
		require.NoError(t, c.Roll(t.Context(), "keys"))
		report, err := c.Clean(t.Context(), "keys")
		require.NoError(t, err)
		require.True(t, report[0].Compaction.MapFull)
	})
}

func TestBrokerPropertiesThatMeanNothingHereAreRefused(t *testing.T) {
	for name, value := range properties(
		"log.cleaner.threads", "2", "log.cleaner.io.buffer.size", "524288", "log.cleaner.io.max.bytes.per.second", "1", "log.cleaner.io.buffer.load.factor", "0.9",
		"log.cleaner.enable", "maybe", "log.cleaner.backoff.ms", "-1", "log.cleaner.dedupe.buffer.size", "1", "producer.id.expiration.ms", "0", "nonsense", "1",
		"log.retention.ms", "soon",
	) {
		_, err := Open(Config{Properties: properties(name, value)})
		var bad *topic.ConfigError
		require.ErrorAs(t, err, &bad, name)
	}
	_, err := Open(Config{CompactionInterval: time.Second, Properties: properties("log.cleaner.backoff.ms", "2000")})
	require.Error(t, err, "two different answers")
	_, err = Open(Config{CompactionInterval: log.Unlimited, Properties: properties("log.cleaner.enable", "true")})
	require.Error(t, err)
	_, err = Open(Config{Defaults: topic.Config{Properties: properties("retention.ms", "1")}, Properties: properties("log.retention.ms", "2")})
	require.Error(t, err)
	for _, cfg := range []Config{{MaxOpenFiles: -1}, {CompactionMemory: -1}, {ProducerIDExpiration: -1}} {
		_, err := Open(cfg)
		require.Error(t, err, fmt.Sprint(cfg))
	}
}
