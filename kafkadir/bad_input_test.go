package kafkadir

import (
	"context"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// exported is a file system with the log directory "kafka" of a broker that was stopped.
func exported(t *testing.T) *vfs.MemFS {
	t.Helper()
	disk := fill(t)
	_, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.NoError(t, err)
	return disk
}

func write(t *testing.T, fsys vfs.FS, path, content string) {
	t.Helper()
	require.NoError(t, fsys.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, vfs.WriteFile(fsys, path, []byte(content)))
}

// importOf imports "kafka". The source must stay unchanged, and a failed import must create
// nothing.
func importOf(t *testing.T, disk *vfs.MemFS, edit func(*ImportConfig)) (*Report, error) {
	t.Helper()
	before := files(t, disk, "kafka")
	cfg := ImportConfig{From: []string{"kafka"}, Dir: "back", FS: disk}
	if edit != nil {
		edit(&cfg)
	}
	r, err := Import(t.Context(), cfg)
	require.Equal(t, before, files(t, disk, "kafka"))
	if err != nil {
		require.Nil(t, r)
		for _, name := range []string{"back", "back" + unfinishedSuffix} {
			_, err := disk.Stat(name)
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
	}
	return r, err
}

func TestDirectoriesInUseAreRefused(t *testing.T) {
	disk := exported(t)
	lock, err := disk.Lock("kafka/.lock")
	require.NoError(t, err)
	_, err = importOf(t, disk, nil)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, lock.Close())

	_, err = importOf(t, disk, func(cfg *ImportConfig) {
		cfg.OnProgress = func(Progress) {
			_, err := disk.Lock("kafka/.lock")
			require.ErrorIs(t, err, vfs.ErrLocked, "a broker that starts meanwhile does not get it")
		}
	})
	require.NoError(t, err)

	c := open(t, disk, "data")
	_, err = Export(t.Context(), ExportConfig{Dir: "data", To: "out", FS: disk})
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, c.Close())
}

// A copy of a directory has no lock. Import detects at its end that a broker opened the directory
// meanwhile.
func TestADirectoryThatIsOpenedMeanwhileIsRefused(t *testing.T) {
	disk := exported(t)
	cfg := ImportConfig{From: []string{"kafka"}, Dir: "back", FS: disk, OnProgress: func(Progress) {
		write(t, disk, "kafka/.lock", "")
	}}
	_, err := Import(t.Context(), cfg)
	require.ErrorIs(t, err, ErrInUse)
	_, err = disk.Stat("back")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestTwoImportsToOneDirectoryExcludeEachOther(t *testing.T) {
	disk := exported(t)
	s, err := newStaging(disk, "back", "broker-1")
	require.NoError(t, err)
	_, err = Import(t.Context(), ImportConfig{From: []string{"kafka"}, Dir: "back", FS: disk})
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, s.abort())
	_, err = importOf(t, disk, nil)
	require.NoError(t, err)
	_, err = Import(t.Context(), ImportConfig{From: []string{"kafka"}, Dir: "back", FS: disk})
	require.ErrorIs(t, err, fs.ErrExist)
}

func TestForeignDirectoriesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(t *testing.T, disk *vfs.MemFS)
		want error
	}{
		"no meta.properties": {func(t *testing.T, disk *vfs.MemFS) { require.NoError(t, disk.Remove("kafka/meta.properties")) }, ErrForeign},
		"Strata's": {func(t *testing.T, disk *vfs.MemFS) {
			p, err := vfs.ReadFile(disk, "data/broker-1/meta.properties")
			require.NoError(t, err)
			write(t, disk, "kafka/meta.properties", string(p))
		}, ErrForeign},
		"no node": {func(t *testing.T, disk *vfs.MemFS) {
			write(t, disk, "kafka/meta.properties", "version=1\ncluster.id=x\n")
		}, ErrDamaged},
		"checkpoint": {func(t *testing.T, disk *vfs.MemFS) {
			write(t, disk, "kafka/log-start-offset-checkpoint", "0\n2\nx 0 1\n")
		}, ErrDamaged},
		"epochs": {func(t *testing.T, disk *vfs.MemFS) {
			write(t, disk, "kafka/orders-0/leader-epoch-checkpoint", "0\n2\n1 0\n1 7\n")
		}, ErrDamaged},
		"topic id": {func(t *testing.T, disk *vfs.MemFS) {
			write(t, disk, "kafka/orders-0/partition.metadata", "version: 0\n")
		}, ErrDamaged},
		"old batches": {func(t *testing.T, disk *vfs.MemFS) {
			write(t, disk, "kafka/orders-0/00000000000000000000.log", strings.Repeat("\x00", 11)+"\x40"+strings.Repeat("\x00", 4)+"\x01"+strings.Repeat("x", 100))
		}, ErrUnsupported},
		"no snapshot of the metadata": {func(t *testing.T, disk *vfs.MemFS) {
			for path := range files(t, disk, "kafka/"+metadataDir) {
				require.NoError(t, disk.Remove(path))
			}
			write(t, disk, "kafka/"+metadataDir+"/00000000000000000100.log", "")
		}, ErrDamaged},
		"half a snapshot of the metadata": {func(t *testing.T, disk *vfs.MemFS) {
			for path, text := range files(t, disk, "kafka/"+metadataDir) {
				write(t, disk, path, text[:len(text)-74])
			}
		}, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			disk := exported(t)
			c.edit(t, disk)
			_, err := importOf(t, disk, nil)
			require.ErrorIs(t, err, c.want)
		})
	}
}

