package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// metaBatches returns the batches of a broker's copy of the metadata.
func metaBatches(t *testing.T, fsys vfs.FS, broker int) []byte {
	t.Helper()
	dir := fmt.Sprintf("data/broker-%d/__cluster_metadata-0", broker)
	l, err := log.OpenReadOnly(dir, log.Config{FS: fsys})
	require.NoError(t, err)
	defer l.Close()
	var all []byte
	for next := l.StartOffset(); next < l.EndOffset(); {
		p, err := l.Read(nil, next, 1<<20)
		require.NoError(t, err)
		all = append(all, p...)
		for len(p) > 0 {
			b, n, err := record.Parse(p)
			require.NoError(t, err)
			next, p = b.LastOffset()+1, p[n:]
		}
	}
	return all
}

func TestEveryBrokerKeepsACopyOfTheMetadata(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 2)
	create(t, c, "orders", 4)
	require.NoError(t, c.AddPartitions(t.Context(), "orders", 6))
	require.NoError(t, c.Close())
	c = openBrokers(t, fsys, 3) // one joins
	require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
	create(t, c, "other", 3)
	require.NoError(t, c.Close())
	one := metaBatches(t, fsys, 1)
	require.NotEmpty(t, one)
	for id := 2; id <= 3; id++ {
		require.True(t, bytes.Equal(one, metaBatches(t, fsys, id)), "copy of broker %d", id)
	}
}

// One disk is lost, at any moment, with a power cut or a kill. The other disks have all metadata
// that was ever acknowledged.
func TestLossOfAnyDiskAtAnyMomentLosesNoMetadata(t *testing.T) {
	every := 13
	if sample.Hurried() {
		every = 90
	}
	all := runWorkload(t, Config{Brokers: 3}, "60000", sample.OneIn(t, every))
	metadata := func(c *Cluster) string {
		var s strings.Builder
		infos, err := c.Topics(t.Context())
		require.NoError(t, err)
		for _, info := range infos {
			fmt.Fprintf(&s, "%s/%d%v; ", info.Name, len(info.Partitions), info.Settings.Explicit())
		}
		return s.String()
	}
	known := map[string]string{"": ""} // state with records -> without
	c := openWith(t, Config{})
	for _, s := range workload {
		s.run(t, c)
		known[s.after] = metadata(c)
	}
	for i, x := range all {
		lost := i%3 + 1
		require.NoError(t, x.disk.RemoveAll(fmt.Sprint("data/broker-", lost)), x.where)
		c, err := Open(Config{FS: x.disk, Dir: "data", Brokers: 3})
		if strings.HasPrefix(x.where, "open") && errors.Is(err, ErrMissing) {
			continue // an incomplete cluster, in which nothing was acknowledged
		}
		require.NoError(t, err, "%s, without broker %d", x.where, lost)
		var allowed []string
		for _, a := range x.allowed {
			allowed = append(allowed, known[a])
		}
		require.Contains(t, allowed, metadata(c), "%s, without broker %d", x.where, lost)
		require.NoError(t, c.EnsureTopic(t.Context(), "next", topic.Config{}), x.where)
		require.NoError(t, c.Close(), x.where)
	}
	t.Logf("%d disks, one in %d", len(all), every)
}

// disks are the file systems of brokers 1, 2, ...
type disks []*vfs.MemFS

func newDisks(n int) (ds disks) {
	for range n {
		ds = append(ds, vfs.Mem())
	}
	return ds
}

func (ds disks) config() Config {
	cfg := Config{FS: ds[0], Dir: "data", Brokers: len(ds), BrokerSpecs: map[int32]BrokerSpec{}}
	for i, d := range ds {
		cfg.BrokerSpecs[int32(i+1)] = BrokerSpec{FS: d}
	}
	return cfg
}

func (ds disks) kill() (killed disks) {
	for _, d := range ds {
		killed = append(killed, d.Kill())
	}
	return killed
}

// fail makes every write to a broker's disk fail.
func (ds disks) fail(broker int) (mend func()) {
	return ds[broker-1].Inject(vfs.Fault{Ops: vfs.OpWrite, Times: vfs.Always, Err: errDisk})
}

