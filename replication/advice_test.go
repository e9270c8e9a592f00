package replication

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// segmentOf returns the path of a segment of a partition, the last one with -1.
func segmentOf(t *testing.T, disk *vfs.MemFS, dir string, i int) string {
	t.Helper()
	entries, err := disk.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".log" {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	if i < 0 {
		i += len(names)
	}
	return names[i]
}

// The only replica of a partition has lost records. The error names commands that give its records
// up. After them the partition is served again, also after a kill.
func TestAdviceOfAnOfflinePartitionHasItServedAgain(t *testing.T) {
	states := map[string]struct {
		end  string
		lose func(t *testing.T, disk *vfs.MemFS, dir string) error
	}{
		"directory is missing":     {"closed", func(_ *testing.T, disk *vfs.MemFS, dir string) error { return disk.RemoveAll(dir) }},
		"first segment is missing": {"closed", func(t *testing.T, disk *vfs.MemFS, dir string) error { return disk.Remove(segmentOf(t, disk, dir, 0)) }},
		"last segment is missing":  {"killed", func(t *testing.T, disk *vfs.MemFS, dir string) error { return disk.Remove(segmentOf(t, disk, dir, -1)) }},
		"all files are missing": {"closed", func(_ *testing.T, disk *vfs.MemFS, dir string) error {
			return removeIn(disk, dir, func(string) bool { return true })
		}},
		"last segment is short": {"closed", func(t *testing.T, disk *vfs.MemFS, dir string) error {
			return rewrite(disk, segmentOf(t, disk, dir, -1), func(p []byte) []byte { return p[:len(p)-20] })
		}},
		"last segment has a wrong bit": {"killed", func(t *testing.T, disk *vfs.MemFS, dir string) error {
			return rewrite(disk, segmentOf(t, disk, dir, -1), func(p []byte) []byte { p[70] ^= 4; return p })
		}},
	}
	for name, tt := range states {
		for _, tp := range []tp{at("orders", 0), at("__consumer_offsets", 0)} {
			t.Run(name+" of "+tp.Topic, func(t *testing.T) {
				ds := newDisks(1)
				c := openWith(t, ds.config())
				create(t, c, tp.Topic, 1, "internal.segment.bytes", "300")
				create(t, c, "other", 1)
				produce(t, c, at("other", 0), "kept")
				for range 10 {
					produce(t, c, tp, "a")
				}
				disk := evidenceEnds[tt.end](t, c, ds)[0].Kill()
				dir := filepath.Join(root, partitionDir(tp))
				require.NoError(t, tt.lose(t, disk, dir))
				c = open(t, disk)
				err := c.Status(tp.Topic, 0).Err
				require.ErrorContains(t, err, "restore it from a backup")
				if tp.Topic == "orders" {
					require.ErrorContains(t, err, "deleting the topic gives the records up")
					require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
					create(t, c, "orders", 1)
				} else {
					require.NotContains(t, err.Error(), "deleting the topic")
					require.ErrorContains(t, err, "removing "+partitionDir(tp)+" and "+filepath.Join(root, evidenceFile)+" while the broker is stopped gives the records up")
					require.NoError(t, c.Close())
					require.NoError(t, disk.RemoveAll(dir))
					require.NoError(t, disk.Remove(filepath.Join(root, evidenceFile)))
					c = open(t, disk)
				}
				produce(t, c, tp, "new")
				require.Equal(t, []string{"new"}, values(t, c, tp))
				c = open(t, disk.Kill())
				require.Equal(t, []string{"new"}, values(t, c, tp))
				require.Equal(t, []string{"kept"}, values(t, c, at("other", 0)))
			})
		}
	}
}

// One of several replicas cannot be opened. The error names the directory that can be removed, and
// then the replica is copied again.
func TestAdviceOfADamagedReplicaHasItCopiedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openWithOrders(t, 3)
		ds = ds.kill()
		require.NoError(t, c.Close())
		flipBit(t, ds, 2)
		c = openWith(t, ds.config())
		require.ErrorContains(t, c.Status("orders", 0).Copies[1].Err, "removing the directory while the broker is stopped has it copied again")
		require.NoError(t, c.StopBroker(t.Context(), 2))
		require.NoError(t, ds[1].RemoveAll(dirOf(2)))
		require.NoError(t, c.StartBroker(t.Context(), 2))
		requireOrders(t, c, 3, 5)
	})
}

// All replicas are missing: the error names the election that gives the records up.
func TestAdviceOfAPartitionWithoutReplicasHasItServedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openWithOrders(t, 2)
		require.NoError(t, c.Close())
		for i, disk := range ds {
			require.NoError(t, disk.RemoveAll(dirOf(i+1)))
		}
		c = openWith(t, ds.config())
		require.ErrorContains(t, c.Status("orders", 0).Err, "an unclean election or deleting the topic gives the records up")
		require.NoError(t, errors.Join(c.ElectLeaders(t.Context(), UncleanElection, at("orders", 0))...))
		require.NoError(t, all(c, at("orders", 0), "new").Err)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"new"}, values(t, c, at("orders", 0)))
	})
}

