package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

// A written is a record or marker that a txnWork appended at an offset.
type written struct {
	offset int64
	pid    int64 // 0: in no transaction
	epoch  int16
	marker bool
	commit bool // of a marker
	key    string
	value  string
}

// txnHistory has everything that was written, by offset. Truncated entries count until others take
// their offsets. The oracle uses only the history: the log is a prefix of it, wherever it ends.
type txnHistory []written

func (h txnHistory) with(w written) txnHistory {
	h = slices.Clone(h)
	return append(slices.DeleteFunc(h, func(o written) bool { return o.offset >= w.offset }), w)
}

// decided returns the open transactions of a log with that end, by producer, and its last stable
// offset. committed has the records below the end that are committed or in no transaction.
func (h txnHistory) decided(end int64) (open map[int64]written, stable int64, committed []written) {
	open, stable = map[int64]written{}, end
	undecided := map[int64][]written{}
	for _, w := range h {
		switch {
		case w.offset >= end:
		case w.marker:
			if w.commit {
				committed = append(committed, undecided[w.pid]...)
			}
			delete(undecided, w.pid)
		case w.pid != 0:
			undecided[w.pid] = append(undecided[w.pid], w)
		default:
			committed = append(committed, w)
		}
	}
	for pid, ws := range undecided {
		open[pid], stable = ws[0], min(stable, ws[0].offset)
	}
	slices.SortFunc(committed, func(a, b written) int { return int(a.offset - b.offset) })
	return open, stable, committed
}

// check compares the records of a read-committed reader with the committed ones.
func (h txnHistory) check(p *Partition, compacted bool) error {
	end, start := p.LogEndOffset(), p.LogStartOffset()
	lso := p.LastStableOffset()
	got, err := readFrom(p, start, ReadCommitted, 1<<20)
	if err != nil {
		return err
	}
	_, stable, committed := h.decided(end)
	if lso > max(stable, start) {
		return fmt.Errorf("stable to %d, where a transaction is open from %d on", lso, stable)
	}
	var want []seen
	last := map[string]string{}
	for _, w := range committed {
		if w.offset >= start && w.offset < lso {
			want = append(want, seen{w.offset, w.value + "0"})
			last[w.key] = w.value + "0"
		}
	}
	if !compacted {
		if !slices.Equal(got, want) {
			return fmt.Errorf("[%d,%d) shows %v, committed was %v", start, lso, got, want)
		}
		return nil
	}
	for i, s := range got {
		if !slices.Contains(want, s) {
			return fmt.Errorf("[%d,%d) shows %v, which was not committed", start, lso, s)
		}
		if i > 0 && s.Offset <= got[i-1].Offset {
			return fmt.Errorf("%v behind %v", s, got[i-1])
		}
	}
	for key, value := range last {
		if !slices.ContainsFunc(got, func(s seen) bool { return s.Value == value }) {
			return fmt.Errorf("[%d,%d) shows %v, without %s, which is committed last of key %q", start, lso, got, value, key)
		}
	}
	return nil
}

// txnWork runs operations on a partition, with several producers whose transactions overlap.
type txnWork struct {
	rnd    *rand.Rand
	cfg    Config
	p      *Partition
	leader int32
	epoch  int16 // of the newest transaction: each has its own, so that its sequence begins at 0
	serial int
	stuck  map[int64]bool // producers with a failed batch in their transaction
	// log end offset at the last compaction: no truncation goes below it, since compaction removed
	// records there
	clean int64

	mu      sync.Mutex // guards the field below
	history txnHistory
}

func (w *txnWork) facts() txnHistory {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.history
}

// note adds the next entry at the log's end to the history.
func (w *txnWork) note(f written) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.offset = w.p.LogEndOffset()
	w.history = w.history.with(f)
}

func (w *txnWork) reopen() (err error) {
	w.stuck = map[int64]bool{}
	if w.p, err = Open("p", w.cfg); err != nil {
		w.p = nil
		return err
	}
	return w.lead()
}

