package replication

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A step of the workload changes the cluster. after is the state after the step.
type step struct {
	name  string
	run   func(t *testing.T, c *Cluster)
	after string
}

// state describes all data that must survive: topics without their ids, partitions, configuration
// and records.
func state(t *testing.T, c *Cluster) string {
	t.Helper()
	infos, err := c.Topics(t.Context())
	require.NoError(t, err)
	var s strings.Builder
	for _, info := range infos {
		config := info.Settings.Explicit()
		fmt.Fprintf(&s, "%s", info.Name)
		for _, k := range slices.Sorted(maps.Keys(config)) {
			fmt.Fprintf(&s, " %s=%s", k, config[k])
		}
		for i := range info.Partitions {
			fmt.Fprintf(&s, " %d%v", i, values(t, c, at(info.Name, int32(i))))
		}
		s.WriteString("; ")
	}
	return s.String()
}

var workload = []step{
	{"create", func(t *testing.T, c *Cluster) { create(t, c, "a", 2, "retention.ms", "77") }, "a retention.ms=77 0[] 1[]; "},
	{"produce", func(t *testing.T, c *Cluster) { produce(t, c, at("a", 0), "x", "y") }, "a retention.ms=77 0[x y] 1[]; "},
	{"alter", func(t *testing.T, c *Cluster) {
		require.NoError(t, c.AlterTopicConfig(t.Context(), "a", ConfigChange{Key: "retention.ms", Op: UnsetConfig}, ConfigChange{Key: "segment.ms", Value: "5000"}))
	}, "a segment.ms=5000 0[x y] 1[]; "},
	{"grow", func(t *testing.T, c *Cluster) { require.NoError(t, c.AddPartitions(t.Context(), "a", 3)) }, "a segment.ms=5000 0[x y] 1[] 2[]; "},
	{"produce to the new partition", func(t *testing.T, c *Cluster) { produce(t, c, at("a", 2), "z") }, "a segment.ms=5000 0[x y] 1[] 2[z]; "},
	{"delete", func(t *testing.T, c *Cluster) { require.NoError(t, c.DeleteTopic(t.Context(), "a")) }, ""},
	{"create again", func(t *testing.T, c *Cluster) { create(t, c, "a", 2) }, "a 0[] 1[]; "},
	{"produce to the successor", func(t *testing.T, c *Cluster) { produce(t, c, at("a", 0), "new") }, "a 0[new] 1[]; "},
	{"second topic", func(t *testing.T, c *Cluster) { create(t, c, "b-2", 1) }, "a 0[new] 1[]; b-2 0[]; "},
	{"delete the first", func(t *testing.T, c *Cluster) { require.NoError(t, c.DeleteTopic(t.Context(), "a")) }, "b-2 0[]; "},
}

// cut is a disk at one moment of the workload, and the states that it may have.
type cut struct {
	where   string
	disk    *vfs.MemFS
	brokers int
	allowed []string
}

var crashModes = []vfs.CrashOptions{
	{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost},
	{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept},
	{Data: vfs.CrashLost, Sizes: vfs.CrashKept, Entries: vfs.CrashKept},
	{Data: vfs.CrashTorn, Sizes: vfs.CrashRandom, Entries: vfs.CrashRandom},
}

// cuts collects copies of the disk before every change of the file system, in all ways the change
// can fail. look selects some of them, because a copy takes longer than the change.
type cuts struct {
	fsys    *vfs.MemFS
	brokers int
	look    func(i int) bool
	mu      sync.Mutex // guards the fields below
	n       int        // number of moments so far, selected or not
	all     []cut
	now     []string // allowed states
	step    string
}

func observe(fsys *vfs.MemFS, look func(i int) bool) *cuts {
	x := &cuts{fsys: fsys, look: look, now: []string{""}}
	fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange != 0 {
			x.take(e.String(), uint64(e.N))
		}
	}})
	return x
}

func (x *cuts) take(where string, seed uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	add := func(kind string, disk func() *vfs.MemFS) {
		if x.look(x.n) {
			x.all = append(x.all, cut{where: x.step + ", " + kind + " before " + where, disk: disk(), brokers: x.brokers, allowed: x.now})
		}
		x.n++
	}
	for i, o := range crashModes {
		o.Seed = seed
		add(fmt.Sprintf("power cut %d", i), func() *vfs.MemFS { return x.fsys.CrashWith(o) })
	}
	add("kill", x.fsys.Kill)
}

