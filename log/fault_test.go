package log_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// watch records open files and failed syncs of a log.
type watch struct {
	mu sync.Mutex // guards the fields below

	open       map[string]int
	syncFailed map[string]bool
	retried    []string // log files synced after a failed Sync
	hits       int      // operations that failed
}

func watchFiles(fsys *vfs.FaultFS) *watch {
	w := &watch{open: make(map[string]int), syncFailed: make(map[string]bool)}
	fsys.Observe(vfs.Observer{After: w.after})
	return w
}

func (w *watch) after(e vfs.Event, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, syscall.EIO) || errors.Is(err, io.ErrShortWrite) {
		w.hits++
	}
	switch {
	case e.Op&(vfs.OpOpen|vfs.OpCreate) != 0 && err == nil:
		w.open[e.Name]++
	case e.Op == vfs.OpClose && !errors.Is(err, fs.ErrClosed):
		w.open[e.Name]--
	case e.Op == vfs.OpSync && strings.HasSuffix(e.Name, ".log"):
		if w.syncFailed[e.Name] {
			w.retried = append(w.retried, e.String())
		}
		w.syncFailed[e.Name] = w.syncFailed[e.Name] || err != nil
	}
}

// leaked returns the files that are open.
func (w *watch) leaked() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, n := range w.open {
		if n != 0 {
			names = append(names, fmt.Sprintf("%s (%d)", name, n))
		}
	}
	return names
}

// faultRun is a workload that continues after errors.
type faultRun struct {
	workload
	fsys  *vfs.MemFS
	watch *watch
	steps int
	write bool // the fault is one of writes: refused records must not be there
}

// run opens a log and works on it. Every error has to be the injected one. The log is checked
// after each error.
func (r *faultRun) run() (durable int64, err error) {
	cfg := exploreConfig(log.SyncOnAck)
	cfg.FS = r.fsys
	l, err := log.Open(exploreDir, cfg)
	if err != nil {
		return 0, injected(err)
	}
	r.log.Store(l)
	defer func() {
		durable = l.DurableOffset()
		err = errors.Join(err, injected(l.Close()))
	}()
	for range r.steps {
		from := r.nextID
		stepErr := r.step()
		if stepErr == nil {
			continue
		}
		if err := injected(stepErr); err != nil {
			return 0, err
		}
		if r.write && r.nextID > from {
			r.noteRefused(from)
		}
		if err := r.live(l); err != nil {
			return 0, fmt.Errorf("after %v: %w", stepErr, err)
		}
	}
	return 0, nil
}

// noteRefused adds a fact refused for each append since from that was not acknowledged.
func (r *faultRun) noteRefused(from int64) {
	confirmed := make(map[int64]bool)
	for _, f := range r.known() {
		if f.kind == acked {
			confirmed[f.id] = true
		}
	}
	for _, f := range r.known() {
		if f.kind == submitted && f.id >= from && !confirmed[f.id] {
			r.add(fact{kind: refused, id: f.id, n: f.n})
		}
	}
}

// live checks the records that the log returns after an error. A read may fail with the injected
// error.
func (r *faultRun) live(l *log.Log) error {
	c := cut{facts: r.known()}
	c.sure = len(c.facts)
	want := c.expect(true)
	f, err := readLog(l)
	if err != nil {
		return injected(err)
	}
	return want.check(f)
}

// injected returns nil if err is nil or the injected error.
func injected(err error) error {
	if err == nil || errors.Is(err, syscall.EIO) || errors.Is(err, io.ErrShortWrite) {
		return nil
	}
	return fmt.Errorf("an error that is not the injected one: %w", err)
}