func (ds disks) requireEqualCopies(t *testing.T) {
	t.Helper()
	for i := range ds {
		require.True(t, bytes.Equal(metaBatches(t, ds[0], 1), metaBatches(t, ds[i], i+1)), "copy of broker %d", i+1)
	}
}

func TestBrokerWhoseCopyFailsIsFencedAndTheChangeIsMade(t *testing.T) {
	for _, broken := range []int{1, 2, 3} { // 1 is the controller
		ds := newDisks(3)
		c, err := Open(ds.config())
		require.NoError(t, err)
		create(t, c, "orders", 3)
		for p := range int32(3) {
			produce(t, c, at("orders", p), "x")
		}
		epoch := c.Stats().ControllerEpoch
		mend := ds.fail(broken)
		require.NoError(t, c.CreateTopic(t.Context(), "new", topic.Config{Partitions: 3}))
		rest := slices.DeleteFunc([]int32{1, 2, 3}, func(id int32) bool { return int(id) == broken })
		require.Equal(t, rest, c.Brokers())
		require.Contains(t, rest, c.Controller())
		if broken == 1 {
			require.Equal(t, epoch+1, c.Stats().ControllerEpoch)
		}
		for p := range int32(3) {
			if int(p)+1 == broken {
				require.Equal(t, int32(-1), c.Leader("orders", p))
				require.ErrorIs(t, tryProduce(c, at("orders", p), "y").Err, ErrNotLeader)
				continue
			}
			produce(t, c, at("orders", p), "y")
		}
		require.NoError(t, c.AlterTopic(t.Context(), "new", properties("retention.ms", "1000")))
		_ = c.Close() // may return the broken disk's error
		mend()
		again, err := Open(ds.config())
		require.NoError(t, err)
		require.Equal(t, []int32{1, 2, 3}, again.Brokers())
		require.Equal(t, []string{"new", "orders"}, names(t, again))
		require.Equal(t, []int32{1, 2, 3}, leaders(t, again, "orders"))
		require.Equal(t, []string{"x"}, values(t, again, at("orders", int32(broken-1))))
		require.NoError(t, again.Close())
		ds.requireEqualCopies(t)
	}
}

// A disk breaks under load. All acknowledged records are there, the copies are equal, and no call
// hangs.
func TestBrokerIsFencedAmidTraffic(t *testing.T) {
	for round := range 10 {
		ds := newDisks(3)
		c, err := Open(ds.config())
		require.NoError(t, err)
		create(t, c, "orders", 6)
		acknowledged := make([]int, 6)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for p := range int32(6) {
			wg.Go(func() {
				for ctx.Err() == nil {
					if tryProduce(c, at("orders", p), "x").Err == nil {
						acknowledged[p]++
					}
				}
			})
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = c.Fetch(ctx, ask("orders", 6, partition.FetchRequest{MaxWait: time.Hour, MinBytes: 1 << 20}))
			}
		})
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if name := fmt.Sprint("t", i); c.CreateTopic(ctx, name, topic.Config{Partitions: 3}) == nil {
					_ = tryProduce(c, at(name, int32(i%3)), "x")
					_ = c.DeleteTopic(ctx, name)
				}
				c.Status("orders", int32(i%6))
			}
		})
		version, err := c.WaitMetadata(t.Context(), c.MetadataVersion())
		require.NoError(t, err)
		mend := ds.fail(round%3 + 1)
		for len(c.Brokers()) > 2 {
			version, err = c.WaitMetadata(t.Context(), version)
			require.NoError(t, err)
		}
		cancel()
		wg.Wait()
		_ = c.Close() // may return the broken disk's error
		mend()
		again, err := Open(ds.config())
		require.NoError(t, err)
		for p := range int32(6) {
			require.GreaterOrEqual(t, len(values(t, again, at("orders", p))), acknowledged[p])
		}
		require.NoError(t, again.Close())
		ds.requireEqualCopies(t)
	}
}

