package replication

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// neverSynced are the settings of a topic whose records are never synced.
var neverSynced = properties("flush.messages", "9223372036854775807")

func isRunning(err error) bool { return errors.Is(err, ErrBrokerRunning) }

func TestKilledBrokerLosesWhatWasNotSyncedAndNothingElse(t *testing.T) {
	fsys := vfs.Mem() // one file system, three directories
	c := openWith(t, Config{FS: fsys, Dir: "data", Brokers: 3})
	require.NoError(t, c.CreateTopic(t.Context(), "synced", topic.Config{Assignment: [][]int32{{1}, {2}, {3}}}))
	require.NoError(t, c.CreateTopic(t.Context(), "loose", topic.Config{Assignment: [][]int32{{1}, {2}, {3}}, Properties: neverSynced}))
	for p := range int32(3) {
		produce(t, c, at("synced", p), "a", "b")
		produce(t, c, at("loose", p), "a", "b")
	}
	require.NoError(t, c.KillBroker(2))
	require.Equal(t, []int32{1, 3}, c.Brokers())
	require.Equal(t, []int32{1, -1, 3}, leaders(t, c, "synced"))
	require.ErrorIs(t, tryProduce(c, at("synced", 1), "c").Err, ErrNotLeader)
	for _, p := range []int32{0, 2} {
		require.Equal(t, []string{"a", "b"}, values(t, c, at("synced", p)), "another broker")
		require.Equal(t, []string{"a", "b"}, values(t, c, at("loose", p)), "another broker")
		produce(t, c, at("loose", p), "c")
	}
	require.NoError(t, c.StartBroker(t.Context(), 2))
	require.Equal(t, []string{"a", "b"}, values(t, c, at("synced", 1)))
	require.Empty(t, values(t, c, at("loose", 1)), "the power was cut")
	require.Equal(t, int32(2), produce(t, c, at("synced", 1), "c").LeaderEpoch)
	require.NoError(t, c.Close())
	c = openWith(t, Config{FS: fsys, Dir: "data", Brokers: 3})
	require.Equal(t, []string{"a", "b", "c"}, values(t, c, at("synced", 1)))
}

func TestKilledBrokerOnTheOperatingSystemsFilesIsLikeAKilledProcess(t *testing.T) {
	c := openWith(t, Config{Dir: t.TempDir(), Brokers: 2})
	require.NoError(t, c.CreateTopic(t.Context(), "loose", topic.Config{Assignment: [][]int32{{2}}, Properties: neverSynced}))
	produce(t, c, at("loose", 0), "a", "b")
	for range 3 {
		require.NoError(t, c.KillBroker(2))
		require.NoError(t, c.StartBroker(t.Context(), 2))
	}
	require.Equal(t, []string{"a", "b"}, values(t, c, at("loose", 0)), "what was written is there")
}

// begin starts an append and returns its result on a channel.
func begin(c *Cluster, tp tp, values ...string) <-chan partition.ProduceResult {
	results := make(chan partition.ProduceResult, 2)
	c.Produce(&partition.ProduceRequest{TopicPartition: tp, Batch: batch(values...), Done: func(r partition.ProduceResult) { results <- r }})
	return results
}

// An append that waits for its sync when the broker is killed ends at once. Its error reports that
// the batch may be in the log, and it is never acknowledged.
func TestAppendUnderWayIsNotAcknowledgedAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(2)
		c := openWith(t, ds.config())
		placed(t, c, "orders", 2, 2)
		produce(t, c, at("orders", 0), "a")
		mend := ds[1].Inject(vfs.Fault{Ops: vfs.OpSync | vfs.OpSyncDir, Times: vfs.Always, Delay: time.Hour})
		under, first := begin(c, at("orders", 0), "b"), begin(c, at("orders", 1), "first of all")
		synctest.Wait()
		queued := begin(c, at("orders", 0), "c")
		start := time.Now()
		require.NoError(t, c.KillBroker(2))
		require.Zero(t, time.Since(start))
		res := <-under
		require.ErrorIs(t, res.Err, partition.ErrNotLeaderAfterAppend)
		require.NotErrorIs(t, res.Err, ErrNotLeader)
		for _, results := range []<-chan partition.ProduceResult{queued, first} {
			err := (<-results).Err
			require.True(t, errors.Is(err, ErrNotLeader) || errors.Is(err, partition.ErrNotLeaderAfterAppend), "%v", err)
		}
		mend()
		time.Sleep(2 * time.Hour)
		require.Empty(t, under, "told once")
		require.NoError(t, c.StartBroker(t.Context(), 2))
		vs := values(t, c, at("orders", 0))
		require.Equal(t, "a", vs[0])
		require.NotContains(t, vs, "c", "its turn never came")
		produce(t, c, at("orders", 1), "x")
	})
}

