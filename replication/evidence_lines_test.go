package replication

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// sudden are the ends of a cluster that close nothing.
var sudden = map[string]func(d *vfs.MemFS) *vfs.MemFS{
	"killed":  func(d *vfs.MemFS) *vfs.MemFS { return d.Kill() },
	"cut off": func(d *vfs.MemFS) *vfs.MemFS { return d.Crash(1) },
}

// replaceDir replaces a directory of to by the directory of from.
func replaceDir(t *testing.T, from, to *vfs.MemFS, dir string) {
	t.Helper()
	entries, err := from.ReadDir(dir)
	require.NoError(t, err)
	require.NoError(t, to.RemoveAll(dir))
	require.NoError(t, to.MkdirAll(dir, 0o755))
	for _, e := range entries {
		p, err := vfs.ReadFile(from, filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFile(to, filepath.Join(dir, e.Name()), p))
	}
}

// A directory of an earlier version or of a restored backup has no evidence file. The file is
// written when the broker starts, so that the next open notices a missing directory.
func TestMissingDirectoryIsNoticedThoughTheBrokerHadNoFileOfItsPartitions(t *testing.T) {
	for how, end := range sudden {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := vfs.Mem()
				c := open(t, fsys)
				create(t, c, "orders", 1)
				produce(t, c, at("orders", 0), "a")
				require.NoError(t, c.Close())
				require.NoError(t, fsys.Remove(filepath.Join(root, evidenceFile)))
				open(t, fsys)
				time.Sleep(time.Second) // much less than the period in which the file is replaced
				fsys = end(fsys)
				require.NoError(t, fsys.RemoveAll(filepath.Join(root, "orders-0")))
				c = open(t, fsys)
				requireDirectoryError(t, c.Status("orders", 0).Err, ErrRecordsMissing, "put it back")
			})
		})
	}
}

// A whole directory is replaced by an older copy. Opens miss the records that were on stable
// storage some seconds before the end, and later opens do so as well.
func TestOldCopyOfADirectoryIsOffline(t *testing.T) {
	for how, end := range sudden {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := vfs.Mem()
				c := open(t, fsys)
				create(t, c, "orders", 1)
				produce(t, c, at("orders", 0), "a")
				time.Sleep(time.Minute)
				require.True(t, c.nodes[1].evidence.quiet.Load(), "an idle broker looks for nothing")
				old := fsys.Kill()
				produce(t, c, at("orders", 0), "b")
				time.Sleep(2 * defaultHighWatermarkInterval)
				fsys = end(fsys)
				whole := fsys.Kill()
				replaceDir(t, old, fsys, filepath.Join(root, "orders-0"))
				for range 3 {
					c = open(t, fsys)
					var incomplete *log.IncompleteError
					require.ErrorAs(t, c.Status("orders", 0).Err, &incomplete)
					require.EqualValues(t, 2, incomplete.Known.End)
					require.Error(t, tryProduce(c, at("orders", 0), "c").Err)
					time.Sleep(2 * defaultHighWatermarkInterval)
					fsys = end(fsys)
				}
				replaceDir(t, whole, fsys, filepath.Join(root, "orders-0"))
				require.Equal(t, []string{"a", "b"}, values(t, open(t, fsys), at("orders", 0)))
			})
		})
	}
}

// A broker with an old copy is killed and started again, each time in a new leader epoch.
func TestOldCopyStaysOfflineInLaterEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(2)
		c := openWith(t, ds.config())
		replicatedOn(t, c, "false", 2)
		produce(t, c, at("orders", 0), "a")
		old := ds.kill()
		produce(t, c, at("orders", 0), "b")
		time.Sleep(2 * defaultHighWatermarkInterval)
		require.NoError(t, c.KillBroker(2))
		replaceDir(t, old[1], ds[1], "data/broker-2/orders-0")
		for range 3 {
			require.NoError(t, c.StartBroker(t.Context(), 2))
			require.ErrorIs(t, c.Status("orders", 0).Err, log.ErrMissingSegment)
			time.Sleep(2 * defaultHighWatermarkInterval)
			require.NoError(t, c.KillBroker(2))
		}
	})
}

