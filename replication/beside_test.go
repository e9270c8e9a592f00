package replication

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// foundings are the broker counts with which two opens request one new cluster at the same time. 0
// means the brokers whose directories exist.
var foundings = []struct{ first, second int }{{1, 1}, {3, 3}, {3, 0}}

// openBeside opens the cluster on disk, and calls other just before the file system call with
// number at. happened is false if there were fewer calls.
func openBeside(disk *vfs.MemFS, brokers int, at int64, other func()) (c *Cluster, happened bool, err error) {
	fsys := vfs.Faulty(disk) // so that the calls of other are not counted
	var mu sync.Mutex        // the founding of a new cluster continues after Open
	over := false
	stop := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.N != at {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if !over {
			happened = true
			other()
		}
	}})
	c, err = Open(Config{Dir: "data", FS: fsys, Brokers: brokers})
	mu.Lock()
	defer mu.Unlock()
	over = true
	stop()
	return c, happened, err
}

// atEveryCall runs try with the interruption before call 1, 2, and so on, until try reports that
// there are no more calls.
func atEveryCall(t *testing.T, try func(t *testing.T, first, second int, at int64) (happened bool)) {
	for _, f := range foundings {
		t.Run(fmt.Sprintf("%d beside %d", f.second, f.first), func(t *testing.T) {
			t.Parallel()
			at := int64(1)
			for try(t, f.first, f.second, at) {
				at++
			}
			require.Greater(t, at, int64(10))
		})
	}
}

// requireWhole requires that all brokers with a directory serve, and that they are at least this
// many.
func requireWhole(t *testing.T, c *Cluster, least int, where string) {
	t.Helper()
	ids, err := brokersIn(c.cfg.FS, c.cfg.Dir)
	require.NoError(t, err, where)
	require.Equal(t, ids, c.Brokers(), where)
	require.GreaterOrEqual(t, len(ids), least, where)
}

// Checklist row D12. A second open of a new cluster begins before any call of the first. One of
// the two opens the cluster, with all brokers, and the other gets ErrLocked.
func TestOneOfTwoOpensFoundsTheCluster(t *testing.T) {
	atEveryCall(t, func(t *testing.T, first, second int, at int64) bool {
		disk, where := vfs.Mem(), fmt.Sprintf("before call %d", at)
		var a *Cluster
		var errA error
		b, happened, errB := openBeside(disk, second, at, func() {
			a, errA = Open(Config{Dir: "data", FS: disk, Brokers: first})
		})
		switch {
		case errB == nil:
			requireWhole(t, b, max(second, 1), where)
			require.True(t, !happened || errors.Is(errA, ErrLocked), "%s: %v", where, errA)
			require.NoError(t, b.Close(), where)
		default:
			require.ErrorIs(t, errB, ErrLocked, where)
			require.NoError(t, errA, where)
			requireWhole(t, a, first, where)
			require.NoError(t, a.Close(), where)
		}
		return happened
	})
}

// Another process founds and closes a cluster between any two calls of an open. The open then
// opens this cluster with all its brokers.
func TestOpenGoesOnWithAClusterThatWasFoundedMeanwhile(t *testing.T) {
	atEveryCall(t, func(t *testing.T, first, second int, at int64) bool {
		disk, where := vfs.Mem(), fmt.Sprintf("before call %d", at)
		founded := ""
		b, happened, err := openBeside(disk, second, at, func() {
			a, err := Open(Config{Dir: "data", FS: disk, Brokers: first})
			if err != nil {
				require.ErrorIs(t, err, ErrLocked, where)
				return
			}
			require.NoError(t, a.CreateTopic(t.Context(), "orders", topic.Config{Partitions: first}), where)
			founded = a.ClusterID()
			require.NoError(t, a.Close(), where)
		})
		require.NoError(t, err, where)
		if founded != "" {
			requireWhole(t, b, first, where)
			for id, n := range b.nodes {
				require.True(t, n.orderly, "%s: the note of broker %d is lost", where, id)
			}
			require.Equal(t, founded, b.ClusterID(), where)
			_, err = b.Topic(t.Context(), "orders")
			require.NoError(t, err, where)
		}
		require.NoError(t, b.Close(), where)
		return happened
	})
}

// A cluster is founded and closed while one open looks at the directories, and another open begins
// later. The first open keeps its locks while it is refused one. One of the two gets the cluster.
func TestOpensBesideAClusterThatWasFoundedMeanwhileDoNotRefuseEachOther(t *testing.T) {
	const looks, most = 16, 100 // calls that look at the directories, and that lock them
	look := sample.OneIn(t, 10)
	for at := int64(1); at <= looks; at++ {
		for then := at + 1; then <= most; then++ {
			if look(int(at*most + then)) {
				refuseEachOther(t, at, then)
			}
		}
	}
}

