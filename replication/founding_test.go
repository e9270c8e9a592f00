package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A new cluster is killed or loses power at any moment of its founding. The next open succeeds,
// and its acknowledged changes survive any power cut. This holds whichever syncs are slow.
func TestFoundingThatIsCutShortIsBegunAnew(t *testing.T) {
	for _, slow := range []string{"meta.properties.tmp", "broker-1", "data", "deep", "*.log", "strata.state.tmp", "__cluster_metadata-0"} {
		t.Run(slow, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { cutFoundingShort(t, slow) })
		})
	}
}

func cutFoundingShort(t *testing.T, slow string) {
	one := func(fsys vfs.FS) Config {
		return Config{Dir: "data", FS: fsys, BrokerSpecs: map[int32]BrokerSpec{1: {Dir: "deep/data/broker-1"}}}
	}
	fsys := vfs.Mem()
	require.NoError(t, vfs.MakeDir(fsys, "deep", 0o755))
	require.NoError(t, fsys.MkdirAll("deep/data", 0o755)) // not durably
	fsys.Inject(vfs.Fault{Ops: vfs.OpSync | vfs.OpSyncDir, Times: vfs.Always, Pattern: slow, Delay: time.Second})
	every := 2
	if sample.Hurried() {
		every = 6
	}
	x := observe(fsys, sample.OneIn(t, every))
	c, err := Open(one(fsys))
	require.NoError(t, err)
	partitions := 1
	if slow == "data" {
		partitions = 500 // more than is written before the founding ends
	}
	require.NoError(t, c.CreateTopic(t.Context(), "first", topic.Config{Partitions: partitions}))
	x.begin("acknowledged", c.clusterID)
	require.NoError(t, c.CreateTopic(t.Context(), "second", topic.Config{}))
	require.NoError(t, c.Close())
	require.Greater(t, len(x.taken()), 100/every)
	for i, cut := range x.taken() {
		cfg := one(cut.disk)
		if _, err := cut.disk.Stat("deep/data/broker-1/" + metaPropertiesFile); err != nil && i%2 == 0 {
			cfg.Brokers = 2 // creates its directories as usual
		}
		c, err := Open(cfg)
		require.NoError(t, err, cut.where)
		acknowledged := cut.allowed[0] != ""
		if acknowledged {
			_, err := c.Topic(t.Context(), "first")
			require.NoError(t, err, cut.where)
			require.Equal(t, cut.allowed[0], c.clusterID, cut.where)
		}
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}), cut.where)
		id := c.clusterID
		for _, o := range crashModes {
			o.Seed = uint64(i)
			cfg.FS = cut.disk.CrashWith(o)
			again, err := Open(cfg)
			require.NoError(t, err, cut.where)
			_, err = again.Topic(t.Context(), "orders")
			require.NoError(t, err, cut.where)
			if acknowledged {
				_, err = again.Topic(t.Context(), "first")
				require.NoError(t, err, cut.where)
			}
			require.Equal(t, id, again.clusterID, cut.where)
			require.NoError(t, again.Close(), cut.where)
		}
		require.NoError(t, c.Close(), cut.where)
	}
}

// A killed process leaves identities, and no power cut may remove them once data was written under
// them. All brokers serve afterwards, also after a power cut during their next open.
func TestIdentitiesOutliveAKillAndThenAPowerCut(t *testing.T) {
	for brokers, every := range map[int]int{1: 8, 3: 40} {
		if sample.Hurried() {
			every *= 6
		}
		t.Run(fmt.Sprint(brokers), func(t *testing.T) {
			t.Parallel()
			killed, look := killedFoundings(t, brokers), sample.OneIn(t, every)
			require.NotEmpty(t, killed)
			for _, cut := range killed {
				x := observe(cut.disk, look)
				x.brokers = brokers
				x.begin(cut.where + ", then open")
				openedWhole(t, cut.disk, brokers, cut.where)
				x.begin(x.step+", at its end", "orders")
				x.take("the end", 1)
				for _, again := range x.taken() {
					openedWhole(t, again.disk, brokers, again.where, again.allowed...)
				}
			}
		})
	}
}

// killedFoundings returns a disk for every change of the file system in the founding of a cluster.
// Each is the disk as killed just before the change.
func killedFoundings(t *testing.T, brokers int) (killed []cut) {
	fsys := vfs.Mem()
	x := observe(fsys, func(i int) bool { return i%5 == 4 }) // kills
	c, err := Open(Config{Dir: "data", FS: fsys, Brokers: brokers})
	require.NoError(t, err)
	awaitFounding(c)
	killed = x.taken()
	require.NoError(t, c.Close())
	return killed
}