// The leader was the only in-sync replica, and its directory is an old copy. It does not lead.
func TestOldCopyOfTheOnlyReplicaInSyncDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(2)
		c := openWith(t, ds.config())
		replicatedOn(t, c, "false", 1, 2)
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		inSync(t, c, at("orders", 0), 2)
		old := ds.kill()
		require.NoError(t, c.StopBroker(t.Context(), 2))
		require.NoError(t, all(c, at("orders", 0), "b").Err)
		time.Sleep(2 * defaultHighWatermarkInterval)
		ds = ds.kill()
		replaceDir(t, old[0], ds[0], "data/broker-1/orders-0")
		c = openWith(t, ds.config())
		require.EqualValues(t, -1, c.Leader("orders", 0))
	})
}

// replicatedOn creates "orders" with one partition and min.insync.replicas 1. unclean is its
// unclean.leader.election.enable.
func replicatedOn(t *testing.T, c *Cluster, unclean string, brokers ...int32) {
	t.Helper()
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{
		Assignment: [][]int32{brokers}, Properties: properties("min.insync.replicas", "1", "unclean.leader.election.enable", unclean),
	}))
}

// An unclean election has truncated a log, and its broker is killed before this is noted. It is
// not reported as a loss.
func TestLogThatAnElectionHasCutIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(3)
		c := openWith(t, ds.config())
		replicatedOn(t, c, "true", 1, 2)
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		inSync(t, c, at("orders", 0), 2)
		require.NoError(t, c.StopBroker(t.Context(), 2))
		for range 3 {
			require.NoError(t, all(c, at("orders", 0), "given up").Err)
		}
		time.Sleep(2 * defaultHighWatermarkInterval)
		require.NoError(t, c.KillBroker(1))
		require.NoError(t, c.StartBroker(t.Context(), 2))
		require.EqualValues(t, 2, c.Leader("orders", 0))
		require.NoError(t, c.StartBroker(t.Context(), 1))
		inSync(t, c, at("orders", 0), 2)
		require.NoError(t, reassign(c, at("orders", 0), 1))
		ds = ds.kill()
		c = openWith(t, ds.config())
		require.Equal(t, []string{"a"}, values(t, c, at("orders", 0)))
	})
}

// A metadata log from before the last open is refused, although only that open has changed it
// since.
func TestMetadataOfBeforeTheLastOpenIsRefused(t *testing.T) {
	for how, end := range sudden {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := vfs.Mem()
				c := open(t, fsys)
				create(t, c, "orders", 1)
				produce(t, c, at("orders", 0), "a")
				require.NoError(t, c.Close())
				old := fsys.Kill()
				open(t, fsys)
				if how == "cut off" {
					time.Sleep(2 * defaultHighWatermarkInterval)
				}
				fsys = end(fsys)
				replaceDir(t, old, fsys, filepath.Join(root, "__cluster_metadata-0"))
				_, err := Open(Config{FS: fsys, Dir: "data"})
				requireDirectoryError(t, err, ErrMetadataWentBack, "newer copy")
			})
		})
	}
}

// The file that names a partition's topic is an older copy, which names a deleted topic of the
// same name. The records stay, and are served when the file is restored.
func TestDirectoryThatNamesADeletedTopicIsNotDeleted(t *testing.T) {
	for _, noted := range []bool{true, false} {
		t.Run(fmt.Sprintf("noted %v", noted), func(t *testing.T) {
			fsys := vfs.Mem()
			c := open(t, fsys)
			create(t, c, "orders", 1)
			produce(t, c, at("orders", 0), "former")
			dir := filepath.Join(root, "orders-0")
			older, err := vfs.ReadFile(fsys, filepath.Join(dir, partitionMetadataFile))
			require.NoError(t, err)
			require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
			create(t, c, "orders", 1)
			produce(t, c, at("orders", 0), "a")
			require.NoError(t, c.Close())
			whole := fsys.Kill()
			require.NoError(t, vfs.WriteFile(fsys, filepath.Join(dir, partitionMetadataFile), older))
			if !noted {
				require.NoError(t, fsys.Remove(filepath.Join(root, evidenceFile)))
			}
			c = open(t, fsys)
			if noted {
				requireDirectoryError(t, c.Status("orders", 0).Err, ErrRecordsMissing, "restore the file")
			}
			require.NoError(t, c.Close())
			if !noted {
				dir = aside(t, fsys, "orders-0")
			}
			p, err := vfs.ReadFile(fsys, filepath.Join(dir, "00000000000000000000.log"))
			require.NoError(t, err)
			was, err := vfs.ReadFile(whole, filepath.Join(root, "orders-0", "00000000000000000000.log"))
			require.NoError(t, err)
			require.Equal(t, was, p)
			if noted {
				replaceDir(t, whole, fsys, dir)
				require.Equal(t, []string{"a"}, values(t, open(t, fsys), at("orders", 0)))
			}
		})
	}
}