var faults = []vfs.Fault{
	{Ops: vfs.OpWrite, Err: syscall.EIO},
	{Ops: vfs.OpWrite, Err: syscall.EIO, Keep: 1},
	{Ops: vfs.OpWrite, Keep: -1},
	{Ops: vfs.OpWrite, Err: syscall.EIO, Keep: 100},
	{Ops: vfs.OpSync, Err: syscall.EIO},
	{Ops: vfs.OpRead, Err: syscall.EIO},
	{Ops: vfs.OpRead, Err: syscall.EIO, Keep: -1},
	{Ops: vfs.OpOpen, Err: syscall.EIO},
	{Ops: vfs.OpCreate, Err: syscall.EIO},
	{Ops: vfs.OpRename, Err: syscall.EIO},
	{Ops: vfs.OpRemove, Err: syscall.EIO},
	{Ops: vfs.OpTruncate, Err: syscall.EIO},
	{Ops: vfs.OpAllocate, Err: syscall.EIO},
	{Ops: vfs.OpSyncDir, Err: syscall.EIO},
	{Ops: vfs.OpMkdir | vfs.OpLock | vfs.OpLink | vfs.OpChtimes, Err: syscall.EIO},
	{Ops: vfs.OpStat | vfs.OpReadDir, Err: syscall.EIO},
	{Ops: vfs.OpClose, Err: syscall.EIO},
}

// TestFaultAtEveryCall fails one call after the other, once or from then on, in a workload that
// continues.
func TestFaultAtEveryCall(t *testing.T) {
	stride := log.Sampled(4, 20)
	if thorough() {
		stride = 1
	}
	total := 0
	for _, fault := range faults {
		for _, times := range []int{1, vfs.Always} {
			fault.Times = times
			name := fmt.Sprintf("%s keep %d times %d", fault.Ops, fault.Keep, times)
			t.Run(name, func(t *testing.T) {
				stride := stride
				// the failed write is truncated, and the truncation must be durable
				if fault.Ops == vfs.OpWrite {
					stride = (stride + 1) / 2
				}
				look := sample.OneIn(t, stride)
				for n := 0; ; n++ {
					if !look(n) {
						continue
					}
					fault.After = n
					hits := 0
					synctest.Test(t, func(t *testing.T) { hits = faultAt(t, fault) })
					total++
					if hits == 0 {
						break
					}
				}
			})
		}
	}
	t.Logf("%d runs", total)
}

// faultAt runs the workload with one fault, then opens the log without it, and checks its records
// in several ways.
func faultAt(t *testing.T, fault vfs.Fault) (hits int) {
	fsys := vfs.Mem()
	r := &faultRun{
		workload: workload{rnd: rand.New(rand.NewPCG(7, 1)), policy: log.SyncOnAck},
		fsys:     fsys, watch: watchFiles(fsys.FaultFS), steps: 60, write: fault.Ops == vfs.OpWrite,
	}
	remove := fsys.Inject(fault)
	durable, err := r.run()
	remove()
	require.NoError(t, err, "fault after %d", fault.After)
	require.Empty(t, r.watch.retried, "synced again after a failed Sync; fault after %d", fault.After)
	if fault.Ops != vfs.OpClose {
		require.Empty(t, r.watch.leaked(), "files left open; fault after %d", fault.After)
	}
	c := cut{fs: fsys, facts: r.known(), durable: durable}
	c.sure = len(c.facts)
	again := &reopening{cfg: exploreConfig(log.SyncOnAck)}
	for i, v := range variants[:5] {
		require.NoError(t, again.state(&c, v, uint64(fault.After)<<8+uint64(i)), "fault after %d, then crash %q", fault.After, v.name)
	}
	require.NoError(t, again.reopen(fsys, &c, true), "fault after %d, then reopened", fault.After)
	return r.watch.hits
}

// openMem opens a log in a new file system in memory.
func openMem(t testing.TB, cfg log.Config) (*log.Log, *vfs.MemFS) {
	fsys := vfs.Mem()
	cfg.FS = fsys
	l, err := log.Open(exploreDir, cfg)
	require.NoError(t, err)
	return l, fsys
}

// appendID appends the record with an id.
func appendID(l *log.Log, id int64) (int64, error) {
	return l.Append(context.Background(), record.Record{Value: valueOf(id)})
}

func TestFullDiskHealsWithoutReopening(t *testing.T) {
	for _, keep := range []int{0, 1, 70, -1} {
		fullDiskHeals(t, log.SyncOnAck, keep)
		fullDiskHeals(t, log.SyncNever, keep)
	}
}

