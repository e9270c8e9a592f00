package replication

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// metaRecords returns the records of a broker's copy of the metadata.
func metaRecords(t *testing.T, fsys vfs.FS, broker int) (recs []metarecord.Record) {
	t.Helper()
	for rest := metaBatches(t, fsys, broker); len(rest) > 0; {
		b, n, err := record.Parse(rest)
		require.NoError(t, err)
		for raw, err := range b.All() {
			require.NoError(t, err)
			rec, err := metarecord.Parse(raw.Value)
			require.NoError(t, err)
			recs = append(recs, rec)
		}
		rest = rest[n:]
	}
	return recs
}

// Kafka's tools read a metadata log only if it contains the feature levels of its records.
func TestMetadataSaysAtWhichLevelItIs(t *testing.T) {
	level := &metarecord.FeatureLevel{Name: "metadata.version", Level: 29}
	eligible := &metarecord.FeatureLevel{Name: "eligible.leader.replicas.version", Level: 1}
	for _, slack := range []int64{0, -1} { // with -1 the log begins with a snapshot
		fsys := vfs.Mem()
		for range 3 { // the levels are written once
			c, err := Open(Config{FS: fsys, Dir: "data", metaSlack: slack})
			require.NoError(t, err)
			require.NoError(t, c.EnsureTopic(t.Context(), "orders", topic.Config{}))
			require.NoError(t, c.Close())
		}
		found := 0
		recs := metaRecords(t, fsys, 1)
		for _, rec := range recs {
			if f, ok := rec.(*metarecord.FeatureLevel); ok {
				require.Equal(t, []*metarecord.FeatureLevel{level, eligible}[found%2], f)
				found++
			}
		}
		require.Equal(t, 2, found)
		first := recs[0]
		if image.IsSnapshot(first) {
			first = recs[1]
		}
		require.Equal(t, slack == -1, image.IsSnapshot(recs[0]))
		require.Equal(t, level, first, "before anything that it is about")
	}
}

func TestMetadataOfALaterLevelIsRefused(t *testing.T) {
	for _, later := range []*metarecord.FeatureLevel{
		{Name: "metadata.version", Level: 30}, {Name: "eligible.leader.replicas.version", Level: 2}, {Name: "transaction.version", Level: 3}, {Name: "group.version", Level: 1},
	} {
		fsys := vfs.Mem()
		c := open(t, fsys)
		create(t, c, "orders", 1)
		require.NoError(t, c.Close())
		l, err := log.Open(metaDir, log.Config{FS: fsys, Cleanup: log.CleanupNone})
		require.NoError(t, err)
		appendRecords(t, l, later)
		require.NoError(t, l.Close())
		before := metaBatches(t, fsys, 1)
		_, err = Open(Config{FS: fsys, Dir: "data"})
		requireDirectoryError(t, err, ErrNewerFormat, "later")
		require.Equal(t, before, metaBatches(t, fsys, 1))
	}
}

// unpack puts a directory of testdata on a file system.
func unpack(t *testing.T, name string, fsys vfs.FS, to string) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		path := filepath.Join(to, h.Name)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, fsys.MkdirAll(path, 0o755))
			continue
		}
		p, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFile(fsys, path, p))
	}
}

// The test data are three brokers of the version before feature levels and directories of
// replicas. They have the topic orders with four partitions, a deleted topic, and broker 2 killed
// once.
func TestDirectoriesWithoutFeatureLevelsOpen(t *testing.T) {
	fsys := vfs.Mem()
	unpack(t, "three-brokers-0.tar.gz", fsys, "data")
	old := len(metaRecords(t, fsys, 1))
	for round := range 2 {
		c := openBrokers(t, fsys, 3)
		require.Equal(t, []string{"orders"}, names(t, c))
		require.Equal(t, []int32{1, 2, 3, 1}, leaders(t, c, "orders"))
		require.Equal(t, int32(2+2*round), c.Status("orders", 1).LeaderEpoch, "no epoch is spent on it")
		require.Equal(t, map[string]string{"log.segment.bytes": "1048576"}, c.BrokerConfig(2))
		for p := range int32(4) {
			var want []string
			for i := range 3 {
				want = append(want, fmt.Sprintf("v%d-%d", p, i))
			}
			want = append(want, strings.Split("new new", " ")[:round]...)
			require.Equal(t, want, values(t, c, at("orders", p)))
			produce(t, c, at("orders", p), "new")
		}
		requireDirectories(t, c)
		require.NoError(t, c.StopBroker(t.Context(), 2))
		require.Equal(t, []int32{2}, c.Status("orders", 1).ISR, "the last one stays in sync, as it did")
		require.NoError(t, c.StartBroker(t.Context(), 2))
		id, _, err := c.InitProducerID(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(1000*(round+1)), id)
		require.NoError(t, c.Close())
	}
	for id := 1; id <= 3; id++ {
		require.Equal(t, metaBatches(t, fsys, 1), metaBatches(t, fsys, id))
	}
	recs := metaRecords(t, fsys, 3)[old:]
	require.Equal(t, &metarecord.FeatureLevel{Name: "metadata.version", Level: 29}, recs[0])
}

// requireDirectories checks that the metadata names the directory of every replica's broker.
func requireDirectories(t *testing.T, c *Cluster) {
	t.Helper()
	for name, tm := range c.image.Topics {
		for i, p := range tm.Partitions {
			for j, id := range p.Replicas {
				require.Equal(t, metarecord.ID(c.nodes[id].directory), p.Directories[j], "%s-%d on broker %d", name, i, id)
			}
		}
	}
}

func TestPartitionsNameTheDirectoriesOfTheirReplicas(t *testing.T) {
	ds := newDisks(3)
	c := openWith(t, ds.config())
	create(t, c, "orders", 5)
	require.NoError(t, c.AddPartitions(t.Context(), "orders", 7))
	require.Len(t, c.image.Topics["orders"].Partitions[6].Directories, 1)
	requireDirectories(t, c)

	// A replaced disk is another directory.
	lost := c.image.Topics["orders"].Partitions[1].Directories[0]
	require.NoError(t, c.KillBroker(2))
	require.NoError(t, ds[1].RemoveAll("data"))
	require.NoError(t, c.RemoveLostBroker(t.Context(), 2))
	require.Equal(t, lost, c.image.Topics["orders"].Partitions[1].Directories[0], "nobody knows better")
	_, err := c.AddBroker(t.Context(), 2, BrokerSpec{FS: ds[1]})
	require.NoError(t, err)
	require.NotEqual(t, lost, c.image.Topics["orders"].Partitions[1].Directories[0])
	requireDirectories(t, c)
	require.NoError(t, c.Close())
	c = openWith(t, ds.config())
	requireDirectories(t, c)
}