// refuseEachOther opens a cluster that is founded and closed before one call, while another open
// begins before a later call. The other open pauses where it is refused a lock, until the first
// open ends.
func refuseEachOther(t *testing.T, at, then int64) {
	disk, where := vfs.Mem(), fmt.Sprintf("founded before call %d, another open before %d", at, then)
	on := func(fsys vfs.FS) Config { return Config{Dir: "data", FS: fsys, Brokers: 3} }
	first, second := vfs.Faulty(disk), vfs.Faulty(disk)
	refused, through := make(chan struct{}), make(chan struct{})
	var refusals atomic.Int64 // in a row: a lock is tried a few times
	var once sync.Once
	second.Observe(vfs.Observer{
		Before: func(e vfs.Event) {
			if e.Op != vfs.OpLock && refusals.Swap(0) > 0 {
				once.Do(func() { close(refused) })
				<-through
			}
		},
		After: func(e vfs.Event, err error) {
			switch {
			case e.Op != vfs.OpLock:
			case err == nil:
				refusals.Store(0)
			default:
				refusals.Add(1)
			}
		},
	})
	var other *Cluster
	otherErr, begun := error(nil), false
	ended := make(chan struct{})
	first.Observe(vfs.Observer{Before: func(e vfs.Event) {
		switch e.N {
		case at:
			founder, err := Open(on(disk))
			require.NoError(t, err, where)
			require.NoError(t, founder.Close(), where)
		case then:
			begun = true
			go func() {
				defer close(ended)
				other, otherErr = Open(on(second))
			}()
			select {
			case <-refused:
			case <-ended:
			}
		}
	}})
	c, err := Open(on(first))
	close(through)
	if begun {
		<-ended
	}
	if err != nil {
		require.ErrorIs(t, err, ErrLocked, where)
		require.True(t, begun, where)
		require.NoError(t, otherErr, where)
		c = other
	} else if begun {
		require.ErrorIs(t, otherErr, ErrLocked, where)
	}
	requireWhole(t, c, 3, where)
	require.NoError(t, c.Close(), where)
}

// The process that founds a cluster is killed at any call, between any two calls of another open.
// The other open opens the files that remain.
func TestOpenGoesOnWithAFoundingThatWasKilledMeanwhile(t *testing.T) {
	every := 12
	if sample.Hurried() {
		every *= 4
	}
	atEveryCall(t, func(t *testing.T, first, second int, at int64) (happened bool) {
		look := sample.OneIn(t, every)
		for kill, killed := int64(1), true; killed; kill++ {
			if !look(int(kill)) {
				continue
			}
			disk, where := vfs.Mem(), fmt.Sprintf("before call %d, killed before %d", at, kill)
			var b *Cluster
			var err error
			b, happened, err = openBeside(disk, second, at, func() { killed = foundAndKill(t, disk, first, kill) })
			require.NoError(t, err, where)
			requireWhole(t, b, max(second, 1), where)
			require.NoError(t, b.Close(), where)
			killed = killed && happened
		}
		return happened
	})
}

// foundAndKill opens a cluster and kills it before a call of the file system. It returns false if
// there were fewer calls.
func foundAndKill(t *testing.T, disk *vfs.MemFS, brokers int, kill int64) (killed bool) {
	process := vfs.NewSession(disk)
	fsys := vfs.Faulty(process)
	stop := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.N == kill {
			process.End()
		}
	}})
	defer stop()
	c, err := Open(Config{Dir: "data", FS: fsys, Brokers: brokers})
	if err == nil {
		err = c.CreateTopic(t.Context(), "orders", topic.Config{})
		_ = c.Close() // releases its locks, as the end of a process does
	}
	process.End()
	return errors.Is(err, vfs.ErrEnded)
}

// Several opens request one new cluster at once. One succeeds, and the others get ErrLocked. When
// they take turns, all succeed.
func TestOpensOfANewClusterAtOnceBehaveAsThoseOfOneThatIsThere(t *testing.T) {
	rounds := map[string]int{"memory": 100, "disk": 10}
	if sample.Hurried() {
		rounds = map[string]int{"memory": 20, "disk": 2}
	}
	for _, f := range foundings {
		for name, fsysOf := range map[string]func(*testing.T) (vfs.FS, string){
			"memory": func(*testing.T) (vfs.FS, string) { return vfs.Mem(), "data" },
			"disk":   func(t *testing.T) (vfs.FS, string) { return vfs.OS(), filepath.Join(t.TempDir(), "data") },
		} {
			t.Run(fmt.Sprintf("%d beside %d, %s", f.second, f.first, name), func(t *testing.T) {
				t.Parallel()
				for range rounds[name] {
					fsys, dir := fsysOf(t)
					openAtOnce(t, Config{Dir: dir, FS: fsys, Brokers: f.first}, Config{Dir: dir, FS: fsys, Brokers: f.second})
					fsys, dir = fsysOf(t)
					openInTurns(t, Config{Dir: dir, FS: fsys, Brokers: f.first}, Config{Dir: dir, FS: fsys, Brokers: f.second})
				}
			})
		}
	}
}

func openAtOnce(t *testing.T, cfgs ...Config) {
	got, errs := make([]*Cluster, len(cfgs)), make([]error, len(cfgs))
	var wg sync.WaitGroup
	for i, cfg := range cfgs {
		wg.Go(func() { got[i], errs[i] = Open(cfg) })
	}
	wg.Wait()
	opened := 0
	for i, c := range got {
		if errs[i] != nil {
			require.ErrorIs(t, errs[i], ErrLocked)
			continue
		}
		opened++
		requireWhole(t, c, max(cfgs[i].Brokers, 1), "")
		require.NoError(t, c.Close())
	}
	require.Equal(t, 1, opened)
}

func openInTurns(t *testing.T, cfgs ...Config) {
	errs := make([]error, len(cfgs))
	var wg sync.WaitGroup
	for i, cfg := range cfgs {
		wg.Go(func() {
			for had := 0; had < 3 && errs[i] == nil; {
				c, err := Open(cfg)
				switch {
				case err == nil:
					had++
					errs[i] = c.Close()
				case !errors.Is(err, ErrLocked):
					errs[i] = err
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}
