package log

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

const sharedDir = "/dir"

// alwaysShare sends every round of d's logs that a worker leads through the journal, which it
// creates at once.
func (d *Directory) alwaysShare() error {
	j := &d.syncer.journal
	j.busyLogs = 1
	if !j.begin() {
		return fmt.Errorf("journal state %d", j.state.Load())
	}
	j.make()
	if !j.ready() {
		return fmt.Errorf("no journal")
	}
	return nil
}

// sharedModel has the records that a log may have, and those it must have.
type sharedModel struct {
	removing  bool              // it need not open
	low, high int64             // bounds of the start offset
	end       int64             // next offset if nothing is pending
	must      map[int64]int64   // acknowledged: offset -> id
	may       map[int64][]int64 // all records that can be there
}

func newSharedModel() *sharedModel {
	return &sharedModel{must: map[int64]int64{}, may: map[int64][]int64{}}
}

func (m *sharedModel) clone() *sharedModel {
	c := *m
	c.must, c.may = maps.Clone(m.must), map[int64][]int64{}
	for o, ids := range m.may {
		c.may[o] = slices.Clone(ids)
	}
	return &c
}

// check compares a log with the model.
func (m *sharedModel) check(l *Log) error {
	start, end := l.StartOffset(), l.EndOffset()
	if start < m.low || start > m.high {
		return fmt.Errorf("starts at %d, outside [%d,%d]", start, m.low, m.high)
	}
	next := start
	for r, err := range l.Records(start) {
		if err != nil {
			return err
		}
		if r.Offset >= end {
			break
		}
		id, err := strconv.ParseInt(string(r.Value[:10]), 10, 64)
		if err != nil || r.Offset != next || !slices.Contains(m.may[r.Offset], id) {
			return fmt.Errorf("record %d at offset %d, where %v may be and %d is next (%w)", id, r.Offset, m.may[r.Offset], next, err)
		}
		if want, ok := m.must[r.Offset]; ok && want != id {
			return fmt.Errorf("record %d at offset %d, where %d was acknowledged", id, r.Offset, want)
		}
		next++
	}
	for o, id := range m.must {
		if o >= next {
			return fmt.Errorf("lost: record %d at offset %d was acknowledged, the log is [%d,%d)", id, o, start, end)
		}
	}
	return nil
}

// sharedWork runs operations on logs that share a journal, one after the other, and keeps the
// model.
type sharedWork struct {
	fs   *vfs.MemFS
	rnd  *rand.Rand
	dir  *Directory
	logs []*Log
	id   int64
	ops  []string

	mu     sync.Mutex // guards models
	models []*sharedModel
}

func sharedConfig(fsys vfs.FS) Config {
	return Config{FS: fsys, SegmentBytes: 4000, RetentionAge: Unlimited}
}

func openSharedWork(fsys *vfs.MemFS, seed uint64, logs int) (w *sharedWork, err error) {
	w = &sharedWork{fs: fsys, rnd: rand.New(rand.NewPCG(seed, 7))}
	if w.dir, err = OpenDirectory(sharedDir, DirectoryConfig{FS: fsys, JournalBytes: 2 * 3072}); err != nil {
		return nil, err
	}
	if err := w.dir.alwaysShare(); err != nil {
		return nil, err
	}
	for i := range logs {
		l, err := w.open(i)
		if err != nil {
			return nil, err
		}
		w.logs, w.models = append(w.logs, l), append(w.models, newSharedModel())
	}
	return w, nil
}

func logPath(i int) string { return filepath.Join(sharedDir, fmt.Sprintf("topic-%d", i)) }

func (w *sharedWork) open(i int) (*Log, error) {
	cfg := sharedConfig(w.fs)
	cfg.Dir = w.dir
	return Open(logPath(i), cfg)
}

// change edits the model of a log.
func (w *sharedWork) change(i int, edit func(m *sharedModel)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edit(w.models[i])
}

func (w *sharedWork) snapshot() (ms []*sharedModel) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.models {
		ms = append(ms, m.clone())
	}
	return ms
}

