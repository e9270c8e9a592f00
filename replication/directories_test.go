package replication

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

const root = "data/broker-1"

func copyDir(t *testing.T, fsys vfs.FS, from, to string) {
	t.Helper()
	require.NoError(t, fsys.MkdirAll(filepath.Join(root, to), 0o755))
	entries, err := fsys.ReadDir(filepath.Join(root, from))
	require.NoError(t, err)
	for _, e := range entries {
		p, err := vfs.ReadFile(fsys, filepath.Join(root, from, e.Name()))
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFile(fsys, filepath.Join(root, to, e.Name()), p))
	}
}

func TestPartitionDirectoryNamesSplitAtTheLastDash(t *testing.T) {
	for name, want := range map[string]tp{
		"orders-0": at("orders", 0), "a-b-12": at("a-b", 12), "-0": {}, "orders": {}, "orders-": {}, "orders-x": {}, "orders--1": {Topic: "orders-", Partition: 1},
		"orders-01": {}, "orders-+1": {}, "orders-99999999999": {}, "..-0": {}, "a.0123456789abcdef0123456789abcdef-delete": {}, ".lock": {},
	} {
		got, ok := parsePartitionDir(name)
		require.Equal(t, want, got, name)
		require.Equal(t, want != tp{}, ok, name)
		if ok {
			require.Equal(t, name, partitionDir(got))
		}
	}
	long := strings.Repeat("x", 249) + "-99999"
	require.LessOrEqual(t, len(asideName(long, deleteSuffix)), 255)
	require.True(t, strings.HasSuffix(asideName(long, straySuffix), "-stray"))
}

// The directory that a deleted topic left behind is not taken for its successor's, whatever the
// cause.
func TestDirectoryOfADeletedTopicIsNotTakenForItsSuccessor(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "old")
	copyDir(t, fsys, "orders-0", "kept")
	require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
	create(t, c, "orders", 1)
	copyDir(t, fsys, "kept", "orders-0") // as if the deletion had not reached the disk
	require.NoError(t, fsys.RemoveAll(filepath.Join(root, "kept")))
	later := fsys.Kill()

	require.Empty(t, values(t, c, at("orders", 0)))
	produce(t, c, at("orders", 0), "new")
	require.Equal(t, []string{"new"}, values(t, c, at("orders", 0)))
	require.Equal(t, []string{"orders-0"}, servedDirs(t, fsys))

	again := open(t, later)
	require.Empty(t, values(t, again, at("orders", 0)))
	require.Empty(t, partitionDirs(t, later), "known to be deleted: removed at open")
}

func TestUnknownDirectoryIsPutAsideAndKept(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "x")
	require.NoError(t, c.Close())
	copyDir(t, fsys, "orders-0", "foreign-3")
	id := topic.NewID()
	require.NoError(t, vfs.WriteFile(fsys, root+"/foreign-3/partition.metadata", []byte("version: 0\ntopic_id: "+id.String())))
	copyDir(t, fsys, "orders-0", "orders-1") // the topic has no partition 1
	require.NoError(t, fsys.MkdirAll(root+"/nameless-0", 0o755))
	require.NoError(t, fsys.MkdirAll(root+"/notes", 0o755))

	var out bytes.Buffer
	c = openWith(t, Config{FS: fsys, Dir: "data", Logger: slog.New(slog.NewTextHandler(&out, nil))})
	require.Equal(t, []string{"x"}, values(t, c, at("orders", 0)))
	var strays int
	for _, dir := range partitionDirs(t, fsys) {
		if strings.HasSuffix(dir, straySuffix) {
			strays++
		}
	}
	require.Equal(t, 3, strays, "%v", partitionDirs(t, fsys))
	require.Contains(t, partitionDirs(t, fsys), "notes")
	require.Contains(t, out.String(), "foreign-3")
	require.NoError(t, c.AddPartitions(t.Context(), "orders", 2))
	require.Empty(t, values(t, c, at("orders", 1)))
}