// A system call on a real disk cannot be cancelled. The next incarnation waits for it, and the
// call acknowledges nothing.
func TestNextIncarnationWaitsForTheLastCallOfTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Faulty(vfs.OS())
		c := openWith(t, Config{Dir: t.TempDir(), Brokers: 2, BrokerSpecs: map[int32]BrokerSpec{2: {FS: disk, Dir: t.TempDir()}}})
		placed(t, c, "orders", 2)
		produce(t, c, at("orders", 0), "a")
		reached, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		unobserve := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
			if e.Op == vfs.OpSync {
				once.Do(func() { close(reached); <-release })
			}
		}})
		under := begin(c, at("orders", 0), "b")
		<-reached
		killed, started := make(chan error, 1), make(chan error, 1)
		go func() { killed <- c.KillBroker(2) }()
		synctest.Wait()
		require.Equal(t, []int32{1}, c.Brokers(), "the others know")
		require.Empty(t, killed)
		go func() { started <- c.StartBroker(t.Context(), 2) }()
		require.ErrorIs(t, <-started, ErrBrokerRunning)
		close(release)
		require.NoError(t, <-killed)
		require.ErrorIs(t, (<-under).Err, partition.ErrNotLeaderAfterAppend)
		unobserve()
		require.NoError(t, c.StartBroker(t.Context(), 2))
		require.Equal(t, []string{"a", "b"}, values(t, c, at("orders", 0)), "it was written")
	})
}

// A controller is killed in the middle of a change. Its successor completes the change.
func TestControllerIsKilledInTheMiddleOfAChange(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpSync} {
		synctest.Test(t, func(t *testing.T) {
			ds := newDisks(3)
			c := openWith(t, ds.config())
			placed(t, c, "orders", 1, 2, 3)
			epoch := c.Stats().ControllerEpoch
			ds[0].Inject(vfs.Fault{Ops: op, Pattern: "*.log", Delay: time.Hour})
			created := make(chan error, 1)
			go func() { created <- c.CreateTopic(t.Context(), "new", topic.Config{Partitions: 3}) }()
			synctest.Wait()
			require.Empty(t, created, "not durable on all copies")
			require.Empty(t, c.image.Topics["new"])
			start := time.Now()
			require.NoError(t, c.KillBroker(1))
			require.NoError(t, <-created)
			require.Zero(t, time.Since(start))
			require.Equal(t, int32(2), c.Controller())
			require.Equal(t, epoch+1, c.Stats().ControllerEpoch)
			require.Equal(t, []int32{-1, 2, 3}, leaders(t, c, "orders"))
			create(t, c, "later", 1)
			require.NoError(t, c.StartBroker(t.Context(), 1))
			require.Equal(t, []string{"later", "new", "orders"}, names(t, c))
			require.Equal(t, []int32{1, 2, 3}, leaders(t, c, "orders"))
			require.NoError(t, c.Close())
			ds.requireEqualCopies(t)
		})
	}
}

// Brokers can be killed one right after the other, except the last one.
func TestBrokersAreKilledAllAtOnce(t *testing.T) {
	ds := newDisks(5)
	c := openWith(t, ds.config())
	placed(t, c, "orders", 1, 2, 3, 4, 5)
	for p := range int32(5) {
		produce(t, c, at("orders", p), "x")
	}
	errs := make([]error, 5)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() { errs[i] = c.KillBroker(int32(i + 1)) })
	}
	wg.Wait()
	refused := 0
	for _, err := range errs {
		if err != nil {
			require.ErrorIs(t, err, ErrLastBroker)
			refused++
		}
	}
	require.Equal(t, 1, refused)
	require.Len(t, c.Brokers(), 1)
	create(t, c, "alone", 1)
	for i := range 5 {
		if errs[i] == nil {
			wg.Go(func() { errs[i] = c.StartBroker(t.Context(), int32(i+1)) })
		} else {
			errs[i] = nil
		}
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	for p := range int32(5) {
		require.Equal(t, []string{"x"}, values(t, c, at("orders", p)))
	}
	require.NoError(t, c.Close())
	ds.requireEqualCopies(t)
}

