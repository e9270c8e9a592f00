package explore

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

const root = "/data"

// A world is a file system with some logs, as a Script describes it.
type world struct {
	history

	args   Args
	fs     *vfs.MemFS
	dir    *log.Directory // nil if the logs do not share a directory
	share  func(*log.Directory) error
	logs   []*member
	cuts   *cuts
	faults []func() // each disarms one fault
	faulty bool     // a fault is armed
	// true once a fault was armed: a log's state file may then be incomplete after an orderly
	// close
	hurt bool
	// number of facts known before two overlapping operations began, plus 1; 0 if none overlap
	overlap atomic.Int64
	backup  int          // number of the next backup
	doubts  doubts       // failed syncs since the last crash
	op      atomic.Int64 // index of the operation in progress
}

// A member is a log of a world.
type member struct {
	index int
	path  string
	owner *owner
	log   atomic.Pointer[log.Log] // nil if an injected fault kept it from opening
	half  bool                    // its removal failed: either all of it is left or nothing

	mu     sync.Mutex // guards the fields below
	cfg    log.Config // without the fields that config sets at each opening
	policy log.SyncPolicy
	epoch  int32
}

func newWorld(s *Script) *world {
	w := &world{args: s.World, fs: vfs.Mem(), cuts: &cuts{}}
	for i := range max(s.World.Int("logs"), 1) {
		m := &member{index: int(i), path: fmt.Sprintf("%s/t-%d", root, i), owner: &owner{}}
		m.cfg = configOf(s.World, log.Config{})
		m.policy = m.cfg.Sync
		w.logs = append(w.logs, m)
	}
	return w
}

var policies = map[string]log.SyncPolicy{"ack": log.SyncOnAck, "never": log.SyncNever, "interval": log.SyncInterval(time.Second)}

var cleanups = map[string]log.CleanupPolicy{"delete": log.CleanupDelete, "compact": log.CleanupCompact, "both": log.CleanupCompact | log.CleanupDelete, "none": log.CleanupNone}

// configOf returns cfg with the settings that args name.
func configOf(args Args, cfg log.Config) log.Config {
	cfg.MinDirtyRatio, cfg.RetentionAge = 1e-9, log.Unlimited
	cfg.IndexIntervalBytes, cfg.IndexBytes = 300, 120
	if p, ok := policies[args["sync"]]; ok {
		cfg.Sync = p
	}
	if c, ok := cleanups[args["cleanup"]]; ok {
		cfg.Cleanup = c
	}
	if n := args.Int("segment"); n > 0 {
		cfg.SegmentBytes = n
	}
	if n := args.Int("retention"); n != 0 {
		cfg.RetentionBytes = n
	}
	if n := args.Int("age"); n > 0 {
		cfg.RetentionAge = time.Duration(n) * time.Millisecond
	}
	if n := args.Int("delay"); n > 0 {
		cfg.DeleteDelay = time.Duration(n) * time.Millisecond
	}
	return cfg
}

// config returns the configuration that m is opened with.
func (w *world) config(m *member, fsys vfs.FS, dir *log.Directory, o log.Owner) log.Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	cfg := m.cfg
	cfg.FS, cfg.Dir, cfg.Owner = fsys, dir, o
	return cfg
}

// openAll opens the directory, if the logs share one, and the logs.
func (w *world) openAll() error {
	if w.args.Int("shared") > 0 {
		d, err := log.OpenDirectory(root, log.DirectoryConfig{FS: w.fs, TailBytes: w.args.Int("tail"), JournalBytes: w.args.Int("journal")})
		if err != nil {
			return w.injected(err)
		}
		w.dir = d
		if w.args.Int("share") > 0 && w.share != nil {
			if err := w.share(d); err != nil && !w.faulty {
				return err
			}
		}
	}
	for _, m := range w.logs {
		if err := w.open(m); err != nil {
			return err
		}
	}
	return nil
}