// append submits a batch to each of some logs, and waits for all.
func (w *sharedWork) append() error {
	var done sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for i, l := range w.logs {
		if w.rnd.IntN(3) == 0 {
			continue
		}
		var b record.Builder
		n := 1 + w.rnd.Int64N(3)
		first := w.models[i].end
		w.change(i, func(m *sharedModel) {
			for k := range n {
				w.id++
				b.Append(&record.Record{Value: []byte(fmt.Sprintf("%010d%s", w.id, make([]byte, w.rnd.IntN(200))))})
				m.may[first+k] = append(m.may[first+k], w.id)
			}
			m.end += n
		})
		id := w.id - n + 1
		batch, err := b.Build(record.None)
		if err != nil {
			return err
		}
		done.Add(1)
		l.Submit(&Append{Batch: batch, LeaderEpoch: -1, Done: func(a *Append) {
			defer done.Done()
			if a.Err != nil || a.BaseOffset != first {
				mu.Lock()
				failed = fmt.Errorf("append to %d: offset %d, not %d: %w", i, a.BaseOffset, first, a.Err)
				mu.Unlock()
				return
			}
			w.change(i, func(m *sharedModel) {
				for k := range n {
					m.must[first+k] = id + k
				}
			})
		}})
	}
	done.Wait()
	return failed
}

// step does one random operation.
func (w *sharedWork) step() error {
	i := w.rnd.IntN(len(w.logs))
	l, m := w.logs[i], w.models[i]
	k := w.rnd.IntN(100)
	w.ops = append(w.ops, fmt.Sprintf("%d:%d", i, k))
	switch {
	case k < 66:
		return w.append()
	case k < 74:
		return w.truncate(i, l.StartOffset()+w.rnd.Int64N(l.EndOffset()-l.StartOffset()+1))
	case k < 78:
		to := m.end + w.rnd.Int64N(3)
		w.change(i, func(m *sharedModel) { clear(m.must); m.high = max(m.high, to) })
		if err := l.TruncateFully(to); err != nil {
			return err
		}
		w.change(i, func(m *sharedModel) { clear(m.may); m.low, m.high, m.end = to, to, to })
	case k < 83:
		to := l.StartOffset() + w.rnd.Int64N((l.EndOffset()-l.StartOffset())/2+1)
		w.change(i, func(m *sharedModel) {
			m.high = max(m.high, to)
			maps.DeleteFunc(m.must, func(o, _ int64) bool { return o < to })
		})
		if err := l.DeleteRecords(to); err != nil {
			return err
		}
		w.change(i, func(m *sharedModel) { m.low = max(m.low, to) })
	case k < 87:
		return l.Roll()
	case k < 90:
		return l.Sync()
	case k < 93:
		return w.remake(i)
	case k < 96:
		if err := l.Close(); err != nil {
			return err
		}
		l, err := w.open(i)
		w.logs[i] = l
		return err
	default:
		return w.dir.drainJournal()
	}
	return nil
}

// drainJournal empties the journal, as an idle journal is emptied.
func (d *Directory) drainJournal() error {
	j := &d.syncer.journal
	for !j.settling.CompareAndSwap(false, true) {
		runtime.Gosched()
	}
	defer j.settling.Store(false)
	return j.current.Drain()
}

// truncate truncates a log; batches are removed as a whole.
func (w *sharedWork) truncate(i int, to int64) error {
	w.change(i, func(m *sharedModel) { maps.DeleteFunc(m.must, func(o, _ int64) bool { return o >= to-2 }) })
	if err := w.logs[i].TruncateTo(to); err != nil {
		return err
	}
	end := w.logs[i].EndOffset()
	w.change(i, func(m *sharedModel) {
		m.end = end
		m.low, m.high = min(m.low, end), max(min(m.high, end), m.low)
		maps.DeleteFunc(m.may, func(o int64, _ []int64) bool { return o >= end })
		for o, ids := range m.may {
			if o >= w.logs[i].StartOffset() {
				m.must[o] = ids[len(ids)-1]
			}
		}
	})
	return nil
}

// remake removes a log and creates it again under the same name.
func (w *sharedWork) remake(i int) error {
	w.change(i, func(m *sharedModel) { m.removing = true })
	if err := w.logs[i].Remove(); err != nil {
		return err
	}
	w.change(i, func(m *sharedModel) { *m = *newSharedModel() })
	l, err := w.open(i)
	w.logs[i] = l
	return err
}

