package replication

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

const metaDir = root + "/__cluster_metadata-0"

// metaBytes returns the size of the metadata log's segments, in bytes.
func metaBytes(t *testing.T, fsys vfs.FS) (n int64) {
	t.Helper()
	entries, err := fsys.ReadDir(metaDir)
	require.NoError(t, err)
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".log" {
			info, err := e.Info()
			require.NoError(t, err)
			n += info.Size()
		}
	}
	return n
}

func TestMetadataLogStaysShortWhateverIsDone(t *testing.T) {
	const slack = 8 << 10
	cfg := Config{FS: vfs.Mem(), Dir: "data", metaSlack: slack}
	c := openWith(t, cfg)
	create(t, c, "stays", 3, "retention.ms", "77")
	produce(t, c, at("stays", 0), "x")
	require.NoError(t, c.AlterBrokerConfig(t.Context(), AllBrokers, ConfigChange{Key: "log.retention.ms", Value: "2000"}))
	id, _, err := c.InitProducerID(t.Context())
	require.NoError(t, err)
	version := int64(0)
	for i := range 1000 {
		create(t, c, fmt.Sprint("t", i%7), 2)
		require.NoError(t, c.DeleteTopic(t.Context(), fmt.Sprint("t", i%7)))
		require.NoError(t, c.AlterTopicConfig(t.Context(), "stays", ConfigChange{Key: "segment.ms", Value: fmt.Sprint(1000 + i)}))
		md, err := c.Metadata(t.Context())
		require.NoError(t, err)
		require.Greater(t, md.Version, version)
		version = md.Version
	}
	want := state(t, c)
	require.NoError(t, c.Close())
	require.Less(t, metaBytes(t, cfg.FS), int64(2*slack), "a change takes some 300 bytes")

	c = openWith(t, cfg)
	require.Equal(t, want, state(t, c))
	require.Positive(t, c.meta.Own().StartOffset())
	require.Less(t, len(c.image.Removed), 100, "only those of after the last snapshot")
	require.Equal(t, "2000", c.BrokerConfig(AllBrokers)["log.retention.ms"])
	require.Equal(t, []string{"x"}, values(t, c, at("stays", 0)))
	next, _, err := c.InitProducerID(t.Context())
	require.NoError(t, err)
	require.Greater(t, next, id)
	md, err := c.Metadata(t.Context())
	require.NoError(t, err)
	require.Greater(t, md.Version, version, "the new block of producer ids")
}

// After any history, a snapshot makes the same image.
func TestSnapshotMakesTheSameImage(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	c := open(t, vfs.Mem())
	for range 300 {
		name := fmt.Sprint("t", rnd.IntN(5))
		switch rnd.IntN(6) {
		case 0, 1:
			_ = c.CreateTopic(t.Context(), name, topic.Config{Partitions: 1 + rnd.IntN(3), Properties: properties("segment.ms", fmt.Sprint(1+rnd.IntN(99)))})
		case 2:
			_ = c.DeleteTopic(t.Context(), name)
		case 3:
			_ = c.AddPartitions(t.Context(), name, 1+rnd.IntN(5))
		case 4:
			_ = c.AlterTopicConfig(t.Context(), name, ConfigChange{Key: "retention.ms", Value: fmt.Sprint(rnd.IntN(9))})
		default:
			change := &metarecord.PartitionChange{TopicID: topicID(c, name), Leader: int32(rnd.IntN(2)), Recovery: -1}
			if _, ok := c.TopicID(name); ok {
				require.NoError(t, c.change(t.Context(), func(*image.Image) ([]metarecord.Record, error) { return []metarecord.Record{change}, nil }))
			}
		}
	}
	again := image.New()
	for _, rec := range c.image.Snapshot(c.image.Removed) {
		rec, err := metarecord.Parse(metarecord.Append(nil, rec))
		require.NoError(t, err)
		require.NoError(t, again.Apply(rec))
	}
	again.Publish(c.image.Version)
	require.Equal(t, c.image, again, "seed %d", seed)
}

func topicID(c *Cluster, name string) topic.ID {
	id, _ := c.TopicID(name)
	return id
}

