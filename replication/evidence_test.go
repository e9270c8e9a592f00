package replication

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// evidenceEnds are ways in which a cluster ends.
var evidenceEnds = map[string]func(*testing.T, *Cluster, disks) disks{
	"closed": func(t *testing.T, c *Cluster, ds disks) disks {
		require.NoError(t, c.Close())
		return ds
	},
	"killed": func(_ *testing.T, _ *Cluster, ds disks) disks { return ds.kill() },
}

// The file that names a partition's topic is written again if the metadata leaves no doubt.
func TestFileThatNamesThePartitionsTopicIsMadeAgain(t *testing.T) {
	for name, end := range evidenceEnds {
		t.Run(name, func(t *testing.T) {
			ds := newDisks(1)
			c := openWith(t, ds.config())
			create(t, c, "orders", 1)
			produce(t, c, at("orders", 0), "a", "b")
			disk := end(t, c, ds)[0]
			file := filepath.Join(root, "orders-0", partitionMetadataFile)
			was, err := vfs.ReadFile(disk, file)
			require.NoError(t, err)
			flipped := bytes.Clone(was)
			flipped[30] ^= 2
			number := bytes.Clone(was)
			number[len(was)-20] ^= 1
			for _, now := range [][]byte{nil, make([]byte, len(was)), was[:20], was[:45], flipped, number} {
				again := disk.Kill()
				require.NoError(t, vfs.WriteFile(again, file, now))
				c := open(t, again)
				require.Equal(t, []string{"a", "b"}, values(t, c, at("orders", 0)), "%q", now)
				is, err := vfs.ReadFile(again, file)
				require.NoError(t, err)
				require.Equal(t, was, is)
			}
		})
	}
}

// A directory that names another topic stands in the place of a partition. It is neither served
// nor moved.
func TestDirectoryOfAnotherTopicInPlaceOfAPartitionIsNotServed(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "a")
	require.NoError(t, c.Close())
	file := filepath.Join(root, "orders-0", partitionMetadataFile)
	was, err := vfs.ReadFile(fsys, file)
	require.NoError(t, err)
	require.NoError(t, vfs.WriteFile(fsys, file, encodePartitionFile(topic.NewID(), 0)))
	c = open(t, fsys)
	err = c.Status("orders", 0).Err
	requireDirectoryError(t, err, ErrRecordsMissing, "restore the file")
	require.ErrorIs(t, tryProduce(c, at("orders", 0), "b").Err, ErrRecordsMissing)
	require.NoError(t, c.Close())
	require.NoError(t, vfs.WriteFile(fsys, file, was))
	require.Equal(t, []string{"a"}, values(t, open(t, fsys), at("orders", 0)))
}

// The only replica has lost its directory, or files in it. The partition is offline, and nothing
// in the directory changes. With the files back the partition has its records.
func TestPartitionThatLostItsFilesIsOffline(t *testing.T) {
	losses := map[string]func(disk *vfs.MemFS, dir string) error{
		"directory": func(disk *vfs.MemFS, dir string) error { return disk.RemoveAll(dir) },
		"all files": func(disk *vfs.MemFS, dir string) error { return removeIn(disk, dir, func(string) bool { return true }) },
		"logs and state": func(disk *vfs.MemFS, dir string) error {
			return removeIn(disk, dir, func(file string) bool { return filepath.Ext(file) == ".log" || file == "strata.state" })
		},
	}
	for how, end := range evidenceEnds {
		for what, lose := range losses {
			t.Run(what+" when "+how, func(t *testing.T) {
				ds := newDisks(1)
				c := openWith(t, ds.config())
				create(t, c, "orders", 1)
				produce(t, c, at("orders", 0), "a", "b")
				whole := end(t, c, ds)[0]
				dir := filepath.Join(root, "orders-0")
				disk := whole.Kill()
				require.NoError(t, lose(disk, dir))
				for range 2 { // the second open has the same evidence as the first
					c := open(t, disk)
					err := c.Status("orders", 0).Err
					if !errors.As(err, new(*log.IncompleteError)) {
						requireDirectoryError(t, err, ErrRecordsMissing, "put it back")
					}
					_, err = tryValues(t.Context(), c, at("orders", 0))
					require.Error(t, err)
					require.Error(t, tryProduce(c, at("orders", 0), "c").Err)
					require.NoError(t, c.Close())
				}
				entries, err := whole.ReadDir(dir)
				require.NoError(t, err)
				require.NoError(t, disk.MkdirAll(dir, 0o755))
				for _, e := range entries {
					p, err := vfs.ReadFile(whole, filepath.Join(dir, e.Name()))
					require.NoError(t, err)
					require.NoError(t, vfs.WriteFile(disk, filepath.Join(dir, e.Name()), p))
				}
				require.Equal(t, []string{"a", "b"}, values(t, open(t, disk), at("orders", 0)))
			})
		}
	}
}

