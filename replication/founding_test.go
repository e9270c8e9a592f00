package replication

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Whatever moment of its founding a new cluster is killed at, or the power fails, the next open has
// a cluster, and what that one acknowledges outlives any power cut. It is so whatever the disk takes
// longest for.
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
	require.NoError(t, c.Close())
	require.Greater(t, len(x.taken()), 100/every)
	for i, cut := range x.taken() {
		cfg := one(cut.disk)
		if _, err := cut.disk.Stat("deep/data/broker-1/" + metaPropertiesFile); err != nil && i%2 == 0 {
			cfg.Brokers = 2 // makes its directories as ever
		}
		c, err := Open(cfg)
		require.NoError(t, err, cut.where)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}), cut.where)
		id := c.clusterID
		for _, o := range crashModes {
			o.Seed = uint64(i)
			cfg.FS = cut.disk.CrashWith(o)
			again, err := Open(cfg)
			require.NoError(t, err, cut.where)
			_, err = again.Topic(t.Context(), "orders")
			require.NoError(t, err, cut.where)
			require.Equal(t, id, again.clusterID, cut.where)
			require.NoError(t, again.Close(), cut.where)
		}
		require.NoError(t, c.Close(), cut.where)
	}
}

// What Open has founded is durable when it returns.
func TestFoundedClusterSurvivesAPowerCut(t *testing.T) {
	for _, around := range []string{"", "data", root} { // what was there before, not durably
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

// Checklist row L4: a new cluster waits for the disk three times, and once more for a topic,
// however many syncs that takes.
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
		require.Equal(t, 3*time.Second, took(), "what meta.properties says; its name and the metadata; the name of their state")
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
		require.Equal(t, time.Second, took(), "the change")
		require.NoError(t, c.Close())
	})
}

// Metadata that were changed after the founding are somebody's, whatever else is lost of the
// directory.
func TestMetadataWithoutIdentityAreNotTakenForAFoundingThatWasCutShort(t *testing.T) {
	const meta = root + "/__cluster_metadata-0/"
	for what, spoil := range map[string]func(t *testing.T, fsys *vfs.MemFS){
		"state":         func(*testing.T, *vfs.MemFS) {},
		"second change": func(t *testing.T, fsys *vfs.MemFS) { require.NoError(t, fsys.Remove(meta+"strata.state")) },
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
			if what != "state" {
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

// A cluster that could not be founded is founded when the disk is well again.
func TestFoundingWhoseDiskFailsIsTriedAgain(t *testing.T) {
	for n := 0; ; n++ {
		mem := vfs.Mem()
		fsys := vfs.Faulty(mem)
		errDisk := errors.New("the disk fails")
		fault := fsys.Inject(vfs.Fault{Ops: vfs.OpChange | vfs.OpSync | vfs.OpSyncDir, After: n, Err: errDisk})
		c, err := Open(Config{Dir: "data", FS: fsys})
		if err == nil {
			require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
			require.NoError(t, c.Close())
			fault()
			require.Greater(t, n, 15)
			return
		}
		fault()
		c, err = Open(Config{Dir: "data", FS: fsys})
		require.NoError(t, err, n)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}), n)
		disk := mem.Crash(uint64(n))
		require.NoError(t, c.Close(), n)
		again, err := Open(Config{Dir: "data", FS: disk})
		require.NoError(t, err, n)
		_, err = again.Topic(t.Context(), "orders")
		require.NoError(t, err, n)
		require.NoError(t, again.Close(), n)
	}
}