// openedWhole opens the cluster and requires that all brokers serve and the topics exist. It
// creates the topic "orders".
func openedWhole(t *testing.T, fsys vfs.FS, brokers int, where string, topics ...string) {
	t.Helper()
	c, err := Open(Config{Dir: "data", FS: fsys, Brokers: brokers})
	require.NoError(t, err, where)
	for id := range int32(brokers) {
		require.NotNil(t, c.nodes[id+1], "%s: broker %d", where, id+1)
	}
	for _, name := range topics {
		_, err := c.Topic(t.Context(), name)
		require.NoError(t, err, where)
	}
	require.NoError(t, c.EnsureTopic(t.Context(), "orders", topic.Config{}), where)
	require.NoError(t, c.Close(), where)
}

// awaitFounding waits for the end of the founding if a change has begun to end it. Otherwise it
// waits only for a change under way.
func awaitFounding(c *Cluster) {
	c.changing <- struct{}{}
	<-c.changing
}

// Data of a new cluster that a caller has received is durable.
func TestFoundedClusterSurvivesAPowerCut(t *testing.T) {
	for _, around := range []string{"", "data", root} { // exists before, not durably
		fsys := vfs.Mem()
		if around != "" {
			require.NoError(t, fsys.MkdirAll(around, 0o755))
		}
		c, err := Open(Config{Dir: "data", FS: fsys})
		require.NoError(t, err)
		given, _, err := c.InitProducerID(t.Context())
		require.NoError(t, err)
		for _, o := range crashModes {
			disk := fsys.CrashWith(o)
			again, err := Open(Config{Dir: "data", FS: disk})
			require.NoError(t, err)
			require.Equal(t, c.clusterID, again.clusterID)
			id, _, err := again.InitProducerID(t.Context())
			require.NoError(t, err)
			require.Greater(t, id, given, "no id is given twice")
			require.NoError(t, again.Close())
		}
		require.NoError(t, c.Close())
	}
}

// Checklist row L4: a new cluster waits for the disk twice before its first topic is acknowledged,
// however many syncs that takes. Open does not wait at all.
func TestFoundingWaitsForTheDiskInFewTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Faulty(vfs.Mem())
		fsys.Inject(vfs.Fault{Ops: vfs.OpSync | vfs.OpSyncDir, Times: vfs.Always, Delay: time.Second})
		begin := time.Now()
		took := func() time.Duration {
			defer func() { begin = time.Now() }()
			return time.Since(begin)
		}
		require.NoError(t, fsys.MkdirAll("data", 0o755))
		c, err := Open(Config{Dir: "data", FS: fsys, SessionTimeout: time.Hour})
		require.NoError(t, err)
		require.Zero(t, took())
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
		require.Equal(t, 2*time.Second, took(), "what meta.properties says; its name, beside the metadata")
		_, _, err = c.InitProducerID(t.Context())
		require.NoError(t, err)
		require.Zero(t, took(), "the ids came with the first change")
		awaitFounding(c)
		require.Equal(t, 2*time.Second, took(), "what the state of the metadata says; its name")
		require.NoError(t, c.CreateTopic(t.Context(), "payments", topic.Config{}))
		require.Equal(t, time.Second, took(), "the change")
		require.NoError(t, c.Close())
	})
}