// open opens a log and gives its owner the records found in it.
func (w *world) open(m *member) error {
	if w.args.Int("shared") > 0 && w.dir == nil {
		return nil
	}
	failed := w.doubts.of(m.path)
	l, err := log.Open(m.path, w.config(m, w.fs, w.dir, m.owner))
	if err != nil {
		return w.injected(err)
	}
	w.doubts.resolved(m.path, failed)
	m.log.Store(l)
	f, err := readLog(l)
	if err != nil {
		return w.injected(err)
	}
	if m.half {
		facts := w.known()
		if err := expect(facts, len(facts), m.index, 0, true).check(f); err != nil {
			return fmt.Errorf("removal that failed: %w", err)
		}
		m.half = false
		if f.end > 0 {
			w.begin(m, l, f)
			return nil
		}
		w.add(fact{kind: vanished, log: m.index})
	}
	m.owner.begin(f)
	w.add(fact{kind: synced, log: m.index, offset: l.DurableOffset()})
	return nil
}

// closeAll closes the logs and the directory.
func (w *world) closeAll() error {
	var errs []error
	for _, m := range w.logs {
		if l := m.log.Swap(nil); l != nil {
			errs = append(errs, l.Close())
		}
	}
	if w.dir != nil {
		errs = append(errs, w.dir.Close())
		w.dir = nil
	}
	return errors.Join(errs...)
}

// run runs the operations of s. An error is a violation.
func (w *world) run(s *Script) error {
	w.observe()
	defer func() { w.cuts.stop() }()
	if err := w.openAll(); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	for i := range s.Ops {
		w.op.Store(int64(i))
		if err := w.do(&s.Ops[i]); err != nil {
			return fmt.Errorf("operation %d, %q: %w", i+1, s.Ops[i].String(), err)
		}
	}
	w.op.Store(int64(len(s.Ops)))
	w.heal()
	w.cuts.take(w, vfs.Event{})
	for _, m := range w.logs {
		if err := w.reopen(m); err != nil {
			return fmt.Errorf("reopened at the end: %w", err)
		}
	}
	return nil
}

// end stops the cuts, disarms the faults, and closes the logs.
func (w *world) end() error {
	w.cuts.stop()
	w.heal()
	return w.closeAll()
}

// check compares an open log with the content expected from its history.
func (w *world) check(m *member) error {
	l := m.log.Load()
	if l == nil {
		return nil
	}
	facts := w.known()
	e := expect(facts, len(facts), m.index, 0, true)
	f, err := readLog(l)
	if err != nil {
		return w.injected(err)
	}
	if l.Err() != nil {
		// the failed operation may be half done: the next open completes or undoes it
		return e.check(f)
	}
	return w.injected(errors.Join(e.check(f), e.checkEpochs(l), checkSnapshots(l, f), checkTimes(l, f)))
}

// reopen closes and opens a log.
func (w *world) reopen(m *member) error {
	l := m.log.Swap(nil)
	clean := false
	if l != nil {
		err := l.Close()
		if clean = err == nil; !clean && l.Err() == nil {
			err = w.injected(err)
		} else {
			err = nil // the log reports that it is broken
		}
		if err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	if err := w.open(m); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if l = m.log.Load(); l == nil {
		return nil
	}
	if clean && !w.hurt && !l.Recovery().Clean {
		return fmt.Errorf("closed in order, and recovered: %+v", l.Recovery())
	}
	return w.check(m)
}

// heal disarms all faults.
func (w *world) heal() {
	for _, remove := range w.faults {
		remove()
	}
	w.faults, w.faulty = nil, false
}

// youngest returns the largest log start that retention may leave; math.MaxInt64 means the end.
func (w *world) youngest(m *member, e *expectation) int64 {
	m.mu.Lock()
	cfg := m.cfg
	m.mu.Unlock()
	if !cfg.Cleanup.Deletes() {
		return 0
	}
	if cfg.RetentionBytes > 0 || cfg.RetentionAge < 0 {
		return math.MaxInt64
	}
	limit := time.Now().Add(-cfg.RetentionAge).UnixMilli()
	start := m.log.Load().StartOffset()
	for _, o := range e.offsets() { // a record below the log start protects no later one
		if o >= start && e.slots[o].ts >= limit {
			return o
		}
	}
	return math.MaxInt64
}
