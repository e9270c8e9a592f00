package kafkadir

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

const firstSegment = "00000000000000000000.log"

// flipByte inverts a byte of a file.
func flipByte(t *testing.T, fsys vfs.FS, path string, at int) {
	t.Helper()
	p, err := vfs.ReadFile(fsys, path)
	require.NoError(t, err)
	p[at] ^= 0xff
	require.NoError(t, fsys.Remove(path))
	require.NoError(t, vfs.WriteFile(fsys, path, p))
}

func orders0(broker int32) string { return filepath.Join("data", brokerDir(broker), "orders-0") }

// damageOrders damages the records of orders-0 on some brokers, and returns what strata verify
// finds.
func damageOrders(t *testing.T, fsys vfs.FS, brokers ...int32) (all []Damage) {
	t.Helper()
	for _, id := range brokers {
		path := filepath.Join(orders0(id), firstSegment)
		flipByte(t, fsys, path, 70)
		all = append(all, Damage{path, "corrupt batch"})
	}
	return all
}

func TestExportTakesAWholeReplicaInsteadOfADamagedLeader(t *testing.T) {
	disk := fillThree(t)
	damageOrders(t, disk, 1, 3)
	out, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk, catchUp: time.Second})
	require.NoError(t, err)
	require.Len(t, out.Behind, 2)
	for i, b := range out.Behind {
		require.Equal(t, "orders-0", partitionName(b.TopicPartition))
		require.Equal(t, []int32{1, 3}[i], b.Broker)
		require.Contains(t, b.Damage, filepath.Join(orders0(b.Broker), firstSegment)+" is damaged")
		entries, err := disk.ReadDir(filepath.Join("kafka", brokerDir(b.Broker), "orders-0"))
		require.NoError(t, err)
		require.Len(t, entries, 1, "only its identity")
	}
	m, err := readMetadata(disk, "kafka/broker-1/"+metadataDir, true)
	require.NoError(t, err)
	p := m.topics[m.names["orders"]].partitions[0]
	require.Equal(t, []int32{2}, p.isr)
	require.ElementsMatch(t, []int32{1, 2, 3}, p.replicas)
	for _, p := range m.topics[m.names["single"]].partitions {
		require.Equal(t, p.replicas, p.isr)
	}

	damageOrders(t, disk, 2)
	_, err = Export(t.Context(), ExportConfig{Dir: "data", To: "second", FS: disk, catchUp: time.Second})
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, "orders-0")
	_, err = disk.Stat("second")
	require.Error(t, err)
}

// The damages are those that strata verify would find.
func TestCheckJudgesDamageAsExportDoes(t *testing.T) {
	for name, tt := range map[string]struct {
		damage func(t *testing.T, disk *vfs.MemFS) []Damage
		ready  bool
		about  string
		text   string
	}{
		"records of one of three replicas": {
			func(t *testing.T, disk *vfs.MemFS) []Damage { return damageOrders(t, disk, 1) }, true, "data/broker-1/orders-0", "the export takes the replica of broker 2",
		},
		"records of all replicas": {
			func(t *testing.T, disk *vfs.MemFS) []Damage { return damageOrders(t, disk, 1, 2, 3) }, false, "data/broker-1/orders-0", "export rejects the cluster",
		},
		"directory of one replica is missing": {func(t *testing.T, disk *vfs.MemFS) []Damage {
			require.NoError(t, disk.RemoveAll(orders0(2)))
			return nil
		}, true, "data/broker-2/orders-0", "the export takes the replica of broker"},
		"directories of all replicas are missing": {func(t *testing.T, disk *vfs.MemFS) []Damage {
			for id := range int32(3) {
				require.NoError(t, disk.RemoveAll(orders0(id+1)))
			}
			return nil
		}, false, "data/broker-3/orders-0", "export rejects the cluster"},
		"one of three copies of the metadata": {func(t *testing.T, disk *vfs.MemFS) []Damage {
			flipByte(t, disk, filepath.Join("data/broker-1", metadataDir, firstSegment), 70)
			return nil
		}, true, "data/broker-1/" + metadataDir, "the export takes the metadata of the other brokers"},
		"two of three copies of the metadata": {func(t *testing.T, disk *vfs.MemFS) []Damage {
			for _, id := range []int32{1, 2} {
				flipByte(t, disk, filepath.Join("data", brokerDir(id), metadataDir, firstSegment), 70)
			}
			return nil
		}, false, "data/broker-2/" + metadataDir, "more than half of the brokers need a whole copy"},
		"broker's directory is empty": {func(t *testing.T, disk *vfs.MemFS) []Damage {
			require.NoError(t, disk.RemoveAll("data/broker-2"))
			require.NoError(t, disk.MkdirAll("data/broker-2", 0o700))
			return nil
		}, false, "data/broker-2", "directory of a broker is empty"},
		"file that is made again": {func(t *testing.T, disk *vfs.MemFS) []Damage {
			path := filepath.Join("data/broker-1/orders-0", partitionFile)
			flipByte(t, disk, path, 15)
			return []Damage{{path, "no topic id"}}
		}, true, "data/broker-1/orders-0/" + partitionFile, "the export makes it again"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := fillThree(t)
			whole := check(t, disk)
			damages := tt.damage(t, disk)
			before := files(t, disk, "data")
			r, err := Check(t.Context(), CheckConfig{Dir: "data", FS: disk, Damages: damages})
			require.NoError(t, err)
			require.Equal(t, before, files(t, disk, "data"))
			require.Equal(t, tt.ready, r.Ready(), r.Findings)
			f := finding(t, r, tt.about)
			require.Contains(t, f.Text, tt.text)
			require.Equal(t, whole.Groups, r.Groups)
			if tt.ready {
				require.Equal(t, whole.Bytes, r.Bytes, "the space that the export needs")
			}
			_, err = Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk, catchUp: time.Second})
			require.Equal(t, tt.ready, err == nil, err)
		})
	}
}

