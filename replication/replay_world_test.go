package replication

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const worldTopic = "orders"

// A sent record is a client's view of a record that it has appended, once.
type sent struct {
	value      string
	partition  int32
	begin, end time.Duration // end 0: no response
	offset     int64
	acks       record.Acks
	err        error
}

// A world is a cluster of three brokers with the events of one run.
type world struct {
	t      *testing.T
	r      *rand.Rand // of the driver alone
	tr     *trace
	delays *delays
	c      *Cluster
	disks  disks
	loose  bool           // records are never synced
	failed map[int32]bool // brokers whose disk has failed a sync

	partitions int32
	cutOff     int32   // the last broker that was cut off from both others; 0: none
	fenced     [3]bool // brokers that were running and fenced, at the last look

	tasks  sync.WaitGroup
	events func() []Event
	stops  []func()
	mends  []func() // of faults

	mu      sync.Mutex
	records []*sent
	first   int            // of this life
	seen    [2][]string    // values that readers have seen, by offset
	acting  map[int32]bool // brokers that are being ended or started
	down    map[int32]bool
	dead    bool // clients receive nothing any more
	cover   coverage
}

// coverage counts events that must happen in some runs.
type coverage struct {
	elections, duringSync, divergences, lost, controllers, shrunk, acknowledged, faults int
	fenced, fencedEnded                                                                 int // for being cut off
}

func (c *coverage) add(o coverage) {
	c.elections += o.elections
	c.duringSync += o.duringSync
	c.divergences += o.divergences
	c.lost += o.lost
	c.controllers += o.controllers
	c.shrunk += o.shrunk
	c.acknowledged += o.acknowledged
	c.faults += o.faults
	c.fenced += o.fenced
	c.fencedEnded += o.fencedEnded
}

// played is the result of one run of a seed.
type played struct {
	lines []traceLine
	until time.Duration // virtual time before which nothing was disturbed
	cover coverage
}

const wholeTrace = time.Duration(math.MaxInt64)

// before returns the lines before a virtual time.
func (p *played) before(until time.Duration) []traceLine {
	n, _ := slices.BinarySearchFunc(p.lines, until, func(l traceLine, until time.Duration) int { return cmp.Compare(l.at, until) })
	return p.lines[:n]
}

// play runs one seed.
func play(t *testing.T, seed uint64) (run played) {
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, r: rand.New(rand.NewPCG(seed, 77)), tr: newTrace(), disks: newDisks(3), acting: map[int32]bool{}, down: map[int32]bool{}, failed: map[int32]bool{}}
		w.delays, w.partitions, w.loose = newDelays(seed, w.tr), int32(1+seed%2), seed%5 == 4
		if os.Getenv("STRATA_REPLAY_SEED") != "" {
			t.Cleanup(func() { t.Log(w.tr) })
		}
		for life := range 2 {
			w.live(life)
		}
		w.close()
		w.check()
		run = played{lines: w.tr.sorted(), until: wholeTrace, cover: w.cover}
		if until, all := w.tr.turns.undisturbed(); !all {
			run.until = until
		}
	})
	return run
}

// live opens the cluster, performs random actions, and ends with the end of all brokers at once.
func (w *world) live(life int) {
	w.open()
	w.first = len(w.records)
	if life == 0 {
		props := properties("min.insync.replicas", "2")
		if w.loose {
			props["flush.messages"] = neverSynced["flush.messages"]
		}
		require.NoError(w.t, w.c.CreateTopic(w.t.Context(), worldTopic, topic.Config{
			ID: topic.ID{1}, Assignment: [][]int32{{1, 2, 3}, {2, 3, 1}}[:w.partitions], Properties: props,
		}))
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(func() {
		cancel()
		_ = w.c.Close()
		w.tasks.Wait()
	})
	for p := range w.partitions {
		w.tasks.Go(func() { w.read(ctx, p) })
	}
	for range 80 {
		time.Sleep(w.pause())
		w.tr.turns.next(time.Since(w.tr.begin))
		w.act()
	}
	w.heal()
	for n := 0; w.loose && !w.idle(); n++ { // a broker killed just now still counts as in sync
		require.Less(w.t, n, 600, "a broker does not start")
		time.Sleep(time.Second)
		w.start()
	}
	if life == 0 && w.r.IntN(2) == 0 {
		after := w.die()
		w.end(cancel)
		w.disks = after
		return
	}
	w.settle()
	w.end(cancel)
}

// die returns the disks as a kill of the process, or a power cut of all brokers, leaves them now.
// Later responses to clients do not count.
func (w *world) die() (after disks) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
	for _, d := range w.disks {
		if w.loose {
			after = append(after, d.Kill())
		} else {
			after = append(after, d.Crash(w.r.Uint64()))
		}
	}
	return after
}

func (w *world) open() {
	for i, d := range w.disks {
		w.stops = append(w.stops, w.delays.watch(int32(i+1), d))
	}
	c, err := Open(w.disks.config())
	require.NoError(w.t, err)
	w.c = c
	w.events = collect(w.t, c, worldTopic)
	for from := range int32(3) {
		for to := range int32(3) {
			if from != to {
				w.slow(from+1, to+1)
			}
		}
	}
}

// end closes the cluster.
func (w *world) end(cancel func()) {
	cancel()
	for _, e := range w.events() {
		w.tr.mu.Lock()
		w.tr.lines = append(w.tr.lines, traceLine{e.Time.Sub(w.tr.begin), e.String()})
		w.tr.mu.Unlock()
		w.count(e)
	}
	if err := w.c.Close(); len(w.failed) == 0 {
		require.NoError(w.t, err)
	}
	w.tasks.Wait()
	w.dead = false
	for _, stop := range w.stops {
		stop()
	}
	w.stops = nil
	clear(w.down)
	clear(w.failed)
	w.cutOff, w.fenced = 0, [3]bool{}
}

// heal removes the faults of networks and disks.
func (w *world) heal() {
	w.delays.mu.Lock()
	clear(w.delays.factor)
	w.delays.mu.Unlock()
	for _, mend := range w.mends {
		mend()
	}
	w.mends = nil
	for from := range int32(3) {
		for to := range int32(3) {
			if from != to {
				w.c.Network().Mend(NetworkPath{From: from + 1, To: to + 1})
				w.slow(from+1, to+1)
			}
		}
	}
}