// taken returns the disks so far. Deleted partitions are removed in the background, which adds
// disks while a step ends.
func (x *cuts) taken() []cut {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all
}

func (x *cuts) begin(step string, allowed ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.step, x.now = step, allowed
}

func TestCrashAtEveryOperation(t *testing.T) {
	every := 9 // of about eleven thousand
	if sample.Hurried() {
		every = 60
	}
	look := sample.OneIn(t, every)
	all := runWorkload(t, Config{}, "0", look)
	all = append(all, runWorkload(t, Config{}, "60000", look)...)
	all = append(all, runWorkload(t, Config{metaSlack: -1}, "60000", look)...)
	all = append(all, runWorkload(t, Config{Brokers: 3, metaSlack: -1, metaPart: 100}, "0", look)...)
	t.Logf("%d disks, one in %d", len(all), every)
	for _, x := range all {
		checkCut(t, x)
	}
}

// runWorkload runs the steps and returns a disk for every moment that look selects. Deleted files
// stay for delay milliseconds.
func runWorkload(t *testing.T, cfg Config, delay string, look func(i int) bool) []cut {
	fsys := vfs.Mem()
	x := observe(fsys, look)
	x.brokers = cfg.Brokers
	x.begin("open", "")
	cfg.FS, cfg.Dir, cfg.Defaults.Properties = fsys, "data", properties("file.delete.delay.ms", delay)
	c := openWith(t, cfg)
	before := ""
	for _, s := range workload {
		x.begin(s.name, before, s.after)
		s.run(t, c)
		before = s.after
		require.Equal(t, before, state(t, c), s.name)
		x.begin("after "+s.name, before)
		x.take("the end of the step", uint64(len(x.taken())))
	}
	x.begin("close", before)
	require.NoError(t, c.Close())
	x.take("the end", 1)
	return x.taken()
}

func checkCut(t *testing.T, x cut) {
	t.Helper()
	c, err := Open(Config{FS: x.disk, Dir: "data", Brokers: x.brokers})
	require.NoError(t, err, x.where)
	found := state(t, c)
	require.Contains(t, x.allowed, found, x.where)
	// A topic that does not exist has left no directories, and the cluster can be used.
	if found == "" && x.allowed[0] != "" {
		require.Empty(t, partitionDirs(t, x.disk), x.where)
	}
	require.NoError(t, c.EnsureTopic(t.Context(), "a", topic.Config{}), x.where)
	before := values(t, c, at("a", 0))
	require.NoError(t, tryProduce(c, at("a", 0), "after").Err, x.where)
	require.Equal(t, append(before, "after"), values(t, c, at("a", 0)), x.where)
	require.NoError(t, c.Close(), x.where)
	again, err := Open(Config{FS: x.disk, Dir: "data", Brokers: x.brokers})
	require.NoError(t, err, x.where)
	require.Equal(t, append(before, "after"), values(t, again, at("a", 0)), x.where)
	require.NoError(t, again.Close(), x.where)
}

func TestCrashDuringRecovery(t *testing.T) {
	first, second := 97, 11
	if sample.Hurried() {
		first = 300
	}
	look, lookInside := sample.OneIn(t, first), sample.OneIn(t, second)
	for _, x := range slices.Concat(runWorkload(t, Config{}, "0", look), runWorkload(t, Config{metaSlack: -1}, "0", look), runWorkload(t, Config{Brokers: 3}, "0", look)) {
		y := observe(x.disk, lookInside)
		y.brokers = x.brokers
		y.begin(x.where+", then open", x.allowed...)
		c, err := Open(Config{FS: x.disk, Dir: "data", Brokers: x.brokers})
		require.NoError(t, err, x.where)
		require.NoError(t, c.Close(), x.where)
		for _, again := range y.taken() {
			checkCut(t, again)
		}
	}
}