// Broker 1, which is the first of each replica set in sync, gets an older copy of its directory.
func TestCheckTakesItsFiguresFromReplicasThatAreNotOld(t *testing.T) {
	disk := fillThree(t)
	old := files(t, disk, "data/broker-1")
	c, err := strata.Open(strata.Config{FS: disk, Dir: "data"})
	require.NoError(t, err)
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	for i := range 300 {
		_, err := p.Send(t.Context(), record.Record{Topic: "orders", Partition: int32(i % 3), Value: make([]byte, 1000)})
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	require.NoError(t, c.ResetOffsets(t.Context(), "later", record.Offsets{{Topic: "orders", Partition: 0}: 20}))
	require.NoError(t, c.Close())
	now := check(t, disk)
	require.Equal(t, 2, now.Groups)

	require.NoError(t, disk.RemoveAll("data/broker-1"))
	for path, text := range old {
		require.NoError(t, disk.MkdirAll(filepath.Dir(path), 0o700))
		write(t, disk, path, text)
	}
	r := check(t, disk)
	require.Equal(t, now.Groups, r.Groups)
	require.Equal(t, now.Partitions, r.Partitions)
	require.Contains(t, fmt.Sprint(r.Findings), "older copy")
	_, err = Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk, catchUp: time.Second})
	require.Equal(t, r.Ready(), err == nil, "%v %v", r.Findings, err)
}

func TestDamagedMetadataAreNamedWithTheirPathAndARemedy(t *testing.T) {
	disk := fillThree(t)
	for id := range int32(3) {
		flipByte(t, disk, filepath.Join("data", brokerDir(id+1), metadataDir, firstSegment), 70)
	}
	_, err := Check(t.Context(), CheckConfig{Dir: "data", FS: disk})
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, filepath.Join("data/broker-1", metadataDir, firstSegment)+" is damaged at byte 0")
	require.ErrorContains(t, err, "no broker has a whole copy of the metadata: put the file back, or restore a backup of the cluster")
}

// The epochs prove that the only copy of the metadata is not an old one. Without them an open
// rejects it, if a broker has seen its end.
func TestDamagedEpochsOfTheOnlyCopyOfTheMetadataAreABlocker(t *testing.T) {
	disk := vfs.Mem()
	c := open(t, disk, "data")
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
	require.NoError(t, c.Close())
	path := filepath.Join("data/broker-1", metadataDir, epochFile)
	flipByte(t, disk, path, 4)
	r, err := Check(t.Context(), CheckConfig{Dir: "data", FS: disk, Damages: []Damage{{path, "no epoch and offset"}}})
	require.NoError(t, err)
	require.Equal(t, Blocker, finding(t, r, path).Severity)
}

// An open would regard brokers without a directory as lost, and would accept the loss of the
// metadata on request. The directories may only be elsewhere: strata serve --broker-dir.
func TestExportNeverAdvisesToAcceptALossOfMetadata(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, disk *vfs.MemFS){
		"directories elsewhere": func(t *testing.T, disk *vfs.MemFS) {
			require.NoError(t, disk.Rename("data/broker-2", "two"))
			require.NoError(t, disk.Rename("data/broker-3", "three"))
		},
		"metadata missing": func(t *testing.T, disk *vfs.MemFS) {
			require.NoError(t, disk.RemoveAll("data/broker-2/"+metadataDir))
			require.NoError(t, disk.RemoveAll("data/broker-3/"+metadataDir))
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := fillThree(t)
			lose(t, disk)
			_, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk, catchUp: time.Second})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "MetadataLoss")
			require.NotContains(t, err.Error(), "accept")
			if name == "directories elsewhere" {
				require.ErrorIs(t, err, ErrBrokerMissing)
				require.ErrorContains(t, err, "broker 2, which has no directory in data: move the broker's directory to data/broker-2")
				require.False(t, check(t, disk).Ready())
			}
		})
	}
}