// Metadata that was changed after the founding is never founded again, whatever else is lost of
// the directory.
func TestMetadataWithoutIdentityAreNotTakenForAFoundingThatWasCutShort(t *testing.T) {
	const meta = root + "/__cluster_metadata-0/"
	for what, spoil := range map[string]func(t *testing.T, fsys *vfs.MemFS){
		"state":         func(*testing.T, *vfs.MemFS) {},
		"second change": func(t *testing.T, fsys *vfs.MemFS) { require.NoError(t, fsys.Remove(meta+"strata.state")) },
		"third change":  func(t *testing.T, fsys *vfs.MemFS) { require.NoError(t, fsys.Remove(meta+"strata.state")) },
		"much behind a damaged one": func(t *testing.T, fsys *vfs.MemFS) {
			require.NoError(t, fsys.Remove(meta+"strata.state"))
			p, err := vfs.ReadFile(fsys, meta+"00000000000000000000.log")
			require.NoError(t, err)
			p[record.HeaderSize] ^= 1
			require.NoError(t, vfs.WriteFile(fsys, meta+"00000000000000000000.log", p))
		},
	} {
		t.Run(what, func(t *testing.T) {
			fsys := vfs.Mem()
			c := open(t, fsys)
			switch what {
			case "state":
				create(t, c, "orders", 1)
				awaitFounding(c)
			case "third change":
				create(t, c, "orders", 1)
				create(t, c, "payments", 1)
			default:
				create(t, c, "orders", 500)
			}
			disk := fsys.Kill()
			require.NoError(t, c.Close())
			require.NoError(t, disk.Remove(root+"/meta.properties"))
			spoil(t, disk)
			changes := disk.Count(vfs.OpChange)
			_, err := Open(Config{FS: disk, Dir: "data"})
			requireDirectoryError(t, err, ErrDamaged, "backup")
			require.Equal(t, changes, disk.Count(vfs.OpChange), "nothing was changed")
		})
	}
}

// A cluster that could not be founded is founded when the disk works again.
func TestFoundingWhoseDiskFailsIsTriedAgain(t *testing.T) {
	for n := 0; ; n++ {
		mem := vfs.Mem()
		fsys := vfs.Faulty(mem)
		errDisk := errors.New("the disk fails")
		fault := fsys.Inject(vfs.Fault{Ops: vfs.OpChange | vfs.OpSync | vfs.OpSyncDir, After: n, Err: errDisk})
		c, err := Open(Config{Dir: "data", FS: fsys})
		acknowledged := false
		if err == nil {
			err = c.CreateTopic(t.Context(), "orders", topic.Config{})
			acknowledged = err == nil
			err = errors.Join(err, c.Close())
		}
		fault()
		if err == nil {
			require.Greater(t, n, 15)
			return
		}
		require.ErrorIs(t, err, errDisk, n)
		c, err = Open(Config{Dir: "data", FS: fsys})
		require.NoError(t, err, n)
		if acknowledged {
			_, err = c.Topic(t.Context(), "orders")
		} else if err = c.CreateTopic(t.Context(), "orders", topic.Config{}); errors.Is(err, ErrTopicExists) {
			err = nil // the failed change may have been made
		}
		require.NoError(t, err, n)
		disk := mem.Crash(uint64(n))
		require.NoError(t, c.Close(), n)
		again, err := Open(Config{Dir: "data", FS: disk})
		require.NoError(t, err, n)
		_, err = again.Topic(t.Context(), "orders")
		require.NoError(t, err, n)
		require.NoError(t, again.Close(), n)
	}
}

// A founding that was cut short starts again with the number of brokers of the next open. That
// open may be cut short too.
func TestFoundingThatIsCutShortIsBegunAnewWithMoreBrokers(t *testing.T) {
	for _, steps := range [][]int{{2, 3}, {2, 5}, {3, 5}, {3, 0, 3}, {3, 2, 4}, {2, 3, 5}} {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			t.Parallel()
			left := []cut{{disk: vfs.Mem(), where: "new"}}
			last := len(steps) - 1
			for i, brokers := range steps[:last] {
				before := left
				every, look := 3, 60
				if sample.Hurried() {
					every, look = 12, 300
				}
				if i > 0 {
					every = look
				}
				left = nil
				chosen, n := sample.OneIn(t, every), -1
				for _, l := range before {
					// The count covers all opens, because a single open has fewer calls.
					x := observe(l.disk, func(int) bool { n++; return chosen(n) })
					x.begin(fmt.Sprintf("%s; %d brokers", l.where, brokers))
					c, err := Open(Config{Dir: "data", FS: l.disk, Brokers: brokers})
					require.NoError(t, err, l.where)
					taken := x.taken() // no change was acknowledged so far
					require.NoError(t, c.Close())
					left = append(left, taken...)
				}
				require.NotEmpty(t, left)
			}
			for _, l := range left {
				openedWhole(t, l.disk, steps[last], l.where)
			}
		})
	}
}