// The open after a power cut may be killed itself, before it has loaded the partitions. The next
// open still takes the losses of the power cut into account.
func TestOpenAfterAPowerCutMayBeKilled(t *testing.T) {
	for _, brokers := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d brokers", brokers), func(t *testing.T) {
			fsys := vfs.Mem()
			c := openWith(t, Config{FS: fsys, Dir: "data", Brokers: brokers})
			create(t, c, "a", 1)
			produce(t, c, at("a", 0), "earlier")
			require.NoError(t, c.DeleteTopic(t.Context(), "a"))
			create(t, c, "a", 1)
			var before *vfs.MemFS // the partition has an empty directory
			fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
				if e.Op == vfs.OpSyncDir && strings.HasSuffix(e.Name, "/a-0") && before == nil {
					before = fsys.CrashWith(crashModes[0])
				}
			}})
			produce(t, c, at("a", 0), "x")
			require.NoError(t, c.Close())
			require.NotNil(t, before)

			killed := observe(before, func(int) bool { return true })
			killed.brokers = brokers
			killed.begin("the first open", "a 0[]; ")
			c, err := Open(Config{FS: before, Dir: "data", Brokers: brokers})
			require.NoError(t, err)
			require.NoError(t, c.Close())
			for i, x := range killed.taken() {
				if i%(len(crashModes)+1) == len(crashModes) {
					checkCut(t, x)
				}
			}
		})
	}
}

// A power cut may take records that a reader has seen, unless every append is synced. Then, and
// only then, a new leader epoch begins.
func TestLostRecordsBeginANewLeaderEpoch(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "safe", 1)
	create(t, c, "weak", 1, "flush.messages", "9223372036854775807")
	for _, name := range []string{"safe", "weak"} {
		produce(t, c, at(name, 0), "a")
		produce(t, c, at(name, 0), "b")
	}
	epochs := func(fsys *vfs.MemFS) []int32 {
		c := open(t, fsys)
		defer c.Close()
		return []int32{c.Status("safe", 0).LeaderEpoch, c.Status("weak", 0).LeaderEpoch}
	}
	require.Equal(t, []int32{0, 0}, epochs(fsys.Kill()), "a killed process loses nothing")
	cut := fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	again := open(t, cut)
	require.Equal(t, []string{"a", "b"}, values(t, again, at("safe", 0)))
	require.Equal(t, int32(0), produce(t, again, at("safe", 0), "c").LeaderEpoch)
	require.Equal(t, int32(1), produce(t, again, at("weak", 0), "c").LeaderEpoch)
	require.NoError(t, again.Close())
	require.Equal(t, []int32{0, 1}, epochs(cut), "closed in order")
	require.NoError(t, c.Close())
	require.Equal(t, []int32{0, 0}, epochs(fsys.Crash(1)), "closed before the power cut")
}

// A failed change is absent after the next open, or present if only its acknowledgement failed.
// Until then the old state is served.
func TestFailedDiskOperationLeavesTheOldOrTheNewState(t *testing.T) {
	for _, slack := range []int64{0, -1} {
		failDiskOperations(t, slack)
	}
}

func failDiskOperations(t *testing.T, slack int64) {
	broken := errors.New("disk broken")
	for n := 0; ; n++ {
		fsys := vfs.Mem()
		c, err := Open(Config{FS: fsys, Dir: "data", metaSlack: slack})
		require.NoError(t, err)
		create(t, c, "old", 1)
		produce(t, c, at("old", 0), "x")
		var hit atomic.Bool
		fsys.Observe(vfs.Observer{After: func(_ vfs.Event, err error) {
			if errors.Is(err, broken) {
				hit.Store(true)
			}
		}})
		fsys.Inject(vfs.Fault{Ops: vfs.OpChange, After: n, Err: broken})
		created := c.CreateTopic(t.Context(), "new", topic.Config{})
		deleted := c.DeleteTopic(t.Context(), "old")
		if created == nil && deleted == nil {
			require.Equal(t, "new 0[]; ", state(t, c))
		}
		_ = c.Close() // may fail as well
		disk := fsys.Kill()
		again := open(t, disk)
		got := names(t, again)
		if created == nil {
			require.Contains(t, got, "new", "fault %d", n)
		}
		if deleted == nil {
			require.NotContains(t, got, "old", "fault %d", n)
			for _, dir := range partitionDirs(t, disk) {
				require.NotEqual(t, "old-0", dir, "fault %d", n)
			}
		} else if slices.Contains(got, "old") {
			require.Equal(t, []string{"x"}, values(t, again, at("old", 0)), "fault %d", n)
		}
		if !hit.Load() {
			return
		}
	}
}