// Opens that are refused name an act with which the next one succeeds.
func TestAdviceOfARefusedOpenLetsItSucceed(t *testing.T) {
	opened := func(t *testing.T, cfg Config) error {
		c, err := Open(cfg)
		if err == nil {
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			require.Equal(t, []string{"a"}, values(t, c, at("orders", 0)))
		}
		return err
	}
	begin := func(t *testing.T, brokers int) *vfs.MemFS {
		disk := vfs.Mem()
		c := openBrokers(t, disk, brokers)
		create(t, c, "orders", 1, "min.insync.replicas", "1")
		produce(t, c, at("orders", 0), "a")
		require.NoError(t, c.Backup(t.Context(), "saved"))
		require.NoError(t, c.Close())
		return disk
	}
	t.Run("checkpoint is damaged", func(t *testing.T) {
		disk := begin(t, 1)
		name := filepath.Join(root, "recovery-point-offset-checkpoint")
		require.NoError(t, vfs.WriteFile(disk, name, []byte("x")))
		require.ErrorContains(t, opened(t, Config{FS: disk, Dir: "data"}), "remove it to have the logs scanned")
		require.NoError(t, disk.Remove(name))
		require.NoError(t, opened(t, Config{FS: disk, Dir: "data"}))
	})
	t.Run("journal is missing", func(t *testing.T) {
		for _, brokers := range []int{1, 3} {
			disk := begin(t, brokers)
			name := filepath.Join(brokerRoot(brokers), "strata.journaled")
			require.NoError(t, vfs.WriteFile(disk, name, []byte("x")))
			err := opened(t, Config{FS: disk, Dir: "data"})
			requireTyped(t, err)
			require.ErrorContains(t, err, filepath.Join(brokerRoot(brokers), "strata.journal")+" is damaged")
			require.ErrorContains(t, err, "remove strata.journaled beside it to give them up")
			require.NoError(t, disk.Remove(name))
			require.NoError(t, opened(t, Config{FS: disk, Dir: "data"}))
		}
	})
	t.Run("identity is damaged", func(t *testing.T) {
		disk := begin(t, 1)
		name := filepath.Join(root, metaPropertiesFile)
		require.NoError(t, rewrite(disk, name, func(p []byte) []byte { p[40] ^= 1; return p }))
		require.ErrorContains(t, opened(t, Config{FS: disk, Dir: "data"}), "restore the file from a backup")
		p, err := vfs.ReadFile(disk, "saved/broker-1/"+metaPropertiesFile)
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFile(disk, name, p))
		require.NoError(t, opened(t, Config{FS: disk, Dir: "data"}))
	})
	t.Run("metadata are damaged", func(t *testing.T) {
		disk := begin(t, 1)
		c := open(t, disk)
		create(t, c, "later", 1)
		require.NoError(t, c.Close())
		dir := filepath.Join(root, topic.MetadataTopic+"-0")
		require.NoError(t, rewrite(disk, segmentOf(t, disk, dir, 0), func(p []byte) []byte { p[70] ^= 4; return p }))
		require.ErrorContains(t, opened(t, Config{FS: disk, Dir: "data"}), "restore it from a backup")
		require.NoError(t, disk.RemoveAll(dir))
		require.NoError(t, disk.Rename("saved/broker-1/"+topic.MetadataTopic+"-0", dir))
		require.ErrorContains(t, opened(t, Config{FS: disk, Dir: "data"}), "without it Config.AcceptMetadataLoss opens with this one")
		require.NoError(t, opened(t, Config{FS: disk, Dir: "data", AcceptMetadataLoss: true}))
	})
	t.Run("directory of a broker instead of the cluster's", func(t *testing.T) {
		disk := begin(t, 1)
		require.ErrorContains(t, opened(t, Config{FS: disk, Dir: root}), "open the directory around it")
		require.NoError(t, opened(t, Config{FS: disk, Dir: filepath.Dir(root)}))
	})
	t.Run("half of the brokers are missing", func(t *testing.T) {
		disk := begin(t, 2)
		require.NoError(t, disk.RemoveAll("data/broker-2"))
		require.ErrorContains(t, opened(t, Config{FS: disk, Dir: "data"}), "without it Config.AcceptMetadataLoss opens what there is")
		require.NoError(t, opened(t, Config{FS: disk, Dir: "data", AcceptMetadataLoss: true}))
	})
	t.Run("older copy of a broker's directory", func(t *testing.T) {
		disk := begin(t, 3)
		early := disk.Kill()
		c := openBrokers(t, disk, 3)
		leader := brokerRoot(int(c.Leader("orders", 0)))
		require.NoError(t, c.Close())
		require.NoError(t, disk.RemoveAll(leader))
		require.NoError(t, bringDir(early, disk, leader))
		require.ErrorContains(t, opened(t, Config{FS: disk, Dir: "data"}), "without "+evidenceFile+" it is opened as it is")
		require.NoError(t, disk.Remove(filepath.Join(leader, evidenceFile)))
		require.NoError(t, opened(t, Config{FS: disk, Dir: "data"}))
	})
	t.Run("directory of an earlier broker with that number", func(t *testing.T) {
		disk := begin(t, 3)
		lost := "data/broker-3"
		early := disk.Kill()
		c := openBrokers(t, disk, 3)
		if c.Leader("orders", 0) == 3 {
			lost = "data/broker-2"
		}
		id := int32(lost[len(lost)-1] - '0')
		require.NoError(t, c.StopBroker(t.Context(), id))
		require.NoError(t, disk.RemoveAll(lost))
		require.NoError(t, c.RemoveLostBroker(t.Context(), id))
		_, err := c.AddBroker(t.Context(), id, BrokerSpec{})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.NoError(t, disk.RemoveAll(lost))
		require.NoError(t, bringDir(early, disk, lost))
		require.ErrorContains(t, opened(t, Config{FS: disk, Dir: "data"}), "if it is lost, remove this one, and then RemoveLostBroker gives up what it had, and AddBroker begins anew")
		require.NoError(t, disk.RemoveAll(lost))
		c, err = Open(Config{FS: disk, Dir: "data"})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		require.NoError(t, c.RemoveLostBroker(t.Context(), id))
		_, err = c.AddBroker(t.Context(), id, BrokerSpec{})
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, values(t, c, at("orders", 0)))
	})
}