func fullDiskHeals(t *testing.T, policy log.SyncPolicy, keep int) {
	l, fsys := openMem(t, exploreConfig(policy))
	for id := range int64(5) {
		_, err := appendID(l, id)
		require.NoError(t, err)
	}
	free := fsys.Inject(vfs.Fault{Ops: vfs.OpWrite | vfs.OpCreate | vfs.OpAllocate, Pattern: "*.log", Err: syscall.ENOSPC, Keep: keep, Times: vfs.Always})
	for id := range int64(5) {
		_, err := appendID(l, 100+id)
		require.ErrorIs(t, err, syscall.ENOSPC)
		f, err := readLog(l)
		require.NoError(t, err)
		require.Equal(t, []int64{0, 1, 2, 3, 4}, f.ids, "no half batch is visible")
	}
	free()
	offset, err := appendID(l, 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, offset)
	require.NoError(t, l.Close())
	f := reread(t, fsys)
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5}, f.ids)
}

// reread opens the log again and reads it.
func reread(t testing.TB, fsys vfs.FS) found {
	cfg := exploreConfig(log.SyncOnAck)
	cfg.FS = fsys
	l, err := log.Open(exploreDir, cfg)
	require.NoError(t, err)
	f, err := readLog(l)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return f
}

func TestAppendAfterFailedSyncReturnsSameError(t *testing.T) {
	l, fsys := openMem(t, exploreConfig(log.SyncOnAck))
	w := watchFiles(fsys.FaultFS)
	for id := range int64(3) {
		_, err := appendID(l, id)
		require.NoError(t, err)
	}
	fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: syscall.EIO})
	_, first := appendID(l, 3)
	require.ErrorIs(t, first, syscall.EIO)
	for id := int64(4); id < 8; id++ {
		_, err := appendID(l, id)
		require.ErrorIs(t, err, syscall.EIO)
		require.Equal(t, first.Error(), err.Error())
	}
	require.ErrorIs(t, l.Sync(), syscall.EIO)
	require.EqualValues(t, 3, l.DurableOffset())
	buf, err := l.ReadUpTo(nil, 0, 1<<20, 3)
	require.NoError(t, err)
	require.NotEmpty(t, buf, "what is durable stays readable")
	_ = l.Close()
	require.Empty(t, w.retried)
	require.Subset(t, reread(t, fsys.Kill()).ids, []int64{0, 1, 2})
	require.Equal(t, []int64{0, 1, 2}, reread(t, fsys.CrashWith(variants[1].CrashOptions)).ids)
}

func TestReadErrorConcernsThatReadOnly(t *testing.T) {
	l, fsys := openMem(t, exploreConfig(log.SyncOnAck))
	for id := range int64(40) {
		_, err := appendID(l, id)
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	for _, fault := range []vfs.Fault{{Err: syscall.EIO}, {Keep: -1}, {Keep: 10}, {Err: syscall.EIO, Keep: -1}} {
		for n := 0; ; n++ {
			cold := fsys.Kill()
			cfg := exploreConfig(log.SyncOnAck)
			cfg.FS = cold
			l, err := log.Open(exploreDir, cfg)
			require.NoError(t, err)
			before := cold.Count(vfs.OpRead)
			fault.Ops, fault.After = vfs.OpRead, n
			remove := cold.Inject(fault)
			f, err := readLog(l)
			remove()
			if err != nil && fault.Err != nil {
				require.ErrorIs(t, err, syscall.EIO)
			}
			for i, id := range f.ids {
				require.EqualValues(t, i, id)
			}
			hit := cold.Count(vfs.OpRead)-before > int64(n)
			require.True(t, err != nil || len(f.ids) == 40, "a read that failed (%d) was taken for the end", n)
			f, err = readLog(l)
			require.NoError(t, err, "the next read is fine")
			require.Len(t, f.ids, 40)
			require.NoError(t, l.Close())
			if !hit {
				break
			}
		}
	}
}