func TestMetadataLogWithoutItsBeginningIsDamaged(t *testing.T) {
	for _, all := range []bool{false, true} {
		fsys := vfs.Mem()
		c := open(t, fsys)
		create(t, c, "orders", 1)
		create(t, c, "second", 1)
		require.NoError(t, c.Close())
		l, err := log.Open(metaDir, log.Config{FS: fsys, Cleanup: log.CleanupNone})
		require.NoError(t, err)
		before := int64(2)
		if all {
			before = l.EndOffset()
		}
		require.NoError(t, l.DeleteRecords(before))
		require.NoError(t, l.Close())
		_, err = Open(Config{FS: fsys, Dir: "data"})
		requireDirectoryError(t, err, ErrDamaged, "backup")
	}
}

// A topic whose directory could not be renamed stays listed as removed, also in a snapshot. The
// next open deletes its directory, and does not keep it as a stray.
func TestSnapshotRemembersTopicsWhoseDirectoriesAreStillThere(t *testing.T) {
	var out bytes.Buffer
	fsys := vfs.Mem()
	c := openWith(t, Config{FS: fsys, Dir: "data", metaSlack: -1, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "x")
	heal := fsys.Inject(vfs.Fault{Ops: vfs.OpRename, Pattern: "orders-0", Times: vfs.Always, Err: errors.New("disk broken")})
	require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
	heal()
	create(t, c, "other", 1)
	require.NoError(t, c.DeleteTopic(t.Context(), "other"))
	require.NoError(t, c.Close())
	require.Contains(t, out.String(), "leaves files behind")
	require.Equal(t, []string{"orders-0"}, partitionDirs(t, fsys))
	again := open(t, fsys)
	require.Positive(t, again.meta.Own().StartOffset())
	require.Len(t, again.image.Removed, 1)
	require.Empty(t, partitionDirs(t, fsys))
}

// A snapshot larger than a batch is written as several batches. It counts when the last one is
// there.
func TestSnapshotOfAnySizeCountsAsAWhole(t *testing.T) {
	ds := newDisks(2)
	cfg := ds.config()
	cfg.metaSlack = -1
	c, err := Open(cfg)
	require.NoError(t, err)
	for i := range 6 {
		create(t, c, fmt.Sprint("t", i), 10_000)
	}
	require.NoError(t, c.DeleteTopic(t.Context(), "t0"))
	require.Positive(t, c.meta.Own().StartOffset())
	_, snapshot := c.meta.Sizes()
	require.Greater(t, snapshot, int64(2*metalog.MaxPartBytes))
	for b, err := range c.meta.Own().Batches(c.meta.Own().StartOffset()) {
		require.NoError(t, err)
		require.Less(t, b.Size(), 2*metalog.MaxPartBytes, "no batch grows with the cluster")
	}
	want := names(t, c)
	require.NoError(t, c.Close())
	ds.requireEqualCopies(t)
	for _, ds := range []disks{ds, ds.kill()} {
		again, err := Open(ds.config())
		require.NoError(t, err)
		require.Equal(t, want, names(t, again))
		require.Equal(t, 50_000, again.Stats().Partitions)
		require.NoError(t, again.Close())
	}
}

// A snapshot that a disk error interrupts is taken back. The log before it stays.
func TestSnapshotThatFailsHalfWayIsTakenBack(t *testing.T) {
	for after := 1; after <= 12; after++ {
		ds := newDisks(3)
		cfg := ds.config()
		cfg.metaPart = 50
		c, err := Open(cfg)
		require.NoError(t, err)
		create(t, c, "orders", 20)
		c.changing <- struct{}{}
		mend := ds[1].Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", After: after, Err: errDisk})
		c.snapshotMetadata()
		mend()
		<-c.changing
		require.NoError(t, c.AlterTopic(t.Context(), "orders", properties("retention.ms", "2000")))
		require.Equal(t, []int32{1, 2, 3}, c.Brokers(), "its disk has room again, and no change was lost: after %d", after)
		require.NoError(t, c.Close())
		again, err := Open(ds.kill().config())
		require.NoError(t, err, "after %d", after)
		info, err := again.Topic(t.Context(), "orders")
		require.NoError(t, err)
		require.Len(t, info.Partitions, 20)
		require.Equal(t, map[string]string{"retention.ms": "2000"}, info.Settings.Explicit())
		require.Equal(t, []int32{1, 2, 3}, again.Brokers())
		require.NoError(t, again.Close())
	}
}
