package log_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A workload on one log that continues after errors, for TestFaultAtEveryCall. The expected
// records come from a ledger of the log's acknowledgements. Package explore does the same with
// scripts, for crashes.

const exploreDir = "/data/t-0"

// exploreConfig configures a log that rolls, indexes and deletes every few appends. The policy
// decides whether removed files are deleted at once, after a delay, or never.
func exploreConfig(policy log.SyncPolicy) log.Config {
	cfg := log.Config{SegmentBytes: 3000, RetentionBytes: 12_000, RetentionAge: log.Unlimited, Sync: policy}
	cfg.IndexIntervalBytes = 300
	cfg.IndexBytes = 120
	cfg.Owner = exploreOwner{}
	switch {
	case policy == log.SyncNever:
		cfg.DeleteDelay = time.Hour
	case policy.Interval() > 0:
		cfg.DeleteDelay = policy.Interval() // as long as a pause of the workload, or two
	}
	return cfg
}

// exploreOwner returns a snapshot for each offset.
type exploreOwner struct{}

func (exploreOwner) Admit(*log.Append) error      { return nil }
func (exploreOwner) Written([]*log.Append)        {}
func (exploreOwner) Refused([]*log.Append, error) {}
func (exploreOwner) Durable(int64)                {}
func (exploreOwner) Snapshot(offset int64) []byte { return valueOf(offset) }

// checkSnapshots checks that snapshots are complete and not above the end offset.
func checkSnapshots(l *log.Log) error {
	offsets, err := l.SnapshotFiles()
	if err != nil {
		return err
	}
	for _, o := range offsets {
		if o > l.EndOffset() {
			return fmt.Errorf("snapshot of %d in a log that ends at %d", o, l.EndOffset())
		}
		if p, err := l.ReadSnapshot(o); err != nil || !bytes.Equal(p, valueOf(o)) {
			return fmt.Errorf("snapshot of %d is %.40q: %w", o, p, err)
		}
	}
	return nil
}

type factKind uint8

const (
	submitted  factKind = iota // ids [id, id+n) have been submitted to the log
	refused                    // and refused: their write failed
	written                    // and appended from offset on
	acked                      // and acknowledged as on stable storage
	synced                     // everything below offset is on stable storage
	deleting                   // DeleteRecords(offset) has begun
	deleted                    // and returned
	cleaning                   // Clean has begun
	cleaned                    // and returned; the log starts at offset
	truncating                 // TruncateTo(offset) has begun
	restarting                 // TruncateFully(offset) has begun; offset is at or above the end
	restarted                  // and returned
)

// fact is one event of the workload.
type fact struct {
	kind   factKind
	id, n  int64
	offset int64
}

// ledger has the events of the workload, in the order it observed them.
type ledger struct {
	mu sync.Mutex // guards the field below

	facts []fact
}

func (l *ledger) add(f fact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.facts = append(l.facts, f)
}

// known returns the facts so far. The slice is never written to again.
func (l *ledger) known() []fact {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.facts)
}

// expectation is the required state of a reopened log.
type expectation struct {
	must      map[int64]int64 // offset -> id, if the log does not start above
	ids       int64           // only lower ids have ever been submitted
	refused   map[int64]bool  // and these must not be there
	low, high int64           // bounds of the start offset
}

