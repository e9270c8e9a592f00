package replication

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A faultyCluster has brokers on disks of their own, and records the outcomes of calls.
type faultyCluster struct {
	*Cluster
	t     *testing.T
	ds    disks
	where string // of the scenario

	made, refused []string // topics: certainly created, and certainly not; the others may exist
	partitions    int      // of "orders", at least
	wanted        int      // at most
	finals        int      // calls that ended with ErrMetadataReadOnly
}

// newFaultyCluster opens a faultyCluster of three brokers.
func newFaultyCluster(t *testing.T, where string) *faultyCluster {
	ds := newDisks(3)
	return openFaultyCluster(t, where, ds, ds.config())
}

func openFaultyCluster(t *testing.T, where string, ds disks, cfg Config) *faultyCluster {
	c, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	f := &faultyCluster{Cluster: c, t: t, ds: ds, where: where, made: []string{"orders"}, partitions: len(ds), wanted: len(ds)}
	placed(t, c, "orders", c.Brokers()...)
	for p := range ds {
		produce(t, c, at("orders", int32(p)), "x")
	}
	return f
}

// note counts ErrMetadataReadOnly, and requires that it includes the disk's error.
func (f *faultyCluster) note(err error) {
	if errors.Is(err, ErrMetadataReadOnly) {
		f.finals++
		require.ErrorIs(f.t, err, errDisk, f.where)
	}
}

// try creates a topic, and records the outcome.
func (f *faultyCluster) try(name string) {
	err := f.CreateTopic(f.t.Context(), name, topic.Config{Partitions: 2})
	switch f.note(err); {
	case err == nil:
		f.made = append(f.made, name)
	case !errors.Is(err, ErrMetadataReadOnly):
		f.refused = append(f.refused, name)
	}
}

// grow adds a partition to "orders", and records the outcome.
func (f *faultyCluster) grow() {
	n := f.wanted + 1
	err := f.AddPartitions(f.t.Context(), "orders", n)
	switch f.note(err); {
	case err == nil:
		f.partitions, f.wanted = n, n
	case errors.Is(err, ErrMetadataReadOnly):
		f.wanted = n
	}
}

// requireWhole requires, with working disks, that the metadata can be changed and every broker
// started. No acknowledged change is lost and no refused change is there, also after the next
// open. All copies are equal.
func (f *faultyCluster) requireWhole() {
	t, where := f.t, f.where
	t.Helper()
	require.NoError(t, f.CreateTopic(t.Context(), "after", topic.Config{Partitions: 3}), where)
	f.made = append(f.made, "after")
	synctest.Wait() // brokers fenced by that change end
	for i := range f.ds {
		if err := f.StartBroker(t.Context(), int32(i+1)); !errors.Is(err, ErrBrokerRunning) {
			require.NoError(t, err, "%s: start broker %d", where, i+1)
		}
	}
	require.Len(t, f.Brokers(), len(f.ds), where)
	f.try("later")
	require.Contains(t, f.made, "later", where)
	f.requireState(f.Cluster)
	_ = f.Close() // one of the files may have failed
	f.ds.requireEqualCopies(t)
	again, err := Open(f.ds.config())
	require.NoError(t, err, where)
	f.requireState(again)
	f.requireRecords(again)
	require.NoError(t, again.Close(), where)
	f.ds.requireEqualCopies(t)
}

func (f *faultyCluster) requireState(c *Cluster) {
	t := f.t
	t.Helper()
	there := names(t, c)
	for _, name := range f.made {
		require.Contains(t, there, name, f.where)
	}
	for _, name := range f.refused {
		require.NotContains(t, there, name, f.where)
	}
	led := leaders(t, c, "orders")
	require.GreaterOrEqual(t, len(led), f.partitions, f.where)
	require.LessOrEqual(t, len(led), f.wanted, f.where)
	require.NotContains(t, led, int32(-1), f.where)
}

// requireRecords requires that partitions have the acknowledged records, and accept more.
func (f *faultyCluster) requireRecords(c *Cluster) {
	t, led := f.t, leaders(f.t, c, "orders")
	t.Helper()
	for p := range f.ds {
		require.Equal(t, []string{"x"}, values(t, c, at("orders", int32(p)))[:1], f.where)
	}
	for p, id := range led {
		res := tryProduce(c, at("orders", int32(p)), "y")
		require.NoError(t, res.Err, "%s: partition %d of broker %d", f.where, p, id)
	}
}