// aside returns the path of the directory that was put aside for a partition.
func aside(t *testing.T, fsys *vfs.MemFS, partition string) string {
	t.Helper()
	entries, err := fsys.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), partition+".") && strings.HasSuffix(e.Name(), straySuffix) {
			return filepath.Join(root, e.Name())
		}
	}
	require.Fail(t, "nothing was put aside")
	return ""
}

// The metadata is removed after a kill, together with the broker's evidence file, which a power
// cut may take. No new cluster is founded beside the directory of a partition.
func TestEmptyMetadataBesideAPartitionIsRefused(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "a")
	fsys = fsys.Kill()
	whole := fsys.Kill()
	dir := root + "/__cluster_metadata-0"
	require.NoError(t, removeIn(fsys, dir, func(string) bool { return true }))
	require.NoError(t, fsys.Remove(filepath.Join(root, evidenceFile)))
	_, err := Open(Config{FS: fsys, Dir: "data"})
	requireDirectoryError(t, err, ErrMetadataWentBack, "newer copy")
	replaceDir(t, whole, fsys, dir)
	require.Equal(t, []string{"a"}, values(t, open(t, fsys), at("orders", 0)))
}

// The marker of a clean stop is removed, and a partition's directory too. The missing marker does
// not mean that a Kafka broker has removed the records.
func TestMissingMarkerOfACleanStopVoidsNoEvidence(t *testing.T) {
	for _, marker := range []func(*vfs.MemFS, string) error{
		func(fsys *vfs.MemFS, name string) error { return fsys.Remove(name) },
		func(fsys *vfs.MemFS, name string) error { return vfs.WriteFile(fsys, name, nil) },
	} {
		fsys := vfs.Mem()
		c := open(t, fsys)
		create(t, c, "orders", 2)
		produce(t, c, at("orders", 0), "a")
		produce(t, c, at("orders", 1), "b")
		require.NoError(t, c.Close())
		require.NoError(t, marker(fsys, filepath.Join(root, ".kafka_cleanshutdown")))
		require.NoError(t, fsys.RemoveAll(filepath.Join(root, "orders-0")))
		c = open(t, fsys)
		requireDirectoryError(t, c.Status("orders", 0).Err, ErrRecordsMissing, "put it back")
		require.Equal(t, []string{"b"}, values(t, c, at("orders", 1)))
		require.NoError(t, c.Close())
	}
}

