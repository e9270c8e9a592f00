package explore

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

// A Crash is one way in which a process or a machine stops.
type Crash struct {
	Name   string
	Killed bool // only the process is killed
	vfs.CrashOptions
}

// Crashes has all kinds of crashes.
var Crashes = []Crash{
	{Name: "killed", Killed: true},
	{Name: "lost", CrashOptions: vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}},
	{Name: "kept", CrashOptions: vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept}},
	{Name: "random", CrashOptions: vfs.CrashOptions{}},
	{Name: "torn", CrashOptions: vfs.CrashOptions{Data: vfs.CrashTorn}},
	{Name: "torn-named", CrashOptions: vfs.CrashOptions{Data: vfs.CrashTorn, Sizes: vfs.CrashKept, Entries: vfs.CrashKept}},
	{Name: "zeros", CrashOptions: vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashKept, Entries: vfs.CrashKept}},
	{Name: "names-lost", CrashOptions: vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashLost}},
	{Name: "names-random", CrashOptions: vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept}},
	{Name: "ordered", CrashOptions: vfs.CrashOptions{Data: vfs.CrashOrdered, Sizes: vfs.CrashOrdered, Entries: vfs.CrashOrdered}},
}

// of returns the file system that the crash leaves of fsys.
func (c Crash) of(fsys *vfs.MemFS, seed uint64) *vfs.MemFS {
	if c.Killed {
		return fsys.Kill()
	}
	o := c.CrashOptions
	o.Seed = seed
	return fsys.CrashWith(o)
}

func crashNamed(name string) Crash {
	for _, c := range Crashes {
		if c.Name == name {
			return c
		}
	}
	return Crashes[0]
}

// A cut is a moment before a file system call at which a crash is tried.
type cut struct {
	fs      *vfs.MemFS
	facts   []fact // known after the file system was copied
	sure    int    // number of facts known before the copy; the others may have come true since
	durable []int64
	cfgs    []log.Config // of the logs
	event   vfs.Event
	doubt   bool // a sync failed and was not noted on disk, so the next process cannot know it
	op      int  // index of the operation in progress
}

// cuts holds the cuts taken while a script runs.
type cuts struct {
	mu      sync.Mutex // guards the fields below
	list    []cut
	calls   int
	every   int // take every every-th call; 0 means none
	from    int // index of the first operation in which cuts are taken
	unwatch func()
}

// observe starts to take cuts of the current file system.
func (w *world) observe() {
	w.cuts.stop()
	w.doubts.clear()
	w.cuts.unwatch = w.fs.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange != 0 {
			w.cuts.take(w, e)
		}
	}, After: func(e vfs.Event, err error) {
		if e.Op == vfs.OpSync && err != nil && strings.HasSuffix(e.Name, ".log") {
			w.doubts.add(filepath.Dir(e.Name))
		}
	}})
}

func (c *cuts) stop() {
	if c.unwatch != nil {
		c.unwatch()
		c.unwatch = nil
	}
}

func (c *cuts) take(w *world, e vfs.Event) {
	c.mu.Lock()
	c.calls++
	skip := c.every == 0 || c.calls%c.every != 0 || int(w.op.Load()) < c.from
	c.mu.Unlock()
	if skip {
		return
	}
	one := w.now(e)
	c.mu.Lock()
	c.list = append(c.list, one)
	c.mu.Unlock()
}

// now returns a cut of this moment. On a busy machine a background goroutine takes a while for it,
// and the script continues. A cut during which a log was removed is therefore taken again, still
// before the call. Otherwise its file system might hold the log created in the removed one's
// place, which the sure facts do not include.
func (w *world) now(e vfs.Event) cut {
	for {
		if one := w.taken(e); !one.spansRemoval() {
			return one
		}
	}
}

// spansRemoval reports whether a log was removed after the sure facts were counted.
func (c *cut) spansRemoval() bool {
	return slices.ContainsFunc(c.facts[min(c.sure, len(c.facts)):], func(f fact) bool { return f.kind == removed })
}

func (w *world) taken(e vfs.Event) cut {
	one := cut{sure: len(w.known()), event: e, op: int(w.op.Load())}
	if at := int(w.overlap.Load()); at > 0 {
		one.sure = min(one.sure, at-1)
	}
	for _, m := range w.logs {
		durable := int64(0)
		if l := m.log.Load(); l != nil {
			durable = l.DurableOffset()
		}
		one.durable = append(one.durable, durable)
		one.cfgs = append(one.cfgs, w.config(m, nil, nil, nil))
	}
	one.fs = w.fs.Kill()
	one.doubt = w.doubts.left(one.fs)
	one.facts = w.known()
	return one
}

// doubts counts the syncs that failed in each log directory since the log was opened.
type doubts struct {
	mu    sync.Mutex // guards the field below
	syncs map[string]int
}

func (d *doubts) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs = nil
}

func (d *doubts) add(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.syncs == nil {
		d.syncs = make(map[string]int)
	}
	d.syncs[dir]++
}

// of returns how many syncs have failed in dir.
func (d *doubts) of(dir string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs[dir]
}

// resolved clears dir after its log was opened, unless more than the n syncs counted before have
// failed.
func (d *doubts) resolved(dir string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.syncs[dir] == n {
		delete(d.syncs, dir)
	}
}

// left reports whether fsys lacks the strata.suspect file of a log with a failed sync.
func (d *doubts) left(fsys *vfs.MemFS) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for dir := range d.syncs {
		if _, err := fsys.Stat(filepath.Join(dir, "strata.suspect")); err != nil {
			return true
		}
	}
	return false
}

// expectAll returns the content that each log must have after a crash at the cut.
func (c *cut) expectAll(killed bool) (all []*expectation) {
	for i := range c.cfgs {
		all = append(all, expect(c.facts, c.sure, i, c.durable[i], killed))
	}
	return all
}
