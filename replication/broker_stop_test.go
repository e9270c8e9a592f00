package replication

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// written returns the records of the metadata from a version on.
func written(t *testing.T, c *Cluster, from int64) (recs []metarecord.Record) {
	t.Helper()
	for b, err := range c.meta.Own().Batches(from) {
		require.NoError(t, err)
		for r, err := range b.All() {
			require.NoError(t, err)
			rec, err := metarecord.Parse(r.Value)
			require.NoError(t, err)
			recs = append(recs, rec)
		}
	}
	return recs
}

// placed creates a topic with as many partitions on each broker in turn.
func placed(t *testing.T, c *Cluster, name string, brokers ...int32) {
	t.Helper()
	var cfg topic.Config
	for _, id := range brokers {
		cfg.Assignment = append(cfg.Assignment, []int32{id})
	}
	require.NoError(t, c.CreateTopic(t.Context(), name, cfg))
}

func TestStoppedBrokersPartitionsHaveNoLeaderUntilItIsStarted(t *testing.T) {
	ds := newDisks(3)
	c := openWith(t, ds.config())
	placed(t, c, "orders", 1, 2, 3)
	placed(t, c, "gone", 2)
	for p := range int32(3) {
		produce(t, c, at("orders", p), "x")
	}
	produce(t, c, at("gone", 0), "x")
	version, epoch := c.MetadataVersion(), c.image.Members[2].Epoch
	require.NoError(t, c.StopBroker(t.Context(), 2))

	// Kafka's order of the records.
	recs := written(t, c, version)
	require.Equal(t, []metarecord.Record{
		&metarecord.BrokerChange{BrokerID: 2, BrokerEpoch: epoch, InControlledShutdown: metarecord.Set},
		&metarecord.PartitionChange{TopicID: c.image.Topics["gone"].ID, Leader: -1, Recovery: -1,
			ISR: []int32{}, EligibleLeaders: []int32{2}, LastKnownLeader: []int32{2}},
		&metarecord.PartitionChange{Partition: 1, TopicID: c.image.Topics["orders"].ID, Leader: -1, Recovery: -1,
			ISR: []int32{}, EligibleLeaders: []int32{2}, LastKnownLeader: []int32{2}},
		&metarecord.BrokerChange{BrokerID: 2, BrokerEpoch: epoch, Fenced: metarecord.Set},
		&metarecord.NoOp{}, // shows to copies that the change of the set was committed
	}, recs)
	require.Equal(t, []int32{1, 3}, c.Brokers())
	require.Equal(t, []int32{1, 2, 3}, c.Members())
	require.Equal(t, []int32{1, -1, 3}, leaders(t, c, "orders"))
	s := c.Status("orders", 1)
	require.Empty(t, s.ISR, "the last one is eligible, as in Kafka since 4.1")
	require.Equal(t, int32(1), s.LeaderEpoch)
	require.ErrorIs(t, s.Err, ErrNotLeader)
	require.ErrorIs(t, tryProduce(c, at("orders", 1), "y").Err, ErrNotLeader)
	resp, err := c.Fetch(t.Context(), ask("orders", 3, partition.FetchRequest{MaxWait: time.Hour}))
	require.NoError(t, err)
	require.ErrorIs(t, resp.Partitions[1].Err, ErrNotLeader)
	require.NoError(t, resp.Partitions[0].Err)
	produce(t, c, at("orders", 0), "y")
	require.NoError(t, c.DeleteTopic(t.Context(), "gone"))
	create(t, c, "later", 4)
	require.NotContains(t, leaders(t, c, "later"), int32(2))
	require.ErrorIs(t, c.CreateTopic(t.Context(), "z", topic.Config{Assignment: [][]int32{{2}}}), ErrInvalidAssignment)
	require.NoError(t, c.AlterTopic(t.Context(), "orders", properties("retention.ms", "60000")))
	lock, err := ds[1].Lock("data/broker-2/.lock")
	require.NoError(t, err, "nothing has the directory")
	require.ErrorIs(t, c.StartBroker(t.Context(), 2), ErrLocked)
	require.NoError(t, lock.Close())
	require.ErrorIs(t, c.StopBroker(t.Context(), 2), ErrBrokerDown)
	require.ErrorIs(t, c.KillBroker(2), ErrBrokerDown)

	require.NoError(t, c.StartBroker(t.Context(), 2))
	require.ErrorIs(t, c.StartBroker(t.Context(), 2), ErrBrokerRunning)
	require.Equal(t, []int32{1, 2, 3}, leaders(t, c, "orders"))
	require.Greater(t, c.image.Members[2].Epoch, epoch, "another incarnation")
	require.False(t, c.image.Members[2].Leaving)
	require.Equal(t, int32(2), c.Status("orders", 1).LeaderEpoch)
	require.Equal(t, []string{"x"}, values(t, c, at("orders", 1)))
	require.Equal(t, int32(2), produce(t, c, at("orders", 1), "y").LeaderEpoch)
	require.NotContains(t, servedDirs(t, ds[1]), "gone-0")
	placed(t, c, "new", 2)
	produce(t, c, at("new", 0), "x")
	require.NoError(t, c.Close())
	ds.requireEqualCopies(t)
	again := openWith(t, ds.config())
	require.Equal(t, []string{"x", "y"}, values(t, again, at("orders", 1)))
}