// A broker that was being added has an identity, and an empty copy of the metadata or none. If the
// brokers with the metadata are missing, this is not a new cluster.
func TestBrokerThatWasBeingAddedIsNotTakenForANewCluster(t *testing.T) {
	for _, id := range []int32{1, 4} {
		fsys := vfs.Mem()
		c := openBrokers(t, fsys, 3)
		create(t, c, "orders", 1)
		if id == 1 { // its disk is lost
			require.NoError(t, c.KillBroker(1))
			require.NoError(t, c.RemoveLostBroker(t.Context(), 1))
			require.NoError(t, fsys.RemoveAll(root))
			require.NoError(t, fsys.SyncDir(filepath.Dir(root))) // no power cut restores it
		}
		own := fmt.Sprintf("data/broker-%d", id)
		x := observe(fsys, func(i int) bool { return true })
		_, err := c.AddBroker(t.Context(), id, BrokerSpec{})
		require.NoError(t, err)
		taken := x.taken()
		require.NoError(t, c.Close())
		known := 0
		for _, cut := range taken {
			if _, err := cut.disk.Stat(own + "/" + metaPropertiesFile); err != nil {
				continue
			}
			known++
			for other := range int32(4) {
				if other+1 != id {
					require.NoError(t, cut.disk.RemoveAll(fmt.Sprintf("data/broker-%d", other+1)))
				}
			}
			for _, brokers := range []int{0, int(id), 4} {
				_, err := Open(Config{Dir: "data", FS: cut.disk.Kill(), Brokers: brokers})
				require.ErrorIs(t, err, ErrMissing, "broker %d, %s", id, cut.where)
			}
		}
		require.Greater(t, known, 10)
	}
}

// One call of a disk fails while a cluster is founded. Open returns the error or succeeds without
// the call. The next open has the cluster with all its brokers.
func TestFoundingOutlivesAnyCallThatFailsOnce(t *testing.T) {
	const metalogDir = root + "/" + topic.MetadataTopic + "-0"
	for brokers := 1; brokers <= 3; brokers++ {
		for n, tried := 0, true; tried; n++ {
			fsys := vfs.Mem()
			var hit atomic.Pointer[vfs.Event]
			forget := fsys.Observe(vfs.Observer{After: func(e vfs.Event, err error) {
				if errors.Is(err, errDisk) {
					hit.CompareAndSwap(nil, &e)
				}
			}})
			cfg := Config{Dir: "data", FS: fsys, Brokers: brokers}
			mend := fsys.Inject(vfs.Fault{Ops: vfs.OpAny, After: n, Err: errDisk})
			c, err := Open(cfg)
			if e := hit.Load(); e != nil && e.Op == vfs.OpStat && e.Name == metalogDir {
				require.ErrorIs(t, err, errDisk, "nobody knows whether there is a copy of the metadata")
			}
			if err == nil {
				err = c.Close()
			}
			mend()
			forget()
			where := fmt.Sprintf("%d brokers, call %d: %v", brokers, n, hit.Load())
			if tried = hit.Load() != nil; err != nil {
				require.ErrorIs(t, err, errDisk, where)
			}
			require.True(t, tried || n > 50, where)
			openedWhole(t, fsys, brokers, where)
		}
	}
}

// Two operations fail while a cluster is founded and closed. When the disk works again, the
// cluster is founded with all its brokers.
func TestFoundingThatFailsAtTwoPlacesIsBegunAnew(t *testing.T) {
	for brokers := 1; brokers <= 3; brokers++ {
		for first := range 20 + 20*brokers {
			for between := 0; between < 20; between += brokers {
				fsys := vfs.Mem()
				cfg := Config{Dir: "data", FS: fsys, Brokers: brokers}
				failing := vfs.Fault{Ops: vfs.OpChange | vfs.OpSync | vfs.OpSyncDir, Err: errDisk, After: first}
				mendFirst := fsys.Inject(failing)
				failing.After += between
				mendSecond := fsys.Inject(failing)
				c, err := Open(cfg)
				if err == nil {
					_ = c.Close() // the disk fails
				}
				mendFirst()
				mendSecond()
				openedWhole(t, fsys, brokers, fmt.Sprintf("%d brokers, operation %d and %d behind it", brokers, first, between))
			}
		}
	}
}