func TestOtherBadArgumentsAreRefused(t *testing.T) {
	disk := exported(t)
	for _, from := range [][]string{nil, {"back/x"}, {"kafka", "kafka"}} {
		_, err := Import(t.Context(), ImportConfig{From: from, Dir: "back", FS: disk})
		require.Error(t, err)
	}
	_, err := Import(t.Context(), ImportConfig{From: []string{"kafka"}, Dir: "kafka/orders-0/x", FS: disk})
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, err = importOf(t, disk, func(cfg *ImportConfig) { cfg.Topics = []string{"ordres"} })
	require.ErrorIs(t, err, ErrUnknownTopic)
	_, err = Export(t.Context(), ExportConfig{Dir: "nothing", To: "out", FS: disk})
	require.ErrorIs(t, err, ErrForeign)
	_, err = Export(t.Context(), ExportConfig{Dir: "data", To: "data/out", FS: disk})
	require.ErrorIs(t, err, fs.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Import(ctx, ImportConfig{From: []string{"kafka"}, Dir: "back", FS: disk})
	require.ErrorIs(t, err, context.Canceled)

	text, err := vfs.ReadFile(disk, "kafka/meta.properties")
	require.NoError(t, err)
	for _, edit := range []func(string) string{
		func(s string) string { return strings.Replace(s, "node.id=1", "node.id=2", 1) },
		func(s string) string { return strings.Replace(s, "cluster.id=", "cluster.id=x", 1) },
	} {
		write(t, disk, "other/meta.properties", edit(string(text)))
		_, err = importOf(t, disk, func(cfg *ImportConfig) { cfg.From = append(cfg.From, "other") })
		require.ErrorIs(t, err, ErrForeign)
	}
}

// segmentsOf returns the .log files of orders-0, by base offset. There are several.
func segmentsOf(t *testing.T, disk *vfs.MemFS) (names []string) {
	t.Helper()
	for path := range files(t, disk, "kafka/orders-0") {
		if strings.HasSuffix(path, ".log") {
			names = append(names, path)
		}
	}
	slices.Sort(names)
	return names
}

// A flipped bit is detected everywhere, except behind the last acknowledged batch: after a kill
// the end of the last segment may be half a batch.
func TestDamageIsNamedAndAnUnfinishedEndIsCut(t *testing.T) {
	flip := func(t *testing.T, disk *vfs.MemFS, path string, at int) {
		p, err := vfs.ReadFile(disk, path)
		require.NoError(t, err)
		q := []byte(string(p))
		q[(at+len(q))%len(q)] ^= 1
		write(t, disk, path, string(q))
	}
	for name, c := range map[string]struct{ segment, at int }{"a closed segment": {0, -30}, "the last segment": {1, 70}} {
		t.Run(name, func(t *testing.T) {
			disk := exported(t)
			require.NoError(t, disk.Remove("kafka/"+cleanShutdownFile))
			names := segmentsOf(t, disk)
			require.Greater(t, len(names), 1)
			path := names[c.segment*(len(names)-1)]
			flip(t, disk, path, c.at)
			_, err := importOf(t, disk, nil)
			var d *DamagedError
			require.ErrorAs(t, err, &d)
			require.Equal(t, path, d.Path)
			require.GreaterOrEqual(t, d.Pos, int64(0))
		})
	}
	for _, clean := range []bool{false, true} {
		disk := exported(t)
		if !clean {
			require.NoError(t, disk.Remove("kafka/"+cleanShutdownFile))
		}
		names := segmentsOf(t, disk)
		last := names[len(names)-1]
		p, err := vfs.ReadFile(disk, last)
		require.NoError(t, err)
		_, n, err := record.Parse(p)
		require.NoError(t, err)
		write(t, disk, last, string(p)+string(p[:n-1]))
		r, err := importOf(t, disk, nil)
		if clean {
			require.ErrorIs(t, err, ErrDamaged)
			continue
		}
		require.NoError(t, err)
		require.Len(t, r.Cut, 1)
		require.Equal(t, record.TopicPartition{Topic: "orders"}, r.Cut[0].TopicPartition)
		require.Equal(t, int64(n-1), r.Cut[0].Bytes)
		want := look(t, disk, "data")
		require.Equal(t, want.logs, look(t, disk, "back").logs)
	}
}

// A metadata log behind the snapshot has all kinds of content: another cluster's partitions,
// unknown records, transactions.
func TestMetadataOfALargerCluster(t *testing.T) {
	disk := exported(t)
	id, other, gone := topic.NewID(), topic.NewID(), topic.NewID()
	one, secret := "1", "x"
	recs := []metarecord.Record{
		&metarecord.FeatureLevel{Name: "metadata.version", Level: 30},
		&metarecord.Topic{Name: "spread", ID: id},
		&metarecord.Partition{TopicID: id, Replicas: []int32{1, 2}, ISR: []int32{2}, Leader: 2, LeaderEpoch: 4},
		&metarecord.Partition{Partition: 1, TopicID: id, Replicas: []int32{2, 3}, ISR: []int32{2, 3}, Leader: 2, LeaderEpoch: 4},
		&metarecord.Config{ResourceType: metarecord.ResourceTopic, ResourceName: "spread", Name: "min.insync.replicas", Value: &one},
		&metarecord.Config{ResourceType: metarecord.ResourceTopic, ResourceName: "spread", Name: "remote.storage.enable.nonsense", Value: &secret},
		&metarecord.Config{ResourceType: metarecord.ResourceGroup, ResourceName: "readers", Name: "consumer.session.timeout.ms", Value: &one},
		&metarecord.Config{ResourceType: metarecord.ResourceClientMetrics, ResourceName: "fast", Name: "interval.ms", Value: &one},
		&metarecord.Topic{Name: "gone", ID: gone},
		&metarecord.ProducerIDs{BrokerID: 2, Next: 777_000},
	}
	snapshot, end, err := snapshotFile(recs, 1)
	require.NoError(t, err)
	for path := range files(t, disk, "kafka") {
		if dir := filepath.Base(filepath.Dir(path)); dir != "kafka" {
			require.NoError(t, disk.Remove(path))
		}
	}
	for _, name := range []string{recoveryPointFile, logStartFile} {
		write(t, disk, "kafka/"+name, "")
	}
	entries, err := disk.ReadDir("kafka")
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() && e.Name() != metadataDir {
			require.NoError(t, disk.RemoveAll("kafka/"+e.Name()))
		}
	}
	write(t, disk, "kafka/"+metadataDir+"/00000000000000000012-0000000001.checkpoint", string(snapshot))
	write(t, disk, "kafka/"+metadataDir+"/00000000000000000003-0000000001.checkpoint", "an older one")
	require.Less(t, end, int64(13))
	var b record.Builder
	b.SetBaseOffset(11) // the first record is in the snapshot already
	add := func(recs ...metarecord.Record) {
		for _, rec := range recs {
			b.AppendKV(1, nil, metarecord.Append(nil, rec), nil)
		}
	}
	add(&metarecord.Topic{Name: "in the snapshot", ID: other})
	add(&metarecord.PartitionChange{TopicID: id, Partition: 0, Leader: 1, Recovery: -1})
	b.AppendKV(1, nil, []byte{1, 27, 0, 0, 0}, nil) // a controller registration
	nobody, never := "nobody", &metarecord.ClientQuota{Key: "producer_byte_rate", Value: math.NaN()}
	never.Entity = []metarecord.QuotaPart{{Type: "user", Name: &nobody}}
	add(never)
	add(&metarecord.BeginTransaction{}, &metarecord.RemoveTopic{ID: gone}, &metarecord.EndTransaction{})
	add(&metarecord.BeginTransaction{}, &metarecord.RemoveTopic{ID: id}, &metarecord.AbortTransaction{})
	add(&metarecord.BeginTransaction{}, &metarecord.RemoveTopic{ID: id})
	log, err := b.Build(record.None)
	require.NoError(t, err)
	write(t, disk, "kafka/"+metadataDir+"/00000000000000000011.log", string(log))
	write(t, disk, "kafka/spread-0/"+partitionFile, string(formatPartitionMetadata(id)))
	write(t, disk, "kafka/gone-0/"+partitionFile, string(formatPartitionMetadata(gone)))

	_, err = importOf(t, disk, nil)
	var incomplete *IncompleteError
	require.ErrorAs(t, err, &incomplete)
	require.Len(t, incomplete.Missing, 2)
	require.ErrorContains(t, err, "spread-0 (the replica is not in sync, [2] are)")
	require.ErrorContains(t, err, "spread-1 (its replicas are on brokers [2 3])")

	r, err := importOf(t, disk, func(cfg *ImportConfig) { cfg.AllowMissing = true })
	require.NoError(t, err)
	require.Equal(t, incomplete.Missing, r.Missing)
	require.Equal(t, map[string]int{"RegisterControllerRecord": 1}, r.Skipped)
	require.Len(t, r.LeftOut, 4)
	require.Contains(t, r.LeftOut[0], "gone-0")
	require.Contains(t, r.LeftOut[1], "remote.storage.enable.nonsense")
	require.Contains(t, r.LeftOut[3], `resource "fast" of type 16: Invalid value 1 for interval.ms`)
	require.Equal(t, int64(777_000), r.NextProducerID)
	w := look(t, disk, "back")
	require.Equal(t, map[string]map[string]string{"group readers": {"consumer.session.timeout.ms": "1"}}, w.configs)
	require.Equal(t, map[string]string{"spread": id.String() + " min.insync.replicas=1 retention.ms=-1"}, w.topics)
	c := open(t, disk, "back")
	defer func() { require.NoError(t, c.Close()) }()
	producer, _, err := c.InitProducerID(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, producer, int64(777_000))
	m, err := c.Metadata(t.Context(), "spread")
	require.NoError(t, err)
	require.Greater(t, m.Topics["spread"].Partitions[0].LeaderEpoch, int32(5))
}

