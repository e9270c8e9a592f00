package log_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

// Environment of the explorer: how many states to look at, and where to begin.
const (
	exploreEnv = "STRATA_EXPLORE"      // number of crash states; default 2,400
	seedEnv    = "STRATA_EXPLORE_SEED" // first seed; default 1
)

func envInt(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err, name)
	return n
}

var explorePolicies = []struct {
	name   string
	policy log.SyncPolicy
	pause  time.Duration
}{
	{"on ack", log.SyncOnAck, 0},
	{"interval", log.SyncInterval(time.Second), 700 * time.Millisecond},
	{"never", log.SyncNever, 0},
}

// recordCuts runs a workload in a bubble, so that intervals cost nothing.
func recordCuts(t *testing.T, seed uint64, policy log.SyncPolicy, pause time.Duration, prepare func(*vfs.MemFS)) (cuts []cut) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		if prepare != nil {
			prepare(fsys)
		}
		w := &workload{rnd: rand.New(rand.NewPCG(seed, 1)), policy: policy, pause: pause}
		var err error
		cuts, err = w.record(fsys, 300)
		require.NoError(t, err, "seed %d", seed)
	})
	return cuts
}

// exploration is a set of states to look at.
type exploration struct {
	reopening
	cuts  []cut
	every int // how many of the variants to try at each cut

	mu     sync.Mutex // guards the field below
	failed []string
}

// run checks all states, two at a time or as many as there are processors.
func (x *exploration) run(seed uint64, limit int64) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(x.cuts) && x.states.Load() < limit; i = int(next.Add(1)) - 1 {
				x.cut(i, seed)
			}
		})
	}
	wg.Wait()
}

func (x *exploration) cut(i int, seed uint64) {
	for k := range x.every {
		v := variants[(i*x.every+k+int(seed))%len(variants)]
		s := seed<<20 + uint64(i)
		if err := x.state(&x.cuts[i], v, s); err != nil {
			x.mu.Lock()
			x.failed = append(x.failed, fmt.Sprintf("before call %d (%s), crash %q, seed %d: %v", i, x.cuts[i].event, v.name, s, err))
			x.mu.Unlock()
		}
	}
}

// TestCrashAtEveryCall stops a workload at each of its calls of the file system, in all ways a
// process or the power can fail, and again at the calls of the reopening.
func TestCrashAtEveryCall(t *testing.T) {
	limit, seed := int64(envInt(t, exploreEnv, 2400)), uint64(envInt(t, seedEnv, 1))
	every := 3
	if limit > 10_000 {
		every = len(variants)
	}
	var states, second, calls int64
	for first := seed; states < limit; seed++ {
		for _, p := range explorePolicies {
			x := &exploration{cuts: recordCuts(t, seed, p.policy, p.pause, nil), every: every}
			x.cfg, x.again = exploreConfig(p.policy), 20
			x.run(seed, limit-states)
			states, second, calls = states+x.states.Load(), second+x.second.Load(), calls+int64(len(x.cuts))
			require.Empty(t, strings.Join(x.failed[:min(len(x.failed), 5)], "\n"),
				"%d of %d states; policy %q, workload seed %d", len(x.failed), x.states.Load(), p.name, seed)
		}
		if seed-first > 100_000 {
			t.Fatal("the workloads have no calls to stop at")
		}
	}
	t.Logf("seeds up to %d: %d calls, %d crash states, %d more during recovery, 0 violations", seed-1, calls, states, second)
}

// TestExplorerFindsLoss is the twin of TestCrashAtEveryCall: on a disk that lies, the same
// exploration has to fail.
func TestExplorerFindsLoss(t *testing.T) {
	for name, lie := range map[string]vfs.Fault{
		"Sync does nothing":     {Ops: vfs.OpSync, Pattern: "*.log", Lie: true, Times: vfs.Always},
		"one Sync does nothing": {Ops: vfs.OpSync, Pattern: "*.log", After: 5, Lie: true},
		"SyncDir does nothing":  {Ops: vfs.OpSyncDir, Lie: true, Times: vfs.Always},
		// Zeros ahead and a batch, or two batches.
		"writes are swallowed": {Ops: vfs.OpWrite, Pattern: "*.log", After: 7, Times: 2, Lie: true},
	} {
		t.Run(name, func(t *testing.T) {
			cuts := recordCuts(t, 1, log.SyncOnAck, 0, func(m *vfs.MemFS) { m.Inject(lie) })
			x := &exploration{cuts: cuts, every: 2}
			x.cfg = exploreConfig(log.SyncOnAck)
			x.run(1, 4000)
			require.NotEmpty(t, x.failed, "%d states without a violation", x.states.Load())
			t.Logf("%d of %d states show it, the first: %s", len(x.failed), x.states.Load(), x.failed[0])
		})
	}
}