func TestDirectoryThatIsInUseIsRefused(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	_, err := Open(Config{FS: fsys, Dir: "data"})
	requireDirectoryError(t, err, ErrLocked, "other process")
	require.ErrorIs(t, err, vfs.ErrLocked)
	produce(t, c, at("orders", 0), "the first is not disturbed")
	require.NoError(t, c.Close())
	open(t, fsys)
}

func requireDirectoryError(t *testing.T, err, reason error, advice string) {
	t.Helper()
	var dir *DirectoryError
	require.ErrorAs(t, err, &dir)
	require.ErrorIs(t, err, reason)
	require.Equal(t, reason, dir.Reason)
	require.Contains(t, dir.Dir, "data")
	require.Contains(t, err.Error(), dir.Dir)
	require.Contains(t, dir.Advice, advice)
	require.Contains(t, err.Error(), dir.Advice)
}

func TestDirectoryOfAnotherKindIsRefusedAndLeftAlone(t *testing.T) {
	kafka := "#\n#Thu Jan 01 00:00:00 UTC 2026\nversion=1\ncluster.id=xyz\nnode.id=1\ndirectory.id=abc\n"
	for name, c := range map[string]struct {
		file, content  string
		reason         error
		advice, detail string
	}{
		"Kafka's own":         {root + "/meta.properties", kafka, ErrForeign, "empty directory", "not written by this program"},
		"somebody's files":    {root + "/photos.db", "x", ErrForeign, "empty directory", "photos.db"},
		"a broker's":          {"data/meta.properties", kafka, ErrForeign, "empty directory", "not a cluster's"},
		"newer":               {root + "/meta.properties", "#strata 2 blake3 00\nversion=9\n", ErrNewerFormat, "later", "2"},
		"newer, same sealing": {root + "/meta.properties", "#strata 7 xxhash64 0000000000000000\nversion=9\n", ErrNewerFormat, "later", "7"},
		"damaged":             {root + "/meta.properties", "#strata 1 xxhash64 0000000000000000\nversion=1\ncluster.id=x\nnode.id=1\n", ErrDamaged, "backup", "checksum"},
		"damaged first line":  {root + "/meta.properties", "#strata x\n", ErrDamaged, "backup", "first line"},
		"empty":               {root + "/meta.properties", "", ErrForeign, "empty directory", "not written"},
		"without identity":    {root + "/__cluster_metadata-0/strata.state", "", ErrDamaged, "backup", "missing"},
		"Kafka's without it":  {root + "/__cluster_metadata-0/quorum-state", "{}", ErrDamaged, "backup", "missing"},
		"of another broker":   {root + "/meta.properties", string(metaProperties{clusterID: "c", nodeID: 3}.encode()), ErrForeign, "belong", "broker 3"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.Mem()
			require.NoError(t, fsys.MkdirAll(filepath.Dir(c.file), 0o755))
			require.NoError(t, vfs.WriteFile(fsys, c.file, []byte(c.content)))
			changes := fsys.Count(vfs.OpChange)
			_, err := Open(Config{FS: fsys, Dir: "data"})
			requireDirectoryError(t, err, c.reason, c.advice)
			require.Contains(t, err.Error(), c.detail)
			require.Equal(t, changes, fsys.Count(vfs.OpChange), "nothing was changed")
		})
	}
}

func TestEveryFlippedBitOfTheIdentityIsNoticed(t *testing.T) {
	good := metaProperties{clusterID: topic.NewID().String(), directoryID: topic.NewID().String(), nodeID: 1}
	p := good.encode()
	m, err := decodeMeta(p)
	require.NoError(t, err)
	require.Equal(t, good, m)
	for bit := range len(p) * 8 {
		q := bytes.Clone(p)
		q[bit/8] ^= 1 << (bit % 8)
		m, err := decodeMeta(q)
		if err == nil {
			require.Equal(t, good, m, "bit %d: %q", bit, q) // a hex digit in capitals
		}
	}
}