// Another disk fails while the controller ends, once or permanently, from any of its calls on. The
// metadata can be changed when the disk works again, at the latest.
func TestMetadataCanBeChangedAfterTheControllerWentBesideAFailingDisk(t *testing.T) {
	for _, kill := range []bool{true, false} {
		for bad := 2; bad <= 3; bad++ {
			for _, times := range []int{1, vfs.Always} {
				finals := 0
				reached := failedOnce{}
				reached.at.Store(true)
				for after := 0; reached.at.Load(); after++ {
					where := fmt.Sprintf("kill %v, disk %d, call %d, %d times", kill, bad, after, times)
					synctest.Test(t, func(t *testing.T) {
						f := newFaultyCluster(t, where)
						reached.at.Store(false)
						disk := f.ds[bad-1]
						mend := disk.Inject(vfs.Fault{Ops: vfs.OpChange, After: after, Times: times, Err: errDisk})
						disk.Observe(reached.observer())
						err := f.end(t, 1, kill)
						f.note(err)
						synctest.Wait() // fenced brokers end
						f.try("during")
						if times == 1 {
							require.NoError(t, err, where)
							require.Contains(t, f.made, "during", where)
						}
						require.Equal(t, []string{"x"}, values(t, f.Cluster, at("orders", int32(4-bad)))[:1], "%s: reads go on", where)
						produce(t, f.Cluster, at("orders", int32(4-bad)), "z")
						mend()
						f.requireWhole()
						finals += f.finals
					})
				}
				t.Logf("kill %v, disk %d, %d times: %d calls found too few copies", kill, bad, times, finals)
			}
		}
	}
}

// A broker other than the controller ends while the metadata changes and one disk fails once.
func TestMetadataCanBeChangedAfterABrokerWentBesideAChangeAndAFailingDisk(t *testing.T) {
	seeds := 300
	if sample.Hurried() {
		seeds = 60
	}
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 20))
			f := newFaultyCluster(t, fmt.Sprintf("seed %d", seed))
			bad, gone := r.IntN(3), int32(2+r.IntN(2))
			mend := f.ds[bad].Inject(vfs.Fault{Ops: vfs.OpChange, After: r.IntN(30), Times: 1, Err: errDisk})
			var wg sync.WaitGroup
			wg.Go(func() {
				for range 3 {
					f.grow()
				}
			})
			var ended error
			wg.Go(func() { ended = f.end(t, gone, r.IntN(2) == 0) })
			wg.Wait()
			f.note(ended)
			synctest.Wait()
			mend()
			// The metadata may have been down to two copies when this broker ended. Then it has to
			// return.
			if f.grow(); f.wanted > f.partitions {
				if err := f.StartBroker(t.Context(), gone); !errors.Is(err, ErrBrokerRunning) {
					require.NoError(t, err, f.where)
				}
			}
			f.requireWhole()
		})
	}
}

// A broker starts, and a disk fails in the change that registers it, once or permanently.
func TestMetadataCanBeChangedAfterAStartBesideAFailingDisk(t *testing.T) {
	for bad := 1; bad <= 3; bad++ {
		for _, times := range []int{1, vfs.Always} {
			failed := 0
			reached := failedOnce{}
			reached.at.Store(true)
			for after := 0; reached.at.Load(); after++ {
				where := fmt.Sprintf("disk %d, call %d, %d times", bad, after, times)
				synctest.Test(t, func(t *testing.T) {
					f := newFaultyCluster(t, where)
					require.NoError(t, f.KillBroker(3))
					disk := f.ds[bad-1]
					reached.at.Store(false)
					mend := disk.Inject(vfs.Fault{Ops: vfs.OpChange, After: after, Times: times, Err: errDisk})
					disk.Observe(reached.observer())
					err := f.StartBroker(t.Context(), 3)
					f.note(err)
					if err != nil {
						failed++
						require.ErrorIs(t, err, errDisk, where)
						require.NotContains(t, err.Error(), "map[", where)
						require.True(t, bad == 3 || times == vfs.Always, "%s: another disk failed once: %v", where, err)
					}
					synctest.Wait()
					mend()
					f.requireWhole()
				})
			}
			t.Logf("disk %d, %d times: %d starts failed", bad, times, failed)
		}
	}
}