// Appends that a broker accepted before its stop are acknowledged. Fetches and new appends do not
// wait for them.
func TestStopEndsTheAppendsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(2)
		c := openWith(t, ds.config())
		placed(t, c, "orders", 2)
		produce(t, c, at("orders", 0), "a")
		ds[1].Inject(vfs.Fault{Ops: vfs.OpSync, Delay: time.Minute})
		results := make(chan partition.ProduceResult, 1)
		c.Produce(&partition.ProduceRequest{TopicPartition: at("orders", 0), Batch: batch("b"), Done: func(r partition.ProduceResult) { results <- r }})
		waited := make(chan error, 1)
		go func() {
			resp, err := c.Fetch(t.Context(), &partition.FetchRequest{MaxWait: time.Hour, Partitions: []partition.FetchPartition{
				{TopicPartition: at("orders", 0), Offset: 1, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1},
			}})
			require.NoError(t, err)
			waited <- resp.Partitions[0].Err
		}()
		synctest.Wait()
		start, stopped := time.Now(), make(chan error, 1)
		go func() { stopped <- c.StopBroker(t.Context(), 2) }()
		require.ErrorIs(t, <-waited, ErrNotLeader)
		require.ErrorIs(t, tryProduce(c, at("orders", 0), "c").Err, ErrNotLeader)
		require.Zero(t, time.Since(start))
		require.NoError(t, <-stopped)
		require.NoError(t, (<-results).Err)
		require.NoError(t, c.StartBroker(t.Context(), 2))
		require.Equal(t, []string{"a", "b"}, values(t, c, at("orders", 0)))
	})
}

// A fetch that waits for records of a broker returns at once when the broker ends, in any way.
func TestWaitsForABrokerThatEndsEndWithIt(t *testing.T) {
	for how, end := range map[string]func(*testing.T, *Cluster, disks) error{
		"stopped": func(t *testing.T, c *Cluster, _ disks) error { return c.StopBroker(t.Context(), 2) },
		"killed":  func(_ *testing.T, c *Cluster, _ disks) error { return c.KillBroker(2) },
		"fenced": func(t *testing.T, c *Cluster, ds disks) error {
			defer ds.fail(2)()
			return c.CreateTopic(t.Context(), "t", topic.Config{})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ds := newDisks(3)
			c := openWith(t, ds.config())
			placed(t, c, "orders", 2, 2, 3)
			produce(t, c, at("orders", 0), "a")
			fetched := make(chan *partition.FetchResponse, 2)
			for p := range int32(2) { // one with records, one never written
				go func() {
					resp, err := c.Fetch(t.Context(), &partition.FetchRequest{MaxWait: time.Hour, Partitions: []partition.FetchPartition{
						{TopicPartition: at("orders", 2), CurrentLeaderEpoch: -1, LastFetchedEpoch: -1},
						{TopicPartition: at("orders", p), Offset: int64(1 - p), CurrentLeaderEpoch: -1, LastFetchedEpoch: -1},
					}})
					require.NoError(t, err)
					fetched <- resp
				}()
			}
			synctest.Wait()
			start := time.Now()
			require.NoError(t, end(t, c, ds), how)
			for range 2 {
				resp := <-fetched
				require.NoError(t, resp.Partitions[0].Err, how)
				require.ErrorIs(t, resp.Partitions[1].Err, ErrNotLeader, how)
			}
			require.Zero(t, time.Since(start), how)
		})
	}
}