// The directories of two partitions of a topic change places. Neither is served, or copied again
// from other replicas. With the directories back each partition has its records.
func TestDirectoryOfAnotherPartitionOfTheTopicIsNotServed(t *testing.T) {
	swap := func(t *testing.T, fsys *vfs.MemFS, root string) {
		for _, names := range [][2]string{{"orders-0", "aside"}, {"orders-1", "orders-0"}, {"aside", "orders-1"}} {
			require.NoError(t, fsys.Rename(filepath.Join(root, names[0]), filepath.Join(root, names[1])))
		}
	}
	for how, end := range evidenceEnds {
		t.Run("one replica, "+how, func(t *testing.T) {
			ds := newDisks(1)
			c := openWith(t, ds.config())
			create(t, c, "orders", 2)
			produce(t, c, at("orders", 0), "a")
			produce(t, c, at("orders", 1), "b")
			disk := end(t, c, ds)[0].Kill()
			swap(t, disk, root)
			for range 2 {
				c = open(t, disk)
				for p := range int32(2) {
					requireDirectoryError(t, c.Status("orders", p).Err, ErrRecordsMissing, "to where they belong")
					require.ErrorIs(t, tryProduce(c, at("orders", p), "c").Err, ErrRecordsMissing)
				}
				require.NoError(t, c.Close())
			}
			swap(t, disk, root)
			c = open(t, disk)
			require.Equal(t, []string{"a"}, values(t, c, at("orders", 0)))
			require.Equal(t, []string{"b"}, values(t, c, at("orders", 1)))
		})
		t.Run("three replicas, "+how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ds := openThree(t)
				replicated(t, c, "orders", 2)
				for p, v := range []string{"a", "b"} {
					inSync(t, c, at("orders", int32(p)), 3)
					require.NoError(t, all(c, at("orders", int32(p)), v).Err)
				}
				ds = end(t, c, ds)
				swap(t, ds[0], "data/broker-1")
				c = openWith(t, ds.config())
				time.Sleep(time.Minute)
				for p, v := range []string{"a", "b"} {
					require.Equal(t, []string{v}, values(t, c, at("orders", int32(p))))
					inSync(t, c, at("orders", int32(p)), 3)
				}
				require.Zero(t, c.Stats().RecordsLost)
			})
		})
	}
}

// A directory of Kafka or of an earlier version has no partition number in its file.
func TestDirectoryWithoutAPartitionsNumberIsTakenAsItIs(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "a")
	require.NoError(t, c.Close())
	file := filepath.Join(root, "orders-0", partitionMetadataFile)
	p, err := vfs.ReadFile(fsys, file)
	require.NoError(t, err)
	earlier := p[:bytes.IndexByte(p, '#')-1]
	require.NoError(t, vfs.WriteFile(fsys, file, earlier))
	c = open(t, fsys)
	require.Equal(t, []string{"a"}, values(t, c, at("orders", 0)))
	require.NoError(t, c.Close())
	p, err = vfs.ReadFile(fsys, file)
	require.NoError(t, err)
	require.Equal(t, earlier, p)
}

// The noted end of a log counts after other epochs of the same leader have begun, even if these
// were not noted.
func TestEndCountsInLaterEpochsOfTheSameLeader(t *testing.T) {
	for what, begin := range map[string]func(*testing.T, *Cluster){
		"restart": func(t *testing.T, c *Cluster) {
			require.NoError(t, c.KillBroker(2))
			require.NoError(t, c.StartBroker(t.Context(), 2))
		},
		"two restarts": func(t *testing.T, c *Cluster) {
			for range 2 {
				require.NoError(t, c.KillBroker(2))
				require.NoError(t, c.StartBroker(t.Context(), 2))
			}
		},
		"reassignment": func(t *testing.T, c *Cluster) {
			require.NoError(t, reassign(c, at("orders", 0), 2, 1))
			inSync(t, c, at("orders", 0), 2)
			require.NoError(t, reassign(c, at("orders", 0), 2))
		},
		"a snapshot of the metadata": func(t *testing.T, c *Cluster) {
			require.NoError(t, c.KillBroker(2))
			require.NoError(t, c.StartBroker(t.Context(), 2))
			c.snapshotMetadata()
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ds := newDisks(2)
				c := openWith(t, ds.config())
				replicatedOn(t, c, "false", 2)
				produce(t, c, at("orders", 0), "a")
				old := ds.kill()
				produce(t, c, at("orders", 0), "b")
				time.Sleep(2 * defaultHighWatermarkInterval)
				begin(t, c)
				ds = ds.kill()
				require.NoError(t, c.Close())
				replaceDir(t, old[1], ds[1], "data/broker-2/orders-0")
				c = openWith(t, ds.config())
				require.ErrorIs(t, c.Status("orders", 0).Err, log.ErrMissingSegment)
			})
		})
	}
}