// Brokers end and start at random, the metadata changes, and disks fail once or for a while.
func TestMetadataCanBeChangedAfterAnyFaults(t *testing.T) {
	seeds := 300
	if sample.Hurried() {
		seeds = 60
	}
	if os.Getenv("STRATA_LONG") != "" {
		seeds = 20_000
	}
	finals := 0
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) { finals += faultsAtRandom(t, seed) })
	}
	t.Logf("%d calls found too few copies", finals)
	require.Positive(t, finals)
}

func faultsAtRandom(t *testing.T, seed uint64) (finals int) {
	r := rand.New(rand.NewPCG(seed, 21))
	ds := newDisks(2 + r.IntN(4))
	cfg := ds.config()
	if r.IntN(3) == 0 { // changes of several batches, snapshots of several batches
		cfg.metaPart = 100
	}
	if r.IntN(3) == 0 {
		cfg.metaSlack = -1
	}
	f := openFaultyCluster(t, fmt.Sprintf("seed %d", seed), ds, cfg)
	var mends []func()
	for step := range 12 {
		if r.IntN(2) == 0 {
			fault := vfs.Fault{Ops: vfs.OpChange, After: r.IntN(20), Times: 1 + r.IntN(3), Err: errDisk}
			switch r.IntN(6) {
			case 0:
				fault.Times = vfs.Always
			case 1:
				fault.Ops = vfs.OpAny
			case 2:
				fault.Ops = vfs.OpSync
			case 3:
				fault.Ops, fault.Keep = vfs.OpWrite, 1+r.IntN(40)
			}
			mends = append(mends, ds[r.IntN(len(ds))].Inject(fault))
		}
		id := int32(1 + r.IntN(len(ds)))
		switch r.IntN(6) {
		case 0, 1: // not while changes fail: the next majority would lack it
			if f.meta.Failure() == nil {
				f.note(f.end(t, id, r.IntN(2) == 0))
			}
		case 2, 3:
			f.note(f.StartBroker(t.Context(), id))
		case 4:
			f.grow()
		default:
			f.try(fmt.Sprint("t", step))
		}
		synctest.Wait()
		if len(mends) > 0 && r.IntN(3) == 0 {
			i := r.IntN(len(mends))
			mends[i]()
			mends = slices.Delete(mends, i, i+1)
		}
	}
	for _, mend := range mends {
		mend()
	}
	f.comeBack()
	f.requireWhole()
	return f.finals
}

// A disk fails permanently while another broker ends, and too few copies are left. The broker that
// returns makes a majority, and its partitions are led in another epoch.
func TestBrokerThatComesBackMakesTheMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultyCluster(t, "a majority by a start")
		require.NoError(t, f.CreateTopic(t.Context(), "loose", topic.Config{Assignment: [][]int32{{1}}, Properties: neverSynced}))
		produce(t, f.Cluster, at("loose", 0), "lost")
		mend := f.ds.fail(2)
		err := f.KillBroker(1)
		require.ErrorIs(t, err, ErrMetadataReadOnly)
		require.ErrorIs(t, err, errDisk)
		require.ErrorContains(t, err, "broker 2", "whose disk it is")
		err = f.CreateTopic(t.Context(), "refused", topic.Config{})
		require.ErrorIs(t, err, ErrMetadataReadOnly)
		require.ErrorIs(t, err, errDisk)
		f.refused = append(f.refused, "refused")
		require.Equal(t, int32(1), f.Leader("orders", 0), "nobody could say that it does not")
		require.ErrorIs(t, tryProduce(f.Cluster, at("orders", 0), "y").Err, ErrNotLeader)
		produce(t, f.Cluster, at("orders", 2), "z")

		require.NoError(t, f.StartBroker(t.Context(), 1))
		synctest.Wait()
		require.Equal(t, []int32{1, 3}, f.Brokers(), "the disk of broker 2 fails still")
		require.Equal(t, []int32{1, -1, 3}, leaders(t, f.Cluster, "orders"))
		require.Equal(t, int32(1), f.Status("orders", 0).LeaderEpoch)
		require.Equal(t, int32(1), produce(t, f.Cluster, at("loose", 0), "x").LeaderEpoch, "it had lost a record")
		require.Equal(t, int32(0), f.Status("orders", 2).LeaderEpoch, "it went on")
		f.try("made")
		require.Contains(t, f.made, "made")
		mend()
		f.requireWhole()
	})
}