// A broker that hangs while it starts or stops can be killed.
func TestBrokerThatHangsIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(2)
		c := openWith(t, ds.config())
		placed(t, c, "orders", 2)
		produce(t, c, at("orders", 0), "x")
		hang := func() func() {
			return ds[1].Inject(vfs.Fault{Ops: vfs.OpChange | vfs.OpOpen, Times: vfs.Always, Delay: time.Hour, Pattern: "[0-9s]*"})
		}
		mend := hang()
		stopped := make(chan error, 1)
		go func() { stopped <- c.StopBroker(t.Context(), 2) }()
		synctest.Wait()
		require.Empty(t, stopped)
		start := time.Now()
		require.NoError(t, c.KillBroker(2))
		<-stopped // perhaps with an error, because the broker was not closed in order
		started := make(chan error, 1)
		go func() { started <- c.StartBroker(t.Context(), 2) }()
		synctest.Wait()
		require.Empty(t, started)
		require.NoError(t, c.KillBroker(2))
		require.ErrorIs(t, <-started, ErrBrokerDown)
		require.Zero(t, time.Since(start))
		mend()
		require.NoError(t, c.StartBroker(t.Context(), 2))
		require.Equal(t, []string{"x"}, values(t, c, at("orders", 0)))
	})
}

// A broker is killed during a snapshot of several batches. The other copies discard the incomplete
// snapshot. The broker's copy has a part of it, and diverges from the others there.
func TestBrokerIsKilledInTheMiddleOfASnapshot(t *testing.T) {
	for _, killed := range []int32{1, 3} {
		for _, op := range []vfs.Op{vfs.OpSync, vfs.OpWrite} {
			for n := range 12 {
				synctest.Test(t, func(t *testing.T) {
					ds := newDisks(3)
					cfg := ds.config()
					cfg.metaPart, cfg.metaSlack = 200, -1
					c := openWith(t, cfg)
					placed(t, c, "orders", 1, 2, 3)
					create(t, c, "other", 12)
					ds[killed-1].Inject(vfs.Fault{Ops: op, Pattern: "*.log", After: n, Delay: time.Hour})
					done := make(chan error, 1)
					go func() { done <- c.CreateTopic(t.Context(), "new", topic.Config{}) }()
					synctest.Wait()
					require.NoError(t, c.KillBroker(killed))
					require.NoError(t, <-done)
					create(t, c, "later", 1)
					require.Equal(t, []string{"later", "new", "orders", "other"}, names(t, c))
					require.NoError(t, c.StartBroker(t.Context(), killed))
					create(t, c, "latest", 1)
					require.NoError(t, c.Close())
					ds.requireEqualCopies(t)
					cfg = ds.config()
					again := openWith(t, cfg)
					require.Equal(t, []string{"later", "latest", "new", "orders", "other"}, names(t, again))
				})
			}
		}
	}
}

// The disks of the other brokers fail when the killed broker should lose its partitions, so it
// still leads them. Its next start begins a new leader epoch, because it may have lost records of
// the old one.
func TestBrokerNeverGoesOnInTheEpochThatItWasKilledIn(t *testing.T) {
	ds := newDisks(3)
	c := openWith(t, ds.config())
	require.NoError(t, c.CreateTopic(t.Context(), "loose", topic.Config{Assignment: [][]int32{{3}}, Properties: neverSynced}))
	lost := produce(t, c, at("loose", 0), "lost")
	for _, d := range ds[:2] { // the first write fences the broker, the second changes the leaders
		d.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", After: 1, Err: errDisk})
	}
	require.ErrorIs(t, c.KillBroker(3), errDisk)
	require.Equal(t, []int32{1, 2}, c.Brokers())
	require.Equal(t, int32(3), c.Leader("loose", 0), "it could not be written")
	require.ErrorIs(t, tryProduce(c, at("loose", 0), "x").Err, ErrNotLeader)
	require.NoError(t, c.StartBroker(t.Context(), 3))
	require.Empty(t, values(t, c, at("loose", 0)))
	require.Greater(t, produce(t, c, at("loose", 0), "other").LeaderEpoch, lost.LeaderEpoch)
}