func TestChangeThatMostCopiesRefuseIsNotMade(t *testing.T) {
	ds := newDisks(3)
	c, err := Open(ds.config())
	require.NoError(t, err)
	version := c.MetadataVersion()
	for _, broken := range [][]int{{2, 3}, {1, 2}, {1, 2, 3}} {
		var mend []func()
		for _, id := range broken {
			mend = append(mend, ds.fail(id))
		}
		require.ErrorIs(t, c.CreateTopic(t.Context(), "orders", topic.Config{}), errDisk)
		require.Empty(t, names(t, c))
		require.Equal(t, version, c.MetadataVersion())
		require.Equal(t, []int32{1, 2, 3}, c.Brokers())
		for _, m := range mend {
			m()
		}
		killed, err := Open(ds.kill().config())
		require.NoError(t, err)
		require.Empty(t, names(t, killed), "nor after a kill")
		require.NoError(t, killed.Close())
	}
	create(t, c, "orders", 1)
	require.NoError(t, c.Close())
	ds.requireEqualCopies(t)
}

func TestMetadataOfAMinorityIsOnlyTakenIfAskedFor(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 3)
	create(t, c, "orders", 3)
	require.NoError(t, c.Close())
	left := fsys.Kill()
	for _, id := range []string{"1", "3"} {
		require.NoError(t, left.RemoveAll("data/broker-"+id))
	}
	_, err := Open(Config{FS: left, Dir: "data", Brokers: 3})
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "AcceptMetadataLoss")
	c, err = Open(Config{FS: left, Dir: "data", Brokers: 3, AcceptMetadataLoss: true})
	require.NoError(t, err)
	require.Equal(t, []string{"orders"}, names(t, c))
	require.Equal(t, []int32{2}, c.Brokers())
	create(t, c, "later", 1)
	require.NoError(t, c.Close())
	c = openBrokers(t, left, 0)
	require.Equal(t, []string{"later", "orders"}, names(t, c), "asked for once")
	require.NoError(t, c.Close())
}

// Two brokers that continued without the third have newer copies than it, even if it returns
// first.
func TestStaleCopyDoesNotCount(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 3)
	create(t, c, "old", 1)
	require.NoError(t, c.Close())
	require.NoError(t, fsys.Rename("data/broker-1", "away"))
	c = openBrokers(t, fsys, 3)
	require.Equal(t, []int32{2, 3}, c.Brokers())
	create(t, c, "new", 1)
	require.NoError(t, c.DeleteTopic(t.Context(), "new"))
	create(t, c, "newer", 1)
	require.NoError(t, c.Close())

	require.NoError(t, fsys.Rename("away", "data/broker-1"))
	alone := fsys.Kill()
	require.NoError(t, alone.RemoveAll("data/broker-2"))
	_, err := Open(Config{FS: alone, Dir: "data"})
	require.ErrorIs(t, err, ErrMissing, "broker 1 knows nothing, and broker 3 is half of those that do")
	c = openBrokers(t, fsys, 0)
	require.Equal(t, []int32{1, 2, 3}, c.Brokers())
	require.Equal(t, []string{"newer", "old"}, names(t, c))
	require.NoError(t, c.Close())
	require.Equal(t, metaBatches(t, fsys, 1), metaBatches(t, fsys, 3))
}

// A controller dies after it has written to its own copy only. The other copies' later changes
// replace that write.
func TestTailThatWasNotCommittedIsCut(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 3)
	create(t, c, "orders", 1)
	require.NoError(t, c.Close())
	l, err := log.Open("data/broker-1/__cluster_metadata-0", log.Config{FS: fsys})
	require.NoError(t, err)
	appendRecords(t, l, &metarecord.Topic{Name: "lost", ID: topic.NewID()})
	require.NoError(t, l.Close())
	require.NoError(t, fsys.Rename("data/broker-1", "away"))
	c = openBrokers(t, fsys, 3)
	create(t, c, "instead", 1)
	require.NoError(t, c.Close())
	require.NoError(t, fsys.Rename("away", "data/broker-1"))
	c = openBrokers(t, fsys, 3)
	require.Equal(t, []string{"instead", "orders"}, names(t, c))
	require.NoError(t, c.Close())
	require.Equal(t, metaBatches(t, fsys, 1), metaBatches(t, fsys, 2))
}