// expect derives the expectation from the facts at a cut. After a kill every written record has to
// be there. After a power cut every durable record has to be there: acknowledged, or below the
// durable offset that the log reported.
func (c *cut) expect(killed bool) expectation {
	e := expectation{must: make(map[int64]int64), refused: make(map[int64]bool)}
	maybe := make(map[int64]int64)
	// Undecided: a DeleteRecords that has not returned, or failed.
	stable, undecided := int64(0), int64(0)
	for i, f := range c.facts {
		sure := i < c.sure
		switch f.kind {
		case submitted:
			e.ids = max(e.ids, f.id+f.n)
		case refused:
			for i := range f.n {
				// Killed or not: the truncation was made durable before the refusal.
				e.refused[f.id+i] = true
			}
		case written, acked:
			if !sure {
				continue
			}
			for i := range f.n {
				maybe[f.offset+i] = f.id + i
				if f.kind == acked {
					e.must[f.offset+i] = f.id + i
				}
			}
		case synced:
			if sure {
				stable = max(stable, f.offset)
			}
		case deleting:
			e.high = max(e.high, f.offset)
			undecided = max(undecided, f.offset)
		case deleted:
			if sure {
				e.low = max(e.low, f.offset)
			}
			if f.offset == undecided {
				undecided = 0
			}
		case cleaning:
			e.high = math.MaxInt64
		case cleaned:
			if sure {
				e.high = max(f.offset, undecided)
			}
		case truncating:
			for _, m := range []map[int64]int64{e.must, maybe} {
				for o := range m {
					if o >= f.offset {
						delete(m, o)
					}
				}
			}
			stable = min(stable, f.offset)
		case restarting:
			clear(e.must)
			clear(maybe)
			e.high = max(e.high, f.offset)
			undecided = max(undecided, f.offset)
		case restarted:
			if sure {
				e.low, e.high, undecided = f.offset, f.offset, 0
			}
		}
	}
	for o, id := range maybe {
		if killed || o < stable || o < c.durable {
			e.must[o] = id
		}
	}
	return e
}

// found is the content of a log.
type found struct {
	start, end int64
	ids        []int64 // of the records from start on
}

// valueOf returns the value with an id: its number, and filler bytes that depend on it.
func valueOf(id int64) []byte {
	b := strconv.AppendInt(nil, id, 10)
	h := uint64(id) * 0x9e3779b97f4a7c15
	return append(append(b, ':'), bytes.Repeat([]byte{byte('a' + h%26)}, int(h>>32%400))...)
}

// idOf is the inverse of valueOf.
func idOf(value []byte) (int64, error) {
	number, _, _ := bytes.Cut(value, []byte(":"))
	id, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || !bytes.Equal(value, valueOf(id)) {
		return 0, fmt.Errorf("invented value %.40q", value)
	}
	return id, nil
}

// readLog reads a log from its start to its end.
func readLog(l *log.Log) (found, error) {
	f := found{start: l.StartOffset(), end: l.EndOffset()}
	buf := []byte(nil)
	for next := f.start; next < f.end; {
		var err error
		if buf, err = l.Read(buf[:0], next, 4000); err != nil {
			return f, fmt.Errorf("read at %d of [%d,%d): %w", next, f.start, f.end, err)
		}
		if len(buf) == 0 && next >= l.DurableOffset() && l.Err() != nil {
			break // records in doubt after a failed sync are not read
		}
		if len(buf) == 0 {
			return f, fmt.Errorf("nothing at %d of [%d,%d)", next, f.start, f.end)
		}
		for rest := buf; len(rest) > 0; {
			b, n, err := record.Parse(rest)
			if err != nil {
				return f, fmt.Errorf("read returned a bad batch at %d: %w", next, err)
			}
			if next, err = f.addBatch(b, next); err != nil {
				return f, err
			}
			rest = rest[n:]
		}
	}
	return f, nil
}

// addBatch adds the records from offset next on and returns the offset after the last.
func (f *found) addBatch(b *record.Batch, next int64) (int64, error) {
	for r, err := range b.All() {
		if err != nil {
			return next, fmt.Errorf("batch at %d: %w", b.BaseOffset, err)
		}
		if r.Offset < next && len(f.ids) == 0 {
			continue // a batch that begins below the start offset
		}
		if r.Offset != next {
			return next, fmt.Errorf("offset %d where %d should be", r.Offset, next)
		}
		id, err := idOf(r.Value)
		if err != nil {
			return next, fmt.Errorf("offset %d: %w", next, err)
		}
		f.ids = append(f.ids, id)
		next++
	}
	return next, nil
}