func TestDamagedMetadataLogIsRefusedWithAdvice(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 100)
	create(t, c, "payments", 100)
	require.NoError(t, c.Close())
	name := root + "/__cluster_metadata-0/00000000000000000000.log"
	p, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	p[200] ^= 1
	require.NoError(t, vfs.WriteFile(fsys, name, p))
	_, err = Open(Config{FS: fsys, Dir: "data"})
	requireDirectoryError(t, err, ErrDamaged, "backup")
}

func TestDamagedPartitionIsOfflineAndTheOthersServe(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 3)
	for range 5 {
		produce(t, c, at("orders", 0), "good")
		produce(t, c, at("orders", 1), "bad")
	}
	disk := fsys.Kill()
	name := root + "/orders-1/00000000000000000000.log"
	p, err := vfs.ReadFile(disk, name)
	require.NoError(t, err)
	p[100] ^= 1
	require.NoError(t, vfs.WriteFile(disk, name, p))
	var out bytes.Buffer
	again := openWith(t, Config{FS: disk, Dir: "data", Logger: slog.New(slog.NewTextHandler(&out, nil))})
	require.Len(t, values(t, again, at("orders", 0)), 5)
	produce(t, again, at("orders", 2), "fine")
	_, err = tryValues(t.Context(), again, at("orders", 1))
	require.ErrorIs(t, err, errCorrupt)
	require.ErrorIs(t, tryProduce(again, at("orders", 1), "x").Err, errCorrupt)
	require.ErrorIs(t, again.Status("orders", 1).Err, errCorrupt)
	require.Equal(t, 1, again.Stats().OfflinePartitions)
	require.Contains(t, out.String(), "offline")
	require.NoError(t, again.DeleteTopic(t.Context(), "orders"), "an offline partition can be deleted")
	require.Empty(t, servedDirs(t, disk))
}

func TestRequestMadeAfterAFailedCreationIsNotToldOfThatFailure(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	remove := fsys.Inject(vfs.Fault{Ops: vfs.OpMkdir, Times: vfs.Always, Err: errDisk})
	second := make(chan partition.ProduceResult, 1)
	c.Produce(&partition.ProduceRequest{TopicPartition: at("orders", 0), Batch: batch("x"), Done: func(r partition.ProduceResult) {
		require.ErrorIs(t, r.Err, errDisk)
		remove() // there is room again before the second append
		c.Produce(&partition.ProduceRequest{TopicPartition: at("orders", 0), Batch: batch("y"), Done: func(r partition.ProduceResult) { second <- r }})
	}})
	r := <-second
	require.NoError(t, r.Err)
	require.Equal(t, int64(0), r.BaseOffset)
}

func TestFailedCreationOfAPartitionIsTriedAgain(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	remove := fsys.Inject(vfs.Fault{Ops: vfs.OpMkdir, Times: vfs.Always, Err: errDisk})
	require.ErrorIs(t, tryProduce(c, at("orders", 0), "x").Err, errDisk)
	require.ErrorIs(t, tryProduce(c, at("orders", 0), "x").Err, errDisk)
	remove()
	require.Equal(t, int64(0), produce(t, c, at("orders", 0), "y").BaseOffset)
}