// A log with only its last segment left, after a close in order, is not taken for a short log.
func TestLogWithoutItsFirstSegmentsIsOffline(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1, "internal.segment.bytes", "200")
	for range 10 {
		produce(t, c, at("orders", 0), "a")
	}
	require.NoError(t, c.Close())
	dir := filepath.Join(root, "orders-0")
	last := ""
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".log" {
			last = e.Name()
		}
	}
	require.NotContains(t, last, "00000000000000000000.log")
	require.NoError(t, removeIn(fsys, dir, func(file string) bool { return file != last && file != partitionMetadataFile }))
	c = open(t, fsys)
	var incomplete *log.IncompleteError
	require.ErrorAs(t, c.Status("orders", 0).Err, &incomplete)
	require.EqualValues(t, 10, incomplete.Known.End)
	require.ErrorContains(t, incomplete, "orders-0")
}

// The leader's directory or its files are missing, or the file that names the topic is unusable,
// before any high watermark was saved. The others' records count, and the replica is copied again
// from them.
func TestReplicaThatLostWhatItHadIsMadeAnew(t *testing.T) {
	losses := map[string]func(disk *vfs.MemFS, dir string) error{
		"directory": func(disk *vfs.MemFS, dir string) error { return disk.RemoveAll(dir) },
		"all files": func(disk *vfs.MemFS, dir string) error { return removeIn(disk, dir, func(string) bool { return true }) },
		"name": func(disk *vfs.MemFS, dir string) error {
			return vfs.WriteFile(disk, filepath.Join(dir, partitionMetadataFile), encodePartitionFile(topic.NewID(), 0))
		},
	}
	for how, end := range evidenceEnds {
		for what, lose := range losses {
			t.Run(what+" when "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, ds := openThree(t)
					replicated(t, c, "orders", 1)
					for range 5 {
						require.NoError(t, all(c, at("orders", 0), "a").Err)
					}
					require.EqualValues(t, 1, c.Leader("orders", 0))
					ds = end(t, c, ds)
					require.NoError(t, lose(ds[0], "data/broker-1/orders-0"))
					c = openWith(t, ds.config())
					require.NotEqualValues(t, 1, c.Leader("orders", 0))
					time.Sleep(time.Minute) // records are readable when the followers have fetched
					require.Len(t, values(t, c, at("orders", 0)), 5)
					inSync(t, c, at("orders", 0), 3)
					require.Equal(t, map[int32]int64{1: 5, 2: 5, 3: 5}, c.Status("orders", 0).Ends)
					require.Zero(t, c.Stats().RecordsLost)
				})
			})
		}
	}
}

// A leader whose log cannot be opened gives the lead to an in-sync replica, and its files do not
// change.
func TestLeaderThatCannotBeOpenedGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 1)
		for range 5 {
			require.NoError(t, all(c, at("orders", 0), "a").Err)
		}
		require.NoError(t, c.Close())
		state := "data/broker-1/orders-0/strata.state"
		require.NoError(t, vfs.WriteFile(ds[0], state, []byte("no state")))
		c = openWith(t, ds.config())
		require.NotEqualValues(t, 1, c.Leader("orders", 0))
		time.Sleep(time.Minute) // records are readable when the followers have fetched
		require.Len(t, values(t, c, at("orders", 0)), 5)
		require.NoError(t, all(c, at("orders", 0), "b").Err)
		require.ErrorIs(t, c.Status("orders", 0).Copies[0].Err, errCorrupt)
		p, err := vfs.ReadFile(ds[0], state)
		require.NoError(t, err)
		require.Equal(t, "no state", string(p))
	})
}

// After a kill the leader's last segment is replaced by an older copy. The other replicas have
// more records.
func TestLongestReplicaInSyncLeadsWhenTheClusterOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 1)
		file := "data/broker-1/orders-0/00000000000000000000.log"
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		p, err := vfs.ReadFile(ds.kill()[0], file)
		require.NoError(t, err)
		for range 4 {
			require.NoError(t, all(c, at("orders", 0), "a").Err)
		}
		ds = ds.kill()
		require.NoError(t, vfs.WriteFile(ds[0], file, p))
		c = openWith(t, ds.config())
		require.NotEqualValues(t, 1, c.Leader("orders", 0))
		time.Sleep(time.Minute) // records are readable when the followers have fetched
		require.Len(t, values(t, c, at("orders", 0)), 5)
		require.Equal(t, map[int32]int64{1: 5, 2: 5, 3: 5}, c.Status("orders", 0).Ends)
	})
}

