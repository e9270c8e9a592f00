package systest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A txnCut is the disk of a cluster as a kill or a power cut leaves it, and the history until
// then.
type txnCut struct {
	where   string
	disk    *vfs.MemFS
	history *txnHistory
}

var txnCrashModes = []vfs.CrashOptions{
	{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost},
	{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept},
	{Data: vfs.CrashLost, Sizes: vfs.CrashKept, Entries: vfs.CrashKept},
	{Data: vfs.CrashTorn, Sizes: vfs.CrashRandom, Entries: vfs.CrashRandom},
}

// txnCuts collects the cuts of a workload that look chooses. There is a kill and each kind of
// power cut before each change of the file system. Some syncs are delayed, so that other
// operations overtake them.
type txnCuts struct {
	disk    *vfs.MemFS
	history *txnHistory
	look    func(i int) bool

	mu  sync.Mutex // guards the fields below
	rnd *rand.Rand
	n   int // number of cuts, chosen or not
	all []txnCut
}

func (x *txnCuts) before(e vfs.Event) {
	if e.Op&vfs.OpChange == 0 {
		return
	}
	x.mu.Lock()
	pause := time.Duration(max(0, x.rnd.IntN(40)-25)) * time.Millisecond
	x.mu.Unlock()
	if e.Op == vfs.OpSync {
		time.Sleep(pause)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	take := func(kind string, disk func() *vfs.MemFS) {
		if x.look(x.n) {
			told := x.history.until()
			left := disk()
			x.all = append(x.all, txnCut{fmt.Sprintf("%s before %v", kind, e), left, x.history.cut(told, x.history.until())})
		}
		x.n++
	}
	for i, o := range txnCrashModes {
		o.Seed = uint64(e.N)
		take(fmt.Sprintf("power cut %d", i), func() *vfs.MemFS { return x.disk.CrashWith(o) })
	}
	take("kill", x.disk.Kill)
}

// do has workers do all pieces. Each worker runs one producer after the other, numbered from run
// on.
func (s *txnStorm) do(run int) {
	var workers, watchers sync.WaitGroup
	s.mu.Lock()
	s.done = false
	s.mu.Unlock()
	for _, of := range s.out {
		watchers.Go(func() { s.watch(of) })
	}
	for id := range 3 {
		workers.Go(func() {
			for run := run; !s.work(fmt.Sprint("w", id), run) && !s.failed(); run++ {
				time.Sleep(time.Duration(s.n(500)) * time.Millisecond)
			}
		})
	}
	workers.Wait()
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	watchers.Wait()
}

func newTxnCrash(t *testing.T, disk *vfs.MemFS, brokers int, version int16, seed uint64) *txnStorm {
	t.Helper()
	s := &txnStorm{T: t, brokers: brokers, version: version, history: &txnHistory{}, pieces: 5, calm: true,
		rnd: rand.New(rand.NewPCG(seed, uint64(version))), began: time.Now(), outcomes: map[string]int{}}
	for range brokers { // they share a disk, and so lose power at the same time
		s.disks = append(s.disks, disk)
	}
	return s
}

// txnCutsOf runs a workload, and returns the disks after crashes.
func txnCutsOf(t *testing.T, brokers int, version int16, seed uint64, look func(i int) bool) []txnCut {
	disk := vfs.Mem()
	s := newTxnCrash(t, disk, brokers, version, seed)
	s.open()
	s.create()
	x := &txnCuts{disk: disk, history: s.history, look: look, rnd: rand.New(rand.NewPCG(seed, uint64(version)))}
	disk.Observe(vfs.Observer{Before: x.before})
	s.do(0)
	time.Sleep(txnStormTimeout + time.Minute)
	synctest.Wait()
	s.check()
	require.NoError(t, s.c.Close())
	require.Empty(t, s.wrong)
	t.Logf("%d of %d cuts, %v", len(x.all), x.n, s.outcomes)
	return x.all
}

// check opens the disk that a crash has left, and has the workers do the remaining pieces. For
// some cuts they start at once, for others after the open transactions have timed out.
func (x txnCut) check(t *testing.T, brokers int, version int16, seed uint64) {
	s := newTxnCrash(t, x.disk, brokers, version, seed)
	s.history = x.history
	for p := range int32(3) {
		s.out = append(s.out, at("a", p), at("b", p))
	}
	s.open()
	if seed%2 == 0 {
		time.Sleep(txnStormTimeout + time.Minute)
		synctest.Wait()
		s.check()
	}
	s.do(1000)
	time.Sleep(txnStormTimeout + time.Minute)
	synctest.Wait()
	s.check()
	for id := range 3 {
		got, err := s.c.Backend().FetchOffsets(t.Context(), fmt.Sprint("w", id), []record.TopicPartition{at("in", 0)})
		if err != nil || got[at("in", 0)].Offset != s.pieces {
			s.fail("w%d has done %d of %d pieces: %v", id, got[at("in", 0)].Offset, s.pieces, err)
		}
	}
	require.NoError(t, s.c.Close())
	require.Empty(t, s.wrong, "%s\n%s", x.where, strings.Join(s.wrong, "\n"))
}

// Workers take input, write output and commit both in a transaction. At any operation the process
// is killed, or all brokers lose power. Then open transactions are aborted and decided ones
// completed. No record that a reader has seen is lost or appears twice, and workers that continue
// do the rest of the input once.
func TestTransactionsSurviveACrashAtEveryOperation(t *testing.T) {
	every := 100
	if sample.Hurried() {
		every = 800
	}
	for _, brokers := range []int{1, 3} {
		for _, version := range []int16{0, 2} {
			t.Run(fmt.Sprintf("%d brokers, version %d", brokers, version), func(t *testing.T) {
				look, seed := sample.OneIn(t, every*(2*brokers-1)), sample.Seed(t)
				parts := 1
				// Each part has a workload of its own: all cuts at once take gigabytes.
				if sample.Whole() {
					parts = 16 * brokers
				}
				for part := range parts {
					var all []txnCut
					synctest.Test(t, func(t *testing.T) {
						all = txnCutsOf(t, brokers, version, seed+uint64(part), func(i int) bool { return i%parts == part && look(i) })
					})
					for i, x := range all {
						synctest.Test(t, func(t *testing.T) { x.check(t, brokers, version, uint64(i)) })
						all[i] = txnCut{} // releases its disk, which has grown by the check
					}
				}
			})
		}
	}
}