// The import has the chosen topics and the data of the whole cluster.
func TestTopicsAreChosenByName(t *testing.T) {
	disk := exported(t)
	_, err := importOf(t, disk, func(cfg *ImportConfig) { cfg.Topics = []string{"latest"} })
	require.NoError(t, err)
	var names []string
	w := look(t, disk, "back")
	for name := range w.topics {
		names = append(names, name)
	}
	require.ElementsMatch(t, []string{"latest", "__consumer_offsets", "__transaction_state"}, names)
	require.Equal(t, look(t, disk, "data").logs["latest-0"], w.logs["latest-0"])
}

// A broker with two log directories has each of its partitions in one of them.
func TestAllLogDirectoriesOfABrokerAreOne(t *testing.T) {
	disk := exported(t)
	want := look(t, disk, "data")
	text, err := vfs.ReadFile(disk, "kafka/meta.properties")
	require.NoError(t, err)
	write(t, disk, "second/meta.properties", string(text))
	write(t, disk, "second/"+cleanShutdownFile, "{}")
	points, err := vfs.ReadFile(disk, "kafka/"+recoveryPointFile)
	require.NoError(t, err)
	write(t, disk, "second/"+recoveryPointFile, string(points))
	starts, err := vfs.ReadFile(disk, "kafka/"+logStartFile)
	require.NoError(t, err)
	write(t, disk, "second/"+logStartFile, string(starts))
	require.NoError(t, disk.Rename("kafka/orders-1", "second/orders-1"))

	_, err = importOf(t, disk, nil)
	require.ErrorIs(t, err, ErrIncomplete)
	r, err := importOf(t, disk, func(cfg *ImportConfig) { cfg.From = append(cfg.From, "second") })
	require.NoError(t, err)
	require.True(t, r.Clean)
	require.Equal(t, want.logs, look(t, disk, "back").logs)

	require.NoError(t, disk.MkdirAll("kafka/orders-1", 0o755))
	_, err = Import(t.Context(), ImportConfig{From: []string{"kafka", "second"}, Dir: "again", FS: disk})
	require.ErrorIs(t, err, ErrDamaged, "which one counts?")
}