// Open does not wait for the founding. If the founding fails, all calls that depend on it fail.
func TestFoundingThatFailsFailsWhoeverWaitsForIt(t *testing.T) {
	for _, pattern := range []string{"meta.properties.tmp", "one", "*.log", "__cluster_metadata-0"} {
		for what, call := range map[string]func(c *Cluster) error{
			"create":      func(c *Cluster) error { return c.CreateTopic(t.Context(), "orders", topic.Config{}) },
			"producer id": func(c *Cluster) error { _, _, err := c.InitProducerID(t.Context()); return err },
			"backup":      func(c *Cluster) error { return c.Backup(t.Context(), "copy") },
			"nothing": func(c *Cluster) error {
				return c.change(t.Context(), func(*image.Image) ([]metarecord.Record, error) { return nil, nil })
			},
			"large": func(c *Cluster) error { return c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 500}) },
			"add":   func(c *Cluster) error { _, err := c.AddBroker(t.Context(), 2, BrokerSpec{}); return err },
		} {
			t.Run(pattern+"/"+what, func(t *testing.T) {
				fsys := vfs.Faulty(vfs.Mem())
				errDisk := errors.New("the disk fails")
				mend := fsys.Inject(vfs.Fault{Ops: vfs.OpSync | vfs.OpSyncDir, Pattern: pattern, Times: vfs.Always, Err: errDisk})
				cfg := Config{Dir: "data", FS: fsys, BrokerSpecs: map[int32]BrokerSpec{1: {Dir: "data/one"}}}
				c, err := Open(cfg)
				require.NoError(t, err)
				require.ErrorIs(t, call(c), errDisk)
				mend()
				require.ErrorIs(t, c.CreateTopic(t.Context(), "payments", topic.Config{}), errDisk)
				require.ErrorIs(t, c.Close(), errDisk)
				c, err = Open(cfg)
				require.NoError(t, err)
				require.NoError(t, c.CreateTopic(t.Context(), "payments", topic.Config{}))
				require.NoError(t, c.Close())
			})
		}
	}
}

// A new cluster without changes is on stable storage after foundAfter.
func TestFoundingEndsWithoutAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		c, err := Open(Config{Dir: "data", FS: fsys})
		require.NoError(t, err)
		time.Sleep(foundAfter)
		synctest.Wait()
		left := fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
		_, err = left.Stat(root + "/__cluster_metadata-0/strata.state")
		require.NoError(t, err)
		again, err := Open(Config{Dir: "data", FS: left})
		require.NoError(t, err)
		require.Equal(t, c.clusterID, again.clusterID)
		require.NoError(t, again.Close())
		require.NoError(t, c.Close())
	})
}

// A cluster that was closed without a change is on stable storage.
func TestNewClusterThatIsClosedAtOnceIsFounded(t *testing.T) {
	fsys := vfs.Mem()
	c, err := Open(Config{Dir: "data", FS: fsys})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	again := open(t, fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}))
	require.Equal(t, c.clusterID, again.clusterID)
}

// A first topic is acknowledged before the state of the metadata is written. If the state cannot
// be written, the metadata is opened again with the next change.
func TestStateThatANewClusterCannotWriteIsWrittenLater(t *testing.T) {
	fsys := vfs.Mem()
	errDisk := errors.New("the disk fails")
	fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "strata.state.tmp", Times: 1, Err: errDisk})
	c := open(t, fsys)
	create(t, c, "orders", 1)
	create(t, c, "payments", 1)
	again := open(t, fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}))
	require.Equal(t, []string{"orders", "payments"}, names(t, again))
}

// A cluster is founded between two looks of another open at the directory. That open returns
// ErrLocked, and does not report the directory as foreign.
func TestOpenBesideAFoundingSaysThatTheDirectoryIsInUse(t *testing.T) {
	for look := int64(1); ; look++ {
		disk := vfs.Mem()
		var first *Cluster // opened in this goroutine, at one look of the second open
		var looks atomic.Int64
		stop := disk.Observe(vfs.Observer{After: func(e vfs.Event, err error) {
			missing := filepath.Base(e.Name) == metaPropertiesFile && errors.Is(err, fs.ErrNotExist)
			if !missing || looks.Add(1) != look {
				return
			}
			if first, err = Open(Config{FS: disk, Dir: "data"}); err == nil {
				require.NoError(t, first.CreateTopic(t.Context(), "orders", topic.Config{}))
			}
			require.True(t, err == nil || errors.Is(err, ErrLocked), err)
		}})
		second, err := Open(Config{FS: disk, Dir: "data"})
		stop()
		if first == nil { // the second open was first
			require.NoError(t, err)
			require.NoError(t, second.Close())
			require.Greater(t, look, int64(1))
			return
		}
		require.ErrorIs(t, err, ErrLocked, "at look %d", look)
		require.NoError(t, first.Close())
	}
}
