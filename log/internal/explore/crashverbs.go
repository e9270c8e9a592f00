package explore

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/stratalog/strata/vfs"
)

// crash stops all logs and continues with the file system that the crash leaves.
func (w *world) crash(_ *member, args Args) error {
	how := crashNamed(args["kind"])
	now := w.now(vfs.Event{})
	next := how.of(w.fs, uint64(args.Int("seed")))
	w.cuts.stop()
	w.heal()
	_ = w.closeAll() // the old process: its errors do not matter any more
	w.fs = next
	o := &opening{world: w, cut: &now, fs: next.Kill(), want: now.expectAll(how.Killed)}
	if how.Killed {
		o.fs = next.Kill()
	}
	if err := w.checkBackups(&now, next.Kill()); err != nil {
		return fmt.Errorf("%s: %w", how.Name, err)
	}
	w.forget()
	for _, m := range w.logs {
		m.half = false // the expectation after the crash covers a removal that failed
	}
	if err := w.openAll(); err != nil {
		return fmt.Errorf("%s: open: %w", how.Name, err)
	}
	for i, m := range w.logs {
		l := m.log.Load()
		f, err := readLog(l)
		if err == nil {
			err = errors.Join(o.want[i].check(f), o.want[i].checkEpochs(l), checkSnapshots(l, f), checkTimes(l, f))
		}
		if err != nil {
			return fmt.Errorf("%s: log %d: %w", how.Name, i, err)
		}
		w.begin(m, l, f)
	}
	w.observe()
	return nil
}

// checkBackups checks the backups made since the last crash. A finished backup must exist; another
// one may be missing, but must be whole if it exists.
func (w *world) checkBackups(c *cut, fsys *vfs.MemFS) error {
	for i, f := range c.facts {
		if f.kind != backing {
			continue
		}
		until, finished := len(c.facts), false
		for j, g := range c.facts {
			if g.kind == backed && g.name == f.name {
				until, finished = j, j < c.sure
			}
		}
		if _, err := fsys.Stat(f.name); errors.Is(err, fs.ErrNotExist) && !finished {
			continue
		}
		if err := checkBackup(fsys, f.name, expect(c.facts[:until], i, f.log, 0, true)); err != nil {
			return err
		}
	}
	return nil
}

var faultOps = map[string]vfs.Op{
	"write": vfs.OpWrite, "sync": vfs.OpSync, "truncate": vfs.OpTruncate, "create": vfs.OpCreate, "open": vfs.OpOpen, "rename": vfs.OpRename,
	"remove": vfs.OpRemove, "read": vfs.OpRead, "syncdir": vfs.OpSyncDir, "allocate": vfs.OpAllocate, "close": vfs.OpClose,
	"stat": vfs.OpStat, "list": vfs.OpReadDir, "other": vfs.OpMkdir | vfs.OpLock | vfs.OpLink | vfs.OpChtimes, "any": vfs.OpAny,
	"grow": vfs.OpWrite | vfs.OpCreate | vfs.OpAllocate | vfs.OpMkdir,
}

// fault arms a fault.
func (w *world) fault(_ *member, args Args) error {
	f := vfs.Fault{Pattern: args["file"], After: int(args.Int("after")), Times: int(args.Int("times")), Keep: int(args.Int("keep")), Err: syscall.EIO}
	for name := range strings.SplitSeq(args["ops"], "+") {
		f.Ops |= faultOps[name]
	}
	switch args["err"] {
	case "full":
		f.Err = syscall.ENOSPC
	case "lie":
		f.Err, f.Lie = nil, true
	case "short":
		f.Err = nil
		f.Keep = max(f.Keep, 1)
	}
	w.faults = append(w.faults, w.fs.Inject(f))
	w.faulty, w.hurt = true, true
	return nil
}

// healAll disarms the faults, and opens each log again that is broken or could not be opened.
func (w *world) healAll(_ *member, _ Args) error {
	w.heal()
	for _, m := range w.logs {
		if l := m.log.Load(); l == nil || l.Err() != nil {
			if err := w.reopen(m); err != nil {
				return err
			}
		}
	}
	return nil
}