// reopenShared opens the logs after a crash and compares them with the models.
func reopenShared(fsys *vfs.MemFS, ms []*sharedModel) (err error) {
	d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: fsys})
	if err != nil {
		return err
	}
	entries, err := fsys.ReadDir(sharedDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == journalFile || filepath.Ext(e.Name()) == ".aside" {
			return fmt.Errorf("%s is there after recovery", e.Name())
		}
	}
	for i, m := range ms {
		cfg := sharedConfig(fsys)
		cfg.Dir = d
		if m.removing {
			continue
		}
		l, err := Open(logPath(i), cfg)
		if err != nil {
			return fmt.Errorf("log %d: %w", i, err)
		}
		if err := m.check(l); err != nil {
			return fmt.Errorf("log %d: %w", i, err)
		}
		if _, err := l.Append(context.Background(), record.Record{Value: []byte("more")}); err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return d.Close()
}

var sharedCrashes = []vfs.CrashOptions{
	{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost},
	{Data: vfs.CrashTorn, Sizes: vfs.CrashRandom, Entries: vfs.CrashRandom},
	{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashLost},
	{Data: vfs.CrashLost, Sizes: vfs.CrashKept, Entries: vfs.CrashKept},
	{Data: vfs.CrashOrdered, Sizes: vfs.CrashOrdered, Entries: vfs.CrashOrdered},
}

// A crash at any call of logs with a journal leaves every acknowledged record. It leaves no record
// that was truncated, deleted or of another log.
func TestSharedSyncsSurviveACrashAtEveryCall(t *testing.T) {
	t.Parallel()
	states, again := 0, 0
	for seed := range uint64(sampled(4, 1)) {
		fsys := vfs.Mem()
		w, err := openSharedWork(fsys, seed, 3)
		require.NoError(t, err)
		var fail error
		// the leader of shared rounds and the journal's upkeep are two goroutines
		var one sync.Mutex
		stop := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
			one.Lock()
			defer one.Unlock()
			if e.Op&vfs.OpChange == 0 || fail != nil {
				return
			}
			ms, disk := w.snapshot(), fsys.Kill()
			for i, m := range w.snapshot() { // begun in between
				ms[i].may, ms[i].removing, ms[i].high = m.may, ms[i].removing || m.removing, max(ms[i].high, m.high)
			}
			states++
			if fail = reopenShared(disk.Kill(), ms); fail != nil {
				fail = fmt.Errorf("killed before %v of %s: %w", e.Op, e.Name, fail)
				return
			}
			o := sharedCrashes[states%len(sharedCrashes)]
			o.Seed = seed<<20 + uint64(e.N)
			cut := disk.CrashWith(o)
			if states%17 == 0 {
				n, err := crashSharedRecovery(cut.Kill(), ms, o.Seed)
				again += n
				if fail = err; fail != nil {
					return
				}
			}
			if fail = reopenShared(cut, ms); fail != nil {
				fail = fmt.Errorf("power cut (%v) before %v of %s: %w", o.Data, e.Op, e.Name, fail)
			}
		}})
		for range 45 {
			require.NoError(t, w.step(), "seed %d", seed)
			one.Lock()
			err := fail
			one.Unlock()
			require.NoError(t, err, "seed %d %v", seed, w.ops)
		}
		stop()
		for _, l := range w.logs {
			require.NoError(t, l.Close())
		}
		require.NoError(t, w.dir.Close())
		require.NoError(t, reopenShared(fsys, w.snapshot()))
	}
	t.Log("states:", states, "within recovery:", again)
}

// crashSharedRecovery crashes again at every call of the recovery.
func crashSharedRecovery(fsys *vfs.MemFS, ms []*sharedModel, seed uint64) (n int, fail error) {
	var one sync.Mutex // guards n and fail while the logs are open
	stop := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		one.Lock()
		defer one.Unlock()
		if e.Op&vfs.OpChange == 0 || fail != nil {
			return
		}
		n++
		o := sharedCrashes[n%len(sharedCrashes)]
		o.Seed = seed + uint64(n)
		if fail = reopenShared(fsys.CrashWith(o), ms); fail != nil {
			fail = fmt.Errorf("crash during recovery, before %v of %s: %w", e.Op, e.Name, fail)
		}
	}})
	defer stop()
	d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: fsys})
	if err != nil {
		return n, err
	}
	for i := range ms {
		cfg := sharedConfig(fsys)
		cfg.Dir = d
		if ms[i].removing {
			continue
		}
		l, err := Open(logPath(i), cfg)
		if err != nil {
			return n, err
		}
		if err := l.Close(); err != nil {
			return n, err
		}
	}
	if err := d.Close(); err != nil {
		return n, err
	}
	return n, fail
}