func TestBrokerThatCannotKeepTheMetadataDoesNotJoin(t *testing.T) {
	ds := newDisks(2)
	c, err := Open(ds[:1].config())
	require.NoError(t, err)
	create(t, c, "orders", 1)
	require.NoError(t, c.Close())
	mend := ds[1].Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Times: vfs.Always, Err: errDisk})
	c, err = Open(ds.config())
	require.NoError(t, err, "the other goes on without it")
	require.Equal(t, []int32{1}, c.Brokers())
	require.Equal(t, []string{"orders"}, names(t, c))
	require.ErrorIs(t, c.StartBroker(t.Context(), 2), errDisk)
	mend()
	require.NoError(t, c.StartBroker(t.Context(), 2))
	require.Equal(t, []int32{1, 2}, c.Brokers())
	require.NoError(t, c.Close())
	ds.requireEqualCopies(t)
}

// A disk that fails while the cluster opens, from any call on, takes down its broker and nothing
// else.
func TestBrokerWhoseDiskFailsAtOpenIsDown(t *testing.T) {
	origin := newDisks(3)
	c, err := Open(origin.config())
	require.NoError(t, err)
	placed(t, c, "orders", 1, 2, 3)
	for p := range int32(3) {
		produce(t, c, at("orders", p), "x")
	}
	require.NoError(t, c.Close())
	for _, broken := range []int{1, 2, 3} {
		for _, ops := range []vfs.Op{vfs.OpWrite | vfs.OpSync | vfs.OpCreate | vfs.OpRename | vfs.OpSyncDir, vfs.OpOpen | vfs.OpRead | vfs.OpReadDir | vfs.OpStat, vfs.OpReadDir} {
			down := 0
			for after := 0; ; after++ {
				ds := origin.kill()
				var reached atomic.Bool
				mend := ds[broken-1].Inject(vfs.Fault{Ops: ops, After: after, Times: vfs.Always, Err: errDisk})
				stop := ds[broken-1].Observe(vfs.Observer{After: func(_ vfs.Event, err error) { reached.CompareAndSwap(false, errors.Is(err, errDisk)) }})
				c, err := Open(ds.config())
				stop()
				what := fmt.Sprintf("broker %d, %v, call %d", broken, ops, after)
				if !reached.Load() {
					require.NoError(t, err)
					mend()
					require.NoError(t, c.Close())
					break
				}
				require.NoError(t, err, what)
				create(t, c, "new", 3) // the copy fails here at the latest
				if len(c.Brokers()) < 3 {
					down++
					require.Len(t, c.Brokers(), 2, what)
					require.Equal(t, int32(-1), c.Leader("orders", int32(broken-1)), what)
				}
				for p := range int32(3) {
					if int(p)+1 != broken {
						require.Equal(t, []string{"x"}, values(t, c, at("orders", p)), what)
					}
				}
				mend()
				if len(c.Brokers()) < 3 {
					var err error
					require.Eventually(t, func() bool { // it may be ending still
						err = c.StartBroker(t.Context(), int32(broken))
						return !isRunning(err)
					}, time.Minute, time.Millisecond, what)
					require.NoError(t, err, what)
					require.Equal(t, []string{"x"}, values(t, c, at("orders", int32(broken-1))), what)
				}
				_ = c.Close() // one of its files may have failed
				again, err := Open(ds.config())
				require.NoError(t, err, what)
				require.Equal(t, []string{"new", "orders"}, names(t, again), what)
				require.Equal(t, []int32{1, 2, 3}, again.Brokers(), what)
				require.NoError(t, again.Close())
				ds.requireEqualCopies(t)
			}
			require.Positive(t, down)
		}
	}
}

// A cluster that is being created needs all its disks.
func TestNewClusterNeedsAllItsDisks(t *testing.T) {
	ds := newDisks(3)
	mend := ds.fail(2)
	_, err := Open(ds.config())
	require.ErrorIs(t, err, errDisk)
	mend()
	c, err := Open(ds.config())
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2, 3}, c.Brokers())
	require.NoError(t, c.Close())
}