// A log without its strata.state may have a hole or deleted records. It is not read by Kafka's
// rules.
func TestLogWithoutItsStateIsOffline(t *testing.T) {
	ends := maps.Clone(sudden)
	ends["closed"] = nil
	for how, end := range ends {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := vfs.Mem()
				c := open(t, fsys)
				create(t, c, "orders", 1)
				produce(t, c, at("orders", 0), "a")
				produce(t, c, at("orders", 0), "b")
				time.Sleep(2 * defaultHighWatermarkInterval)
				if end == nil {
					require.NoError(t, c.Close())
				} else {
					fsys = end(fsys)
				}
				whole := fsys.Kill()
				require.NoError(t, fsys.Remove(filepath.Join(root, "orders-0", "strata.state")))
				c = open(t, fsys)
				var incomplete *log.IncompleteError
				require.ErrorAs(t, c.Status("orders", 0).Err, &incomplete)
				require.True(t, incomplete.Stateless)
				require.NoError(t, c.Close())
				replaceDir(t, whole, fsys, filepath.Join(root, "orders-0"))
				require.Equal(t, []string{"a", "b"}, values(t, open(t, fsys), at("orders", 0)))
			})
		})
	}
}

// The ends of other partitions stay exact beside a partition that is offline or was not closed in
// order.
func TestEndsAreExactBesideAnOfflinePartition(t *testing.T) {
	for how, end := range sudden {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := vfs.Mem()
				c := open(t, fsys)
				create(t, c, "orders", 2)
				for p := range int32(2) {
					produce(t, c, at("orders", p), "a")
				}
				time.Sleep(2 * defaultHighWatermarkInterval)
				fsys = end(fsys)
				damaged := filepath.Join(root, "orders-1")
				before := fsys.Kill()
				require.NoError(t, fsys.Remove(filepath.Join(damaged, "strata.state")))
				c = open(t, fsys)
				require.Error(t, c.Status("orders", 1).Err)
				old := fsys.Kill()
				produce(t, c, at("orders", 0), "b")
				require.NoError(t, c.Close())
				whole := fsys.Kill()
				replaceDir(t, old, fsys, filepath.Join(root, "orders-0"))
				c = open(t, fsys)
				var incomplete *log.IncompleteError
				require.ErrorAs(t, c.Status("orders", 0).Err, &incomplete)
				require.EqualValues(t, 2, incomplete.Known.End)
				require.True(t, incomplete.Known.Exact)
				require.NoError(t, c.Close())
				replaceDir(t, whole, fsys, filepath.Join(root, "orders-0"))
				replaceDir(t, before, fsys, damaged)
				c = open(t, fsys)
				require.Equal(t, []string{"a", "b"}, values(t, c, at("orders", 0)))
				require.Equal(t, []string{"a"}, values(t, c, at("orders", 1)))
			})
		})
	}
}

// The end of a log that was closed in order is exact, whichever mark of the clean stop is missing.
func TestMissingMarksOfACleanStopVoidNoEnd(t *testing.T) {
	for _, missing := range [][]string{
		{".kafka_cleanshutdown"}, {"strata.closed"}, {".kafka_cleanshutdown", "strata.closed"}, {".kafka_cleanshutdown", "recovery-point-offset-checkpoint"},
	} {
		t.Run(strings.Join(missing, " "), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := vfs.Mem()
				c := open(t, fsys)
				create(t, c, "orders", 1)
				produce(t, c, at("orders", 0), "a")
				old := fsys.Kill()
				produce(t, c, at("orders", 0), "b")
				require.NoError(t, c.Close())
				for _, name := range missing {
					require.NoError(t, fsys.Remove(filepath.Join(root, name)))
				}
				whole := fsys.Kill()
				replaceDir(t, old, fsys, filepath.Join(root, "orders-0"))
				c = open(t, fsys)
				var incomplete *log.IncompleteError
				require.ErrorAs(t, c.Status("orders", 0).Err, &incomplete)
				require.EqualValues(t, 2, incomplete.Known.End)
				require.Equal(t, []string{"a", "b"}, values(t, open(t, whole), at("orders", 0)))
			})
		})
	}
}