func FuzzFilesOfABroker(f *testing.F) {
	snapshot, _, err := snapshotFile([]metarecord.Record{&metarecord.Topic{Name: "t", ID: topic.NewID()}}, 1)
	require.NoError(f, err)
	f.Add(snapshot)
	f.Add([]byte("0\n1\ntopic 0 12\n"))
	f.Add([]byte("0\n2\n0 0\n3 12\n"))
	f.Add([]byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"))
	f.Add([]byte("version=1\nnode.id=1\ncluster.id=x\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		text := string(p)
		_, _ = parseProperties("f", text)
		_, _ = parsePartitionMetadata("f", text)
		_, _, _ = parseEpochs("f", text)
		if offsets, err := parseCheckpoint("f", text); err == nil {
			again, err := parseCheckpoint("f", string(formatCheckpoint(offsets)))
			require.NoError(t, err)
			require.Equal(t, offsets, again)
		}
		disk := vfs.Mem()
		write(t, disk, "m/00000000000000000000-0000000000.checkpoint", text)
		_, _ = readMetadata(disk, "m", true)
		e, err := scanLog(disk, "m/00000000000000000000-0000000000.checkpoint", 0, func(*record.Batch) error { return nil })
		require.NoError(t, err)
		require.LessOrEqual(t, e.pos+e.rest, int64(len(p)))
	})
}