// A stop is taken back, and this cannot be written either. The next change writes it.
func TestBrokerWhoseStopCouldNotBeTakenBackServesOn(t *testing.T) {
	again := 0
	for after := range 12 {
		synctest.Test(t, func(t *testing.T) {
			ds := newDisks(2)
			where := fmt.Sprintf("call %d", after)
			f := openFaultyCluster(t, where, ds, ds.config())
			mend := ds.fail(2)
			mendOwn := ds[0].Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", After: after, Times: vfs.Always, Err: errDisk})
			require.Error(t, f.StopBroker(t.Context(), 1), where)
			synctest.Wait()
			mendOwn()
			if f.meta.Failure() != nil { // a majority needs both
				mend()
				f.requireWhole()
				return
			}
			if f.isLeaving(1) {
				again++
			}
			create(t, f.Cluster, "new", 2) // fences the other broker, if it was not fenced before
			require.Equal(t, []int32{1, -1}, leaders(t, f.Cluster, "orders"), where)
			create(t, f.Cluster, "newer", 2)
			require.Equal(t, []int32{1, 1}, leaders(t, f.Cluster, "newer"), "%s: it is not about to leave", where)
			produce(t, f.Cluster, at("orders", 0), "y")
			f.made = append(f.made, "new", "newer")
			mend()
			f.requireWhole()
		})
	}
	require.Positive(t, again)
}

// A change whose outcome was unknown to its caller is in force if it is on the newest copy.
func TestUncertainChangeThatTurnsOutMadeIsInForce(t *testing.T) {
	for _, snapshots := range []int64{0, -1} {
		fsys := vfs.Mem()
		cfg := Config{FS: fsys, Dir: "data", metaSlack: snapshots}
		c, err := Open(cfg)
		require.NoError(t, err)
		placed(t, c, "gone", 1)
		produce(t, c, at("gone", 0), "x")
		for what, change := range map[string]func() error{
			"create": func() error { return c.CreateTopic(t.Context(), "new", topic.Config{}) },
			"delete": func() error { return c.DeleteTopic(t.Context(), "gone") },
		} {
			c.changing <- struct{}{} // the snapshot after a change has ended
			version := c.MetadataVersion()
			<-c.changing
			mend := fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: 1, Err: errDisk})
			require.ErrorIs(t, change(), ErrMetadataReadOnly, what)
			mend()
			require.Equal(t, version, c.MetadataVersion(), "nobody knows yet")
			require.NoError(t, c.EnsureTopic(t.Context(), "later"+what, topic.Config{}), what)
			require.Greater(t, c.MetadataVersion(), version)
		}
		require.ElementsMatch(t, []string{"latercreate", "laterdelete", "new"}, names(t, c))
		require.NotContains(t, servedDirs(t, fsys), "gone-0", "its directory is gone too")
		_ = c.Close() // a file has failed
		again, err := Open(cfg)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"latercreate", "laterdelete", "new"}, names(t, again))
		require.NoError(t, again.Close())
	}
}

// A committed change is never taken back, whatever the copies contain.
func TestCopiesThatLackWhatWasCommittedAreNotTaken(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	create(t, c, "payments", 1) // ends the founding
	mend := fsys.Inject(vfs.Fault{Ops: vfs.OpChange, Pattern: "*.log", Times: vfs.Always, Err: errDisk})
	require.ErrorIs(t, c.CreateTopic(t.Context(), "lost", topic.Config{}), errDisk)
	mend()
	c.changing <- struct{}{}
	c.image.Version += 10 // as if the copies had lost so much since
	<-c.changing
	for range 2 {
		err := c.CreateTopic(t.Context(), "new", topic.Config{})
		require.ErrorIs(t, err, ErrMetadataReadOnly)
		require.ErrorContains(t, err, "were committed")
		require.ErrorIs(t, err, errDisk)
	}
	require.Equal(t, []string{"orders", "payments"}, names(t, c))
}

// comeBack starts all brokers, because nothing can be changed without a majority.
func (f *faultyCluster) comeBack() {
	for i := range f.ds {
		_ = f.StartBroker(f.t.Context(), int32(i+1))
	}
}

// failedOnce reports whether a call has failed with errDisk. Calls may be concurrent.
type failedOnce struct{ at atomic.Bool }

func (f *failedOnce) observer() vfs.Observer {
	return vfs.Observer{After: func(_ vfs.Event, err error) {
		if errors.Is(err, errDisk) {
			f.at.Store(true)
		}
	}}
}