// An older copy of the metadata is refused. Otherwise directories of later topics would be strays.
func TestMetadataThatWentBackIsRefused(t *testing.T) {
	for name, end := range evidenceEnds {
		t.Run(name, func(t *testing.T) {
			ds := newDisks(1)
			c := openWith(t, ds.config())
			create(t, c, "old", 1)
			produce(t, c, at("old", 0), "a")
			require.NoError(t, c.Close())
			old := ds.kill()[0]
			c = openWith(t, ds.config())
			create(t, c, "orders", 1)
			produce(t, c, at("orders", 0), "b")
			disk := end(t, c, ds)[0]
			right := disk.Kill()
			dir := root + "/__cluster_metadata-0"
			swap := func(from *vfs.MemFS) {
				require.NoError(t, removeIn(disk, dir, func(string) bool { return true }))
				entries, err := from.ReadDir(dir)
				require.NoError(t, err)
				for _, e := range entries {
					p, err := vfs.ReadFile(from, filepath.Join(dir, e.Name()))
					require.NoError(t, err)
					require.NoError(t, vfs.WriteFile(disk, filepath.Join(dir, e.Name()), p))
				}
			}
			swap(old)
			for range 2 {
				_, err := Open(Config{FS: disk, Dir: "data"})
				requireDirectoryError(t, err, ErrMetadataWentBack, "newer copy")
			}
			swap(right)
			c = open(t, disk)
			require.Equal(t, []string{"b"}, values(t, c, at("orders", 0)))
			require.Equal(t, []string{"a"}, values(t, c, at("old", 0)))
			require.NoError(t, c.Close())
			swap(old)
			c = openWith(t, Config{FS: disk, Dir: "data", AcceptMetadataLoss: true})
			require.Equal(t, []string{"a"}, values(t, c, at("old", 0)))
		})
	}
}

// Directories moved to another disk, with symbolic links in their places, are served as before.
func TestDirectoriesBehindSymbolicLinksAreServed(t *testing.T) {
	for _, moved := range []string{"broker-1", "broker-1/orders-0", "broker-1/__cluster_metadata-0"} {
		t.Run(filepath.Base(moved), func(t *testing.T) {
			dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "moved")
			c := openWith(t, Config{Dir: dir})
			create(t, c, "orders", 1)
			produce(t, c, at("orders", 0), "a")
			require.NoError(t, c.Close())
			require.NoError(t, os.Rename(filepath.Join(dir, moved), elsewhere))
			require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, moved)))
			c = openWith(t, Config{Dir: dir})
			require.Equal(t, []string{"a"}, values(t, c, at("orders", 0)))
			produce(t, c, at("orders", 0), "b")
			require.NoError(t, c.Close())
			c = openWith(t, Config{Dir: dir})
			require.Equal(t, []string{"a", "b"}, values(t, c, at("orders", 0)))
			require.NoError(t, c.Close())
			if moved == "broker-1/orders-0" { // the other disk is not mounted
				require.NoError(t, os.Rename(elsewhere, elsewhere+"-away"))
				c = openWith(t, Config{Dir: dir})
				require.ErrorIs(t, c.Status("orders", 0).Err, fs.ErrNotExist)
				require.Error(t, tryProduce(c, at("orders", 0), "c").Err)
			}
		})
	}
}

// The high watermarks in the file of an earlier version are read, and the file is replaced.
func TestHighWatermarksOfAnEarlierVersionAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := onThreeOfFour(t)
		id := c.image.Topics["orders"].ID
		require.NoError(t, c.Close())
		require.NoError(t, ds[0].Remove("data/broker-1/"+evidenceFile))
		text := topic.ID(id).String() + " 0 5\n"
		require.NoError(t, vfs.WriteFile(ds[0], "data/broker-1/"+earlierEvidenceFile, earlierEvidence(text)))
		require.NoError(t, ds[0].RemoveAll("data/broker-1/orders-0"))
		c = openWith(t, ds.config())
		require.NotEqualValues(t, 1, c.Leader("orders", 0), "its directory was known")
		inSync(t, c, at("orders", 0), 3)
		require.NoError(t, c.Close())
		_, err := ds[0].Stat("data/broker-1/" + earlierEvidenceFile)
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

// earlierEvidence returns a file of an earlier version with this body.
func earlierEvidence(body string) []byte {
	return fmt.Appendf(nil, "%s1 xxhash64 %016x\n%s", metaMagic, xxhash.Sum64String(body), body)
}