func TestControllerCanBeStopped(t *testing.T) {
	ds := newDisks(3)
	c := openWith(t, ds.config())
	require.Equal(t, int32(1), c.Controller())
	epoch := c.Stats().ControllerEpoch
	require.NoError(t, c.StopBroker(t.Context(), 1))
	require.Equal(t, int32(2), c.Controller())
	require.Equal(t, epoch+1, c.Stats().ControllerEpoch)
	create(t, c, "orders", 4)
	id, _, err := c.InitProducerID(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.StartBroker(t.Context(), 1))
	require.Equal(t, int32(2), c.Controller(), "the role does not come back by itself")
	require.NoError(t, c.StopBroker(t.Context(), 2))
	require.NoError(t, c.StopBroker(t.Context(), 3))
	require.Equal(t, int32(1), c.Controller())
	require.Equal(t, []string{"orders"}, names(t, c))
	next, _, err := c.InitProducerID(t.Context())
	require.NoError(t, err)
	require.Greater(t, next, id)
	require.NoError(t, c.StartBroker(t.Context(), 3))
	require.NoError(t, c.StartBroker(t.Context(), 2))
	require.NoError(t, c.Close())
	ds.requireEqualCopies(t)
}

func TestLastBrokerThatServesCannotBeEnded(t *testing.T) {
	c := openWith(t, Config{Brokers: 2})
	require.NoError(t, c.StopBroker(t.Context(), 1))
	version := c.MetadataVersion()
	require.ErrorIs(t, c.StopBroker(t.Context(), 2), ErrLastBroker)
	require.ErrorIs(t, c.KillBroker(2), ErrLastBroker)
	require.Equal(t, version, c.MetadataVersion())
	placed(t, c, "orders", 2)
	produce(t, c, at("orders", 0), "x")
	require.NoError(t, c.StartBroker(t.Context(), 1))
	for what, err := range map[string]error{
		"stop": c.StopBroker(t.Context(), 7), "kill": c.KillBroker(7), "start": c.StartBroker(t.Context(), 7), "zero": c.KillBroker(0),
	} {
		require.ErrorIs(t, err, ErrUnknownBroker, what)
	}
}

// A broker does not start on a directory that is not its own, and nothing in it is changed.
func TestBrokerIsNotStartedOnAnotherDirectory(t *testing.T) {
	for what, tc := range map[string]struct {
		change func(*testing.T, *vfs.MemFS)
		want   error
	}{
		"empty": {func(t *testing.T, d *vfs.MemFS) {
			require.NoError(t, d.RemoveAll("data/broker-2"))
			require.NoError(t, d.MkdirAll("data/broker-2", 0o755))
		}, ErrDiskReplaced},
		"missing": {func(t *testing.T, d *vfs.MemFS) { require.NoError(t, d.Rename("data/broker-2", "data/x")) }, ErrDiskReplaced},
		"of another time": {func(t *testing.T, d *vfs.MemFS) {
			secondDirectory(t, "data/broker-2", "data/x")(d)
			require.NoError(t, d.Rename("data/broker-2", "data/y"))
			require.NoError(t, d.Rename("data/x", "data/broker-2"))
		}, ErrForeign},
		"of another cluster": {func(t *testing.T, d *vfs.MemFS) {
			p, err := vfs.ReadFile(d, "data/broker-2/"+metaPropertiesFile)
			require.NoError(t, err)
			m, err := decodeMeta(p)
			require.NoError(t, err)
			m.clusterID = "another"
			require.NoError(t, vfs.WriteFile(d, "data/broker-2/"+metaPropertiesFile, m.encode()))
		}, ErrMixed},
		"of others": {func(t *testing.T, d *vfs.MemFS) { require.NoError(t, d.Remove("data/broker-2/"+metaPropertiesFile)) }, ErrDamaged},
	} {
		ds := newDisks(3)
		c := openWith(t, ds.config())
		placed(t, c, "orders", 2)
		produce(t, c, at("orders", 0), "x")
		require.NoError(t, c.StopBroker(t.Context(), 2))
		good := ds[1].Kill()
		tc.change(t, ds[1])
		version := c.MetadataVersion()
		err := c.StartBroker(t.Context(), 2)
		require.ErrorIs(t, err, tc.want, what)
		var dir *DirectoryError
		require.ErrorAs(t, err, &dir, what)
		require.Equal(t, version, c.MetadataVersion(), what)
		require.NoError(t, ds[1].RemoveAll("data"))
		copyAll(t, good, ds[1], "data")
		require.NoError(t, c.StartBroker(t.Context(), 2), what)
		require.Equal(t, []string{"x"}, values(t, c, at("orders", 0)), what)
	}
}