func (w *txnWork) lead() error {
	w.leader++
	if err := w.p.BecomeLeader(w.leader); err != nil {
		return errors.Join(err, w.down())
	}
	return nil
}

// down closes the partition; the next step opens it again.
func (w *txnWork) down() error {
	p := w.p
	w.p = nil
	return p.Close()
}

func (w *txnWork) data(pid int64) error {
	w.serial++
	f := written{pid: pid, key: fmt.Sprint("k", w.rnd.IntN(3)), value: fmt.Sprint("v", w.serial, "-")}
	s := batchSpec{pid: pid, txn: pid != 0, key: f.key, value: f.value}
	if pid != 0 {
		end := w.p.LogEndOffset()
		open, _, _ := w.history.decided(end)
		if first, ok := open[pid]; !ok {
			w.epoch++
			f.epoch = w.epoch
		} else {
			f.epoch = first.epoch
			for _, o := range w.history {
				if o.pid == pid && !o.marker && o.offset >= first.offset && o.offset < end {
					s.seq++
				}
			}
		}
		s.epoch = f.epoch
	}
	w.note(f)
	err := send(w.p, s).Err
	w.stuck[pid] = err != nil && pid != 0
	return err
}

func (w *txnWork) end(pid int64, commit bool) error {
	open, _, _ := w.history.decided(w.p.LogEndOffset())
	first, ok := open[pid]
	if !ok {
		return nil
	}
	w.note(written{pid: pid, epoch: first.epoch, marker: true, commit: commit})
	delete(w.stuck, pid)
	return end(w.p, TxnMarker{ProducerID: pid, ProducerEpoch: first.epoch, Commit: commit}).Err
}

// step does one random operation. Every error is the disk's.
func (w *txnWork) step(t *testing.T) error {
	if w.p == nil {
		return w.reopen()
	}
	pid := 1 + w.rnd.Int64N(3)
	switch n := w.rnd.IntN(40); {
	case n < 13:
		if w.stuck[pid] {
			return w.end(pid, false)
		}
		return w.data(pid)
	case n < 15:
		return w.data(0)
	case n < 28:
		return w.end(pid, n < 18)
	case n < 31:
		return w.p.Roll()
	case n < 34:
		if w.cfg.Log.Cleanup.Compacts() {
			w.clean = w.p.LogEndOffset()
		}
		_, err := w.p.Clean(t.Context())
		return err
	case n < 35 && !w.cfg.Log.Cleanup.Compacts():
		_, err := w.p.DeleteRecords(w.p.LogStartOffset() + w.rnd.Int64N(2))
		if errors.Is(err, ErrOffsetOutOfRange) {
			return nil // above the high watermark of a broken log
		}
		return err
	case n < 38:
		w.p.BecomeFollower()
		at := max(w.p.LogEndOffset()-w.rnd.Int64N(6), w.p.LogStartOffset(), min(w.clean, w.p.LogEndOffset()))
		if err := w.p.TruncateTo(at); err != nil {
			return errors.Join(err, w.down()) // it must be opened again before it can lead
		}
		return w.lead()
	default:
		return w.down()
	}
}

// finish ends all open transactions. A transaction that was ended before gets the other outcome: a
// reader that uses the index entry of a lost marker is wrong.
func (w *txnWork) finish() error {
	var errs []error
	open, _, _ := w.history.decided(w.p.LogEndOffset())
	for pid := range int64(4) {
		first, ok := open[pid]
		if !ok {
			continue
		}
		commit := true
		for _, f := range w.history {
			if f.pid == pid && f.marker && f.offset > first.offset {
				commit = !f.commit
			}
		}
		errs = append(errs, w.end(pid, commit))
	}
	return errors.Join(errs...)
}