// check compares the content of a log with the expectation.
func (e *expectation) check(f found) error {
	if f.start < e.low || f.start > max(e.high, 0) {
		return fmt.Errorf("starts at %d, outside [%d,%d]", f.start, e.low, e.high)
	}
	last := int64(-1)
	for i, id := range f.ids {
		switch {
		case id >= e.ids:
			return fmt.Errorf("offset %d: value %d was never appended", f.start+int64(i), id)
		case e.refused[id]:
			return fmt.Errorf("offset %d: value %d had been refused", f.start+int64(i), id)
		case id <= last:
			return fmt.Errorf("offset %d: value %d after %d", f.start+int64(i), id, last)
		}
		last = id
	}
	for o, id := range e.must {
		if o < f.start {
			continue // deleted
		}
		if i := o - f.start; i >= int64(len(f.ids)) {
			return fmt.Errorf("lost: value %d at offset %d was confirmed, the log ends at %d", id, o, f.end)
		} else if f.ids[i] != id {
			return fmt.Errorf("lost: value %d at offset %d was confirmed, there is %d", id, o, f.ids[i])
		}
	}
	return nil
}

// workload runs operations on a log and keeps the ledger.
type workload struct {
	ledger

	log    atomic.Pointer[log.Log]
	rnd    *rand.Rand
	policy log.SyncPolicy
	nextID int64
	epoch  int32
}

// append appends n records as one batch and waits for the acknowledgement.
func (w *workload) append(n int) error {
	id, records := w.take(n)
	offset, err := w.log.Load().Append(context.Background(), records...)
	return w.appended(id, int64(n), offset, err)
}

// take returns n new records.
func (w *workload) take(n int) (id int64, records []record.Record) {
	id = w.nextID
	w.nextID += int64(n)
	for i := range n {
		records = append(records, record.Record{Value: valueOf(id + int64(i))})
	}
	w.add(fact{kind: submitted, id: id, n: int64(n)})
	return id, records
}

// appended adds the result of an append to the ledger.
func (w *workload) appended(id, n, offset int64, err error) error {
	if err != nil {
		return err
	}
	kind := written
	if w.policy == log.SyncOnAck {
		kind = acked
	}
	w.add(fact{kind: kind, id: id, n: n, offset: offset})
	return nil
}

// burst submits several batches before it waits for any of them.
func (w *workload) burst(batches int) error {
	var wg sync.WaitGroup
	errs := make([]error, batches)
	for i := range batches {
		n := 1 + w.rnd.IntN(3)
		id, records := w.take(n)
		var b record.Builder
		for i := range records {
			b.Append(&records[i])
		}
		batch, err := b.Build(record.None)
		if err != nil {
			return err
		}
		wg.Add(1)
		w.log.Load().Submit(&log.Append{Batch: batch, LeaderEpoch: -1, Done: func(a *log.Append) {
			defer wg.Done()
			errs[i] = w.appended(id, int64(n), a.BaseOffset, a.Err)
		}})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// step does one random operation.
func (w *workload) step() error {
	l := w.log.Load()
	switch k := w.rnd.IntN(100); {
	case k < 45:
		return w.append(1 + w.rnd.IntN(4))
	case k < 60:
		return w.burst(2 + w.rnd.IntN(4))
	case k < 68:
		end := l.EndOffset()
		if err := l.Sync(); err != nil {
			return err
		}
		w.add(fact{kind: synced, offset: end})
		return nil
	case k < 72:
		return l.Roll()
	case k < 76:
		return w.deleteRecords()
	case k < 82:
		w.add(fact{kind: cleaning})
		_, err := l.Clean(context.Background())
		if err == nil {
			w.add(fact{kind: cleaned, offset: l.StartOffset()})
		}
		return err
	case k < 87:
		to := max(l.StartOffset(), l.EndOffset()-w.rnd.Int64N(12))
		w.add(fact{kind: truncating, offset: w.batchOf(to)})
		return l.TruncateTo(to)
	case k < 89:
		start := l.EndOffset() + w.rnd.Int64N(5)
		w.add(fact{kind: restarting, offset: start})
		err := l.TruncateFully(start)
		if err == nil {
			w.add(fact{kind: restarted, offset: start})
		}
		return err
	case k < 95:
		w.epoch++
		return l.SetLeaderEpoch(w.epoch)
	}
	return nil
}

// batchOf returns the first offset of the batch that offset is inside of: batches are truncated as
// a whole.
func (w *workload) batchOf(offset int64) int64 {
	base := offset
	for _, f := range w.known() {
		if (f.kind == written || f.kind == acked) && f.offset < offset && offset < f.offset+f.n {
			base = f.offset // the last one counts; earlier ones were truncated
		}
	}
	return base
}

func (w *workload) deleteRecords() error {
	l := w.log.Load()
	before := l.StartOffset()
	if room := l.EndOffset() - before; room > 0 {
		before += w.rnd.Int64N(room/3 + 1)
	}
	w.add(fact{kind: deleting, offset: before})
	err := l.DeleteRecords(before)
	if err == nil {
		w.add(fact{kind: deleted, offset: before})
	}
	return err
}

// cut is a moment to crash at: before one call of the workload.
type cut struct {
	fs      *vfs.MemFS
	facts   []fact // known after the file system was copied
	sure    int    // number of facts known before the copy; the others may or may not hold for it
	durable int64
}

// variant is one kind of crash.
type variant struct {
	name   string
	killed bool // the process only
	vfs.CrashOptions
}

var variants = []variant{
	{name: "killed", killed: true},
	{name: "none", CrashOptions: vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}},
	{name: "all", CrashOptions: vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept}},
	{name: "random", CrashOptions: vfs.CrashOptions{}},
	{name: "torn", CrashOptions: vfs.CrashOptions{Data: vfs.CrashTorn}},
	{name: "torn, entries kept", CrashOptions: vfs.CrashOptions{Data: vfs.CrashTorn, Sizes: vfs.CrashKept, Entries: vfs.CrashKept}},
	{name: "zeros", CrashOptions: vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashKept, Entries: vfs.CrashKept}},
	{name: "entries lost", CrashOptions: vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashLost}},
	{name: "entries random", CrashOptions: vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept}},
	{name: "ordered", CrashOptions: vfs.CrashOptions{Data: vfs.CrashOrdered, Sizes: vfs.CrashOrdered, Entries: vfs.CrashOrdered}},
}