// copyAll copies the contents of a directory to another file system.
func copyAll(t *testing.T, from, to *vfs.MemFS, dir string) {
	t.Helper()
	entries, err := from.ReadDir(dir)
	require.NoError(t, err)
	require.NoError(t, to.MkdirAll(dir, 0o755))
	for _, e := range entries {
		name := dir + "/" + e.Name()
		if e.IsDir() {
			copyAll(t, from, to, name)
			continue
		}
		p, err := vfs.ReadFile(from, name)
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFile(to, name, p))
	}
}

// A broker whose disk failed can be started when the disk works again.
func TestFencedBrokerCanBeStarted(t *testing.T) {
	ds := newDisks(3)
	c := openWith(t, ds.config())
	placed(t, c, "orders", 2)
	produce(t, c, at("orders", 0), "x")
	mend := ds.fail(2)
	create(t, c, "new", 1)
	require.Equal(t, []int32{1, 3}, c.Brokers())
	var err error
	for err = c.StartBroker(t.Context(), 2); err != nil; err = c.StartBroker(t.Context(), 2) {
		require.NotErrorIs(t, err, ErrUnknownBroker)
		if mend != nil && !isRunning(err) { // the broker was down, and its disk still fails
			mend()
			mend = nil
		}
	}
	require.Equal(t, []int32{1, 2, 3}, c.Brokers())
	require.Equal(t, []string{"x"}, values(t, c, at("orders", 0)))
	require.NoError(t, c.Close())
	ds.requireEqualCopies(t)
}

// Changes of the metadata while a broker loads apply to it.
func TestBrokerThatStartsKnowsWhatChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(2)
		c := openWith(t, ds.config())
		placed(t, c, "orders", 2)
		placed(t, c, "gone", 2)
		produce(t, c, at("orders", 0), "x")
		produce(t, c, at("gone", 0), "x")
		require.NoError(t, c.KillBroker(2))
		ds[1].Inject(vfs.Fault{Ops: vfs.OpOpen, Pattern: "*.log", Delay: time.Hour})
		started := make(chan error, 1)
		go func() { started <- c.StartBroker(t.Context(), 2) }()
		synctest.Wait() // the broker loads
		again := c.StartBroker(t.Context(), 2)
		require.ErrorIs(t, again, ErrBrokerRunning)
		require.ErrorContains(t, again, "is starting")
		require.ErrorIs(t, c.StopBroker(t.Context(), 2), ErrBrokerRunning)
		require.NoError(t, c.DeleteTopic(t.Context(), "gone"))
		require.NoError(t, c.AlterTopic(t.Context(), "orders", properties("max.message.bytes", "100")))
		placed(t, c, "gone", 1)
		require.ErrorIs(t, tryProduce(c, at("orders", 0), "y").Err, ErrNotLeader)
		require.NoError(t, <-started)
		require.ErrorIs(t, tryProduce(c, at("orders", 0), fmt.Sprintf("%100d", 1)).Err, partition.ErrRecordTooLarge)
		require.Equal(t, []string{"x"}, values(t, c, at("orders", 0)))
		require.NotContains(t, servedDirs(t, ds[1]), "gone-0")
		require.Len(t, c.nodes[2].all(), 1)
		require.Empty(t, values(t, c, at("gone", 0)))
	})
}