func newTxnWork(disk vfs.FS, seed uint64, policy log.SyncPolicy, cleanup log.CleanupPolicy) *txnWork {
	w := &txnWork{rnd: newRand(seed), cfg: testConfig(disk), stuck: map[int64]bool{}}
	w.cfg.Log.Sync, w.cfg.Log.Cleanup, w.cfg.Log.MinDirtyRatio = policy, cleanup, 0.01
	w.cfg.Log.SegmentBytes = 700
	w.cfg.Log.RetentionBytes = 2000
	// ns: a pass sets the horizon of a marker, and the next pass removes the marker
	w.cfg.Log.DeleteRetention = 1
	return w
}

// on is w on another disk, with the given history.
func (w *txnWork) on(disk vfs.FS, history txnHistory) *txnWork {
	on := newTxnWork(disk, uint64(len(history)), w.cfg.Log.Sync, w.cfg.Log.Cleanup)
	on.leader, on.epoch, on.serial, on.history = w.leader+1000, w.epoch+100, w.serial+1000, history
	return on
}

// A txnMoment is the disk after a crash, and the history at that time.
type txnMoment struct {
	disk   *vfs.MemFS
	known  txnHistory
	before vfs.Event
	how    string
}

// txnCrashes are the ways in which the process or the power can fail.
var txnCrashes = []string{"kill", "lost", "kept entries", "torn", "random"}

func txnCrash(disk *vfs.MemFS, how string, seed uint64) *vfs.MemFS {
	switch how {
	case "kill":
		return disk.Kill()
	case "lost":
		return disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	case "kept entries":
		return disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashKept})
	case "torn":
		return disk.CrashWith(vfs.CrashOptions{Seed: seed, Data: vfs.CrashTorn, Sizes: vfs.CrashKept, Entries: vfs.CrashKept})
	}
	return disk.Crash(seed)
}

// crashesIn runs work on a disk and returns the disks after crashes before its calls. how returns
// the kinds of crashes before the n-th call.
func crashesIn(disk *vfs.MemFS, w *txnWork, how func(n int) []string, work func()) []txnMoment {
	var mu sync.Mutex // guards all, and allows one crash at a time
	var all []txnMoment
	n := 0
	stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange == 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		known := w.facts()
		for _, how := range how(n) {
			all = append(all, txnMoment{txnCrash(disk, how, uint64(n)), known, e, how})
		}
		n++
	}})
	work()
	stop()
	mu.Lock()
	defer mu.Unlock()
	return all
}

