package kafkadir

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// fillThree makes a cluster of three brokers in "data". The topic orders has three replicas, single
// has one.
func fillThree(t *testing.T) *vfs.MemFS {
	t.Helper()
	disk := vfs.Mem()
	cfg := strata.Config{FS: disk, Dir: "data", Brokers: 3}
	cfg.Group.OffsetsPartitions = 2
	c, err := strata.Open(cfg)
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, c.CreateTopic(ctx, "orders", topic.Config{Partitions: 3, ReplicationFactor: 3, Properties: map[string]string{"retention.ms": "-1"}}))
	require.NoError(t, c.CreateTopic(ctx, "single", topic.Config{Partitions: 3, ReplicationFactor: 1, Properties: map[string]string{"retention.ms": "-1"}}))
	require.NoError(t, c.CreateTopic(ctx, "never.written", topic.Config{ReplicationFactor: 3}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	for i := range 90 {
		_, err := p.Send(ctx, record.String("orders", "k", fmt.Sprint(i)).To(int32(i%3)), record.String("single", "k", fmt.Sprint(i)).To(int32(i%3)))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	_, err = c.DeleteRecords(ctx, map[record.TopicPartition]int64{{Topic: "orders", Partition: 1}: 3})
	require.NoError(t, err)
	require.NoError(t, c.ResetOffsets(ctx, "readers", record.Offsets{{Topic: "orders", Partition: 0}: 20}))
	require.NoError(t, c.Backend().AlterBrokerConfig(ctx, 2, replication.ConfigChange{Key: "log.retention.ms", Value: "5000000"}))
	require.NoError(t, c.Close())
	return disk
}

func TestClusterOfThreeBrokersIsExportedForEachBroker(t *testing.T) {
	disk := fillThree(t)
	want := look(t, disk, "data")
	out, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2, 3}, out.Brokers)
	require.Empty(t, out.Behind)
	require.Equal(t, want, look(t, disk, "data"), "it is only read")

	var snapshot map[string]string
	homes := map[int32]topic.ID{}
	for id := int32(1); id <= 3; id++ {
		dir := filepath.Join("kafka", brokerDir(id))
		p, err := vfs.ReadFile(disk, filepath.Join(dir, metaPropertiesFile))
		require.NoError(t, err)
		props, err := parseProperties(dir, string(p))
		require.NoError(t, err)
		require.Equal(t, id, props.node)
		require.Equal(t, out.ClusterID, props.cluster)
		_, home, _ := strings.Cut(string(p), "directory.id=")
		homes[id], err = topic.ParseID(strings.TrimSpace(home))
		require.NoError(t, err)
		got := map[string]string{}
		for path, content := range files(t, disk, filepath.Join(dir, metadataDir)) {
			got[filepath.Base(path)] = content
		}
		require.Len(t, got, 1)
		if snapshot == nil {
			snapshot = got
		}
		require.Equal(t, snapshot, got, "controllers of Kafka begin with the same metadata")
	}
	require.Len(t, map[topic.ID]bool{homes[1]: true, homes[2]: true, homes[3]: true}, 3)

	c := open(t, disk, "data")
	m, err := readMetadata(disk, "kafka/broker-1/"+metadataDir, true)
	require.NoError(t, err)
	for _, name := range []string{"orders", "single", "never.written"} {
		info, err := c.Topic(t.Context(), name)
		require.NoError(t, err)
		kt := m.topics[m.names[name]]
		require.Equal(t, info.ID, topic.ID(kt.id))
		for i, p := range info.Partitions {
			require.Equal(t, p.Replicas, kt.partitions[int32(i)].replicas)
			require.ElementsMatch(t, p.Replicas, kt.partitions[int32(i)].isr)
		}
	}
	require.NoError(t, c.Close())
	require.Equal(t, "5000000", m.configs[4]["2"]["log.retention.ms"], "a setting of broker 2 alone")

	// Each broker's directory has its replicas, byte for byte.
	for id := int32(1); id <= 3; id++ {
		back := fmt.Sprint("back", id)
		in, err := Import(t.Context(), ImportConfig{From: []string{filepath.Join("kafka", brokerDir(id))}, Dir: back, FS: disk, AllowMissing: true})
		require.NoError(t, err)
		require.True(t, in.Clean)
		require.Len(t, in.Missing, 2, "partitions of single on other brokers")
		got := look(t, disk, back)
		require.Equal(t, want.offsets, got.offsets)
		for name, log := range want.logs {
			if !strings.HasPrefix(name, "single-") && !strings.HasPrefix(name, "__") {
				require.Equal(t, log, got.logs[name], name)
			}
		}
	}
}

// slowOrders is a file system that needs 5 s for a write to a segment of orders on broker 3.
type slowOrders struct{ vfs.FS }