// As the disk of a broker that cannot be read, a damaged meta.properties is a matter of its broker.
// The others serve, and it joins them when the file is back.
func TestDamagedIdentityCostsItsBrokerOnly(t *testing.T) {
	for broker := int32(1); broker <= 3; broker++ {
		ds := newDisks(3)
		c := openWith(t, ds.config())
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 3, ReplicationFactor: 3}))
		for p := range int32(3) {
			produce(t, c, at("orders", p), "before")
		}
		require.NoError(t, c.Close())
		disk, file := ds[broker-1], filepath.Join(fmt.Sprint("data/broker-", broker), metaPropertiesFile)
		whole, err := vfs.ReadFile(disk, file)
		require.NoError(t, err)
		for how, ruin := range map[string]func() error{
			"a wrong bit": func() error {
				return vfs.WriteFile(disk, file, bytes.Replace(whole, []byte("cluster"), []byte("clustes"), 1))
			},
			"no content": func() error { return vfs.WriteFile(disk, file, nil) },
			"removed":    func() error { return disk.Remove(file) },
		} {
			require.NoError(t, ruin())
			var out bytes.Buffer
			cfg := ds.config()
			cfg.Logger = slog.New(slog.NewTextHandler(&out, nil))
			c, err := Open(cfg)
			require.NoError(t, err, how)
			require.NotContains(t, c.Brokers(), broker, how)
			require.Contains(t, out.String(), metaPropertiesFile, how)
			require.ErrorIs(t, c.Healthy(t.Context()), ErrBrokerDown, how)
			require.ErrorContains(t, c.Healthy(t.Context()), metaPropertiesFile, how)
			requireDirectoryError(t, c.StartBroker(t.Context(), broker), ErrDamaged, "restore")
			for p := range int32(3) {
				require.Equal(t, "before", values(t, c, at("orders", p))[0], how)
				produce(t, c, at("orders", p), how)
			}
			require.NoError(t, vfs.WriteFile(disk, file, whole))
			require.NoError(t, c.StartBroker(t.Context(), broker), how)
			require.Equal(t, []int32{1, 2, 3}, c.Brokers(), how)
			require.NoError(t, c.Healthy(t.Context()))
			require.NoError(t, c.Close())
		}
		require.Len(t, values(t, openWith(t, ds.config()), at("orders", 0)), 4)
	}
}

// More than half of the brokers have to be there. The error has the files that are damaged.
func TestDamagedIdentitiesOfMostBrokersAreAnError(t *testing.T) {
	ds := newDisks(3)
	c := openWith(t, ds.config())
	create(t, c, "orders", 1)
	require.NoError(t, c.Close())
	for _, broker := range []int{3, 1, 2} {
		require.NoError(t, vfs.WriteFile(ds[broker-1], filepath.Join(fmt.Sprint("data/broker-", broker), metaPropertiesFile), nil))
		if broker == 3 {
			continue
		}
		_, err := Open(ds.config())
		requireDirectoryError(t, err, ErrDamaged, "restore the file")
		require.ErrorContains(t, err, metaPropertiesFile)
		require.NotErrorIs(t, err, ErrMissing)
	}
}

// A flipped bit in the file with the directory's identity, or the loss of its content, is damage.
// The directory is not taken for another program's.
func TestDamagedIdentityIsNotAForeignDirectory(t *testing.T) {
	for how, end := range evidenceEnds {
		t.Run(how, func(t *testing.T) {
			ds := newDisks(1)
			c := openWith(t, ds.config())
			create(t, c, "orders", 1)
			produce(t, c, at("orders", 0), "a")
			disk := end(t, c, ds)[0]
			file := filepath.Join(root, metaPropertiesFile)
			whole, err := vfs.ReadFile(disk, file)
			require.NoError(t, err)
			ruined := [][]byte{nil, make([]byte, len(whole)), whole[:5], whole[:len(whole)/2]}
			for bit := range 8 * len(whole) {
				p := bytes.Clone(whole)
				p[bit/8] ^= 1 << (bit % 8)
				ruined = append(ruined, p)
			}
			for i, p := range ruined {
				require.NoError(t, vfs.WriteFile(disk, file, p))
				m, err := checkDirectory(disk, root, 1)
				if err == nil { // the sum with a capital letter
					was, _ := decodeMeta(whole)
					require.Equal(t, was, *m)
					continue
				}
				if errors.Is(err, ErrNewerFormat) {
					requireDirectoryError(t, err, ErrNewerFormat, "")
					require.ErrorContains(t, err, "the file is damaged")
				} else {
					requireDirectoryError(t, err, ErrDamaged, "restore the file")
				}
				require.ErrorContains(t, err, metaPropertiesFile)
				if i%100 == 0 {
					_, opened := Open(Config{FS: disk, Dir: "data"})
					require.EqualError(t, opened, err.Error())
				}
			}
			require.NoError(t, vfs.WriteFile(disk, file, whole))
			require.Equal(t, []string{"a"}, values(t, open(t, disk), at("orders", 0)))
		})
	}
}