// checkAfter opens the disk after a crash and checks its records. It ends the open transactions,
// closes the partition, cuts the power, and checks again.
func checkAfter(w *txnWork, m txnMoment) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s before %v: %w", m.how, m.before, err)
		}
	}()
	on := w.on(m.disk, m.known)
	if err := on.reopen(); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { _ = on.p.Close() }()
	compacted := w.cfg.Log.Cleanup.Compacts()
	if err := on.history.check(on.p, compacted); err != nil {
		return fmt.Errorf("at once: %w", err)
	}
	if err := on.finish(); err != nil {
		return fmt.Errorf("go on: %w", err)
	}
	if err := on.history.check(on.p, compacted); err != nil {
		return fmt.Errorf("when all was ended: %w", err)
	}
	if on.rnd.IntN(2) == 0 {
		if err := on.p.Roll(); err != nil {
			return fmt.Errorf("roll: %w", err)
		}
	}
	if on.rnd.IntN(3) > 0 {
		if err := on.p.Close(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	how := txnCrashes[on.rnd.IntN(len(txnCrashes))]
	again := w.on(txnCrash(m.disk, how, 1), on.history)
	if err := again.reopen(); err != nil {
		return fmt.Errorf("open after a second crash (%s): %w", how, err)
	}
	defer func() { _ = again.p.Close() }()
	if err := again.history.check(again.p, compacted); err != nil {
		return fmt.Errorf("after a second crash (%s): %w", how, err)
	}
	return nil
}

// A kill or a power cut comes before any call, also of recovery, and any operation follows. A
// read-committed reader gets all records of committed transactions, and none of others.
func TestCrashAtEveryCallChangesNoOutcomeOfATransaction(t *testing.T) {
	for _, policy := range []log.SyncPolicy{log.SyncOnAck, log.SyncNever} {
		for _, cleanup := range []log.CleanupPolicy{log.CleanupDelete, log.CleanupCompact} {
			for seed := range txnSeeds() {
				t.Run(fmt.Sprint("sync ", policy, " compact ", cleanup.Compacts(), " seed ", seed), func(t *testing.T) {
					t.Parallel()
					crashAtEveryCall(t, newTxnWork(nil, seed, policy, cleanup), 60)
				})
			}
		}
	}
}

// txnSeeds is the number of workloads of each kind.
func txnSeeds() uint64 {
	if os.Getenv("STRATA_LONG") != "" {
		return 20
	}
	return 1
}

// txnSampled returns n for checking one in n slow cases: usual, or little for short runs and the
// race detector.
func txnSampled(usual, little int) int {
	if testing.Short() || raceEnabled {
		return little
	}
	return usual
}

func crashAtEveryCall(t *testing.T, w *txnWork, steps int) {
	crashIn(t, w, func(n int) []string { return []string{"kill", txnCrashes[1+n%4]} }, txnSampled(2, 4), txnSampled(21, 56), func() {
		for range steps {
			require.NoError(t, w.step(t))
			if w.p != nil {
				require.NoError(t, w.history.check(w.p, w.cfg.Log.Cleanup.Compacts()))
			}
		}
	})
}

// crashIn runs work on a disk, with crashes before each call. It checks one in first of them. For
// one in second it also checks crashes before each call of the recovery.
func crashIn(t *testing.T, w *txnWork, how func(n int) []string, first, second int, work func()) {
	disk := vfs.Mem()
	w.cfg.Log.FS = disk
	look, lookInside := sample.OneIn(t, first), sample.OneIn(t, second)
	moments := crashesIn(disk, w, how, func() {
		work()
		if w.p != nil {
			require.NoError(t, w.p.Close())
		}
	})
	require.Greater(t, len(moments), 100)
	for i, m := range moments {
		if look(i) {
			require.NoError(t, checkAfter(w, txnMoment{m.disk.Kill(), m.known, m.before, m.how}))
		}
		if !lookInside(i) {
			continue
		}
		on := w.on(m.disk, m.known)
		inside := crashesIn(m.disk, on, func(n int) []string { return []string{txnCrashes[(i+n)%len(txnCrashes)]} }, func() {
			require.NoError(t, on.reopen())
			require.NoError(t, on.p.Close())
		})
		for _, again := range inside {
			again.how = fmt.Sprintf("%s before %v, then %s", m.how, m.before, again.how)
			require.NoError(t, checkAfter(w, again))
		}
	}
}

// One abort, with all crashes at all calls.
func TestCrashInAnAbortChangesNoOutcome(t *testing.T) {
	ok := func(errs ...error) {
		t.Helper()
		require.NoError(t, errors.Join(errs...))
	}
	for name, work := range map[string]func(w *txnWork){
		"abort": func(w *txnWork) {
			ok(w.reopen(), w.data(1), w.end(1, false))
		},
		"abort in the next segment": func(w *txnWork) {
			ok(w.reopen(), w.data(0), w.data(1), w.p.Roll(), w.end(1, false), w.data(0))
		},
		"second abort": func(w *txnWork) {
			ok(w.reopen(), w.data(1), w.end(1, false), w.down())
			ok(w.reopen(), w.data(1), w.end(1, false))
		},
		"abort that is cut off": func(w *txnWork) {
			ok(w.reopen(), w.data(0), w.data(2), w.end(2, false), w.data(1), w.end(1, false), w.p.Roll(), w.data(0))
			w.p.BecomeFollower()
			ok(w.p.TruncateTo(4), w.lead())
			ok(w.history.check(w.p, false), w.end(1, true), w.history.check(w.p, false))
		},
	} {
		for _, policy := range []log.SyncPolicy{log.SyncOnAck, log.SyncNever} {
			t.Run(fmt.Sprint(name, " sync ", policy), func(t *testing.T) {
				t.Parallel()
				w := newTxnWork(nil, 1, policy, log.CleanupDelete)
				crashIn(t, w, func(int) []string { return txnCrashes }, 1, 6, func() { work(w) })
			})
		}
	}
}

// injectedOnly returns nil if err is the injected error, or the error of a partition that is
// closed or broken by it.
func injectedOnly(err error) error {
	if errors.Is(err, syscall.EIO) || errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// Any call of the disk fails, once or for a while. A read-committed reader gets only committed
// records, or the disk's error. Once the disk works and the partition is opened again all
// committed records are there, also after a power cut.
func TestFaultAtEveryCallChangesNoOutcomeOfATransaction(t *testing.T) {
	for _, policy := range []log.SyncPolicy{log.SyncOnAck, log.SyncNever} {
		for _, cleanup := range []log.CleanupPolicy{log.CleanupDelete, log.CleanupCompact} {
			for seed := range txnSeeds() {
				t.Run(fmt.Sprint("sync ", policy, " compact ", cleanup.Compacts(), " seed ", seed), func(t *testing.T) {
					t.Parallel()
					look := sample.OneIn(t, txnSampled(4, 10))
					for after := 0; ; after++ {
						if !look(after) {
							continue
						}
						times := []int{1, 3, 12}[after%3]
						if !faultAtCall(t, seed, policy, cleanup, after, times) {
							require.Greater(t, after, 100)
							return
						}
					}
				})
			}
		}
	}
}

// faultAtCall reports whether a call failed: false if there were fewer calls.
func faultAtCall(t *testing.T, seed uint64, policy log.SyncPolicy, cleanup log.CleanupPolicy, after, times int) bool {
	disk := vfs.Mem()
	w := newTxnWork(disk, seed, policy, cleanup)
	var mu sync.Mutex // guards failed and doubt: closed segments are synced in the background
	failed, doubt := 0, false
	disk.Inject(vfs.Fault{After: after, Times: times, Err: syscall.EIO})
	disk.Observe(vfs.Observer{After: func(e vfs.Event, err error) {
		if errors.Is(err, syscall.EIO) {
			mu.Lock()
			defer mu.Unlock()
			failed++
			doubt = doubt || e.Op == vfs.OpSync && strings.HasSuffix(e.Name, segment.LogSuffix)
		}
	}})
	compacted := cleanup.Compacts()
	for i := range 60 {
		err := w.step(t)
		require.NoError(t, injectedOnly(err), "fault %d x %d, step %d", after, times, i)
		if w.p == nil {
			continue
		}
		require.NoError(t, injectedOnly(w.history.check(w.p, compacted)), "fault %d x %d, step %d", after, times, i)
		if err != nil && w.p.log.Err() != nil { // broken
			_ = w.down()
		}
	}
	if w.p != nil {
		require.NoError(t, injectedOnly(w.p.Close()))
	}
	mu.Lock()
	defer mu.Unlock()
	for _, how := range []string{"kill", "lost"} {
		m := txnMoment{txnCrash(disk, how, 0), w.history, vfs.Event{}, how}
		if failed < times && failed > 0 {
			break // the disk still fails at the end
		}
		if how == "kill" && doubt && times > 1 {
			// Another process cannot find the failed sync if strata.suspect could not be written
			// either: a power cut may remove records that it takes for durable.
			continue
		}
		require.NoError(t, checkAfter(w, m), "fault %d x %d", after, times)
	}
	return failed > 0
}