// apply returns the disk after the crash.
func (v variant) apply(fsys *vfs.MemFS, seed uint64) *vfs.MemFS {
	if v.killed {
		return fsys.Kill()
	}
	o := v.CrashOptions
	o.Seed = seed
	return fsys.CrashWith(o)
}

// reopening checks logs that are opened after a crash.
type reopening struct {
	cfg log.Config
}

// state checks the disk after a variant of a crash at a cut.
func (r *reopening) state(c *cut, v variant, seed uint64) error {
	fsys := v.apply(c.fs, seed)
	return r.reopen(fsys, c, v.killed)
}

// reopen checks the records of the opened log, and that a second open finds the same ones. It
// checks that appends succeed, and that records below the durable offset are durable.
func (r *reopening) reopen(fsys *vfs.MemFS, c *cut, killed bool) error {
	want := c.expect(killed)
	first, durable, err := r.look(fsys, &want, nil)
	if err != nil {
		return err
	}
	lost := fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	second, _, err := r.look(fsys, &want, func(l *log.Log) error {
		_, err := l.Append(context.Background(), record.Record{Value: valueOf(want.ids)})
		return err
	})
	if err != nil {
		return fmt.Errorf("second time: %w", err)
	}
	if first.start != second.start || !slices.Equal(first.ids, second.ids) {
		return fmt.Errorf("the first time it held [%d,%d), the second time [%d,%d)", first.start, first.end, second.start, second.end)
	}
	if killed {
		want = c.expect(false)
	}
	third, _, err := r.look(lost, &want, nil)
	if err != nil {
		return fmt.Errorf("power cut after reopening: %w", err)
	}
	if third.end < durable {
		return fmt.Errorf("called durable up to %d, after a power cut it ends at %d", durable, third.end)
	}
	return nil
}

// look opens the log, checks its content, and closes it. The durable offset is the one at the end
// of Open.
func (r *reopening) look(fsys *vfs.MemFS, want *expectation, use func(*log.Log) error) (f found, durable int64, err error) {
	cfg := r.cfg
	cfg.FS = fsys
	l, err := log.Open(exploreDir, cfg)
	if err != nil {
		return f, 0, fmt.Errorf("open: %w", err)
	}
	durable = l.DurableOffset()
	if f, err = readLog(l); err == nil {
		err = errors.Join(want.check(f), checkSnapshots(l))
	}
	if err == nil && use != nil {
		err = use(l)
	}
	return f, durable, errors.Join(err, l.Close())
}