func (d slowOrders) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	if err == nil && strings.HasPrefix(filepath.ToSlash(name), "data/broker-3/orders-") && filepath.Ext(name) == ".log" {
		return slowFile{f}, nil
	}
	return f, err
}

type slowFile struct{ vfs.File }

func (f slowFile) WritevAt(bufs [][]byte, at int64) (int, error) {
	time.Sleep(5 * time.Second)
	return f.File.WritevAt(bufs, at)
}

func (f slowFile) WriteAt(p []byte, at int64) (int, error) {
	time.Sleep(5 * time.Second)
	return f.File.WriteAt(p, at)
}

// A replica that does not reach its leader's end is left out: Kafka must not elect it.
func TestReplicaThatLacksRecordsIsExportedOutOfSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := fillThree(t)
		c, err := strata.Open(strata.Config{FS: disk, Dir: "data"})
		require.NoError(t, err)
		require.NoError(t, c.Backend().KillBroker(3))
		p, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		for i := range 30 {
			_, err := p.Send(t.Context(), record.String("orders", "late", fmt.Sprint(i)).To(int32(i%3)))
			require.NoError(t, err)
		}
		require.NoError(t, p.Close())
		require.NoError(t, c.Close())

		out, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: slowOrders{disk}, catchUp: time.Second})
		require.NoError(t, err)
		var behind []ReplicaBehind
		for n := range int32(3) {
			behind = append(behind, ReplicaBehind{TopicPartition: record.TopicPartition{Topic: "orders", Partition: n}, Broker: 3})
		}
		require.Equal(t, behind, out.Behind)
		m, err := readMetadata(disk, "kafka/broker-1/"+metadataDir, true)
		require.NoError(t, err)
		for n, p := range m.topics[m.names["orders"]].partitions {
			require.ElementsMatch(t, []int32{1, 2}, p.isr, n)
			require.ElementsMatch(t, []int32{1, 2, 3}, p.replicas)
			entries, err := disk.ReadDir(fmt.Sprintf("kafka/broker-3/orders-%d", n))
			require.NoError(t, err)
			require.Len(t, entries, 1, "only its identity")
		}
	})
}

func TestExportNeedsTheDirectoriesOfAllBrokers(t *testing.T) {
	disk := fillThree(t)
	require.NoError(t, disk.Rename("data/broker-3", "elsewhere"))
	_, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.ErrorIs(t, err, ErrBrokerMissing)
	require.ErrorContains(t, err, "on broker 3, which has no directory in data")
	_, err = disk.Stat("kafka")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, disk.Rename("elsewhere", "data/broker-3"))
	_, err = Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.NoError(t, err)
}

// After a clean stop of all brokers, Kafka's metadata have no replica in sync. The eligible
// replicas have all committed records (KIP-966).
func TestImportTakesTheReplicaOfTheBrokerThatStoppedLast(t *testing.T) {
	disk := fillThree(t)
	want := look(t, disk, "data")
	_, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.NoError(t, err)
	const dir = "kafka/broker-1/" + metadataDir
	m, err := readMetadata(disk, dir, true)
	require.NoError(t, err)
	entries, err := disk.ReadDir(dir)
	require.NoError(t, err)
	end, ok := snapshotID(entries[0].Name())
	require.True(t, ok)
	stop := func(eligible ...int32) {
		var b record.Builder
		b.SetBaseOffset(end[0])
		for _, id := range m.topics {
			for n := range id.partitions {
				b.AppendKV(1, nil, metarecord.Append(nil, &metarecord.PartitionChange{
					TopicID: metarecord.ID(id.id), Partition: n, Leader: -1, Recovery: -1, ISR: []int32{}, EligibleLeaders: eligible,
				}), nil)
			}
		}
		log, err := b.Build(record.None)
		require.NoError(t, err)
		write(t, disk, fmt.Sprintf("%s/%020d.log", dir, end[0]), string(log))
	}
	stop(2)
	_, err = Import(t.Context(), ImportConfig{From: []string{"kafka/broker-1"}, Dir: "back", FS: disk})
	require.ErrorIs(t, err, ErrIncomplete)
	stop(1, 2)
	in, err := Import(t.Context(), ImportConfig{From: []string{"kafka/broker-1"}, Dir: "back", FS: disk, AllowMissing: true})
	require.NoError(t, err)
	for _, missing := range in.Missing {
		require.Equal(t, "single", missing.Topic)
	}
	require.Len(t, in.Missing, 2, "on the other brokers")
	got := look(t, disk, "back")
	require.Equal(t, want.offsets, got.offsets)
	for _, name := range []string{"orders-0", "orders-1", "orders-2"} {
		require.Equal(t, want.logs[name], got.logs[name])
	}
}
