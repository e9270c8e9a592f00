package explore

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

// failing opens the logs once for each stride-th file system call of their opening, beginning with
// call first, and makes that call fail. The open may return that error; the next open, without the
// fault, must find everything. Each call fails with EIO, alone and together with all later calls.
// A call that changes the file system also fails with ENOSPC, alone.
func (o *opening) failing(crash Crash, seed uint64, first, stride int) (states int, err error) {
	calls, err := o.calls()
	if err != nil {
		return 0, err
	}
	for n := first; n < len(calls); n += stride {
		faults := []vfs.Fault{{After: n, Err: syscall.EIO}, {After: n, Err: syscall.EIO, Times: vfs.Always}}
		if calls[n].Op&vfs.OpChange != 0 {
			faults = append(faults, vfs.Fault{After: n, Err: syscall.ENOSPC})
		}
		for i, f := range faults {
			states++
			if err := o.fail(f, crash, seed, (n+i+int(seed))%len(aftermaths)); err != nil {
				return states, fmt.Errorf("%v at call %d of recovery, %v: %w", f.Err, n+1, calls[n], err)
			}
		}
	}
	return states, nil
}

// aftermaths lists the crashes after a failed opening: none, so that the same process tries again,
// the death of the process, or a power cut.
var aftermaths = []string{"", "killed", "lost", "torn"}

// calls returns the file system calls of an opening, in order. If the logs share a directory,
// other calls may come between them: it is then left to chance which call fails.
func (o *opening) calls() (calls []vfs.Event, err error) {
	var mu sync.Mutex // guards calls while the logs are open
	p := o.on(o.fs.Kill())
	stop := p.fs.Observe(vfs.Observer{Before: func(e vfs.Event) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, e)
	}})
	_, closeAll, err := p.open()
	stop()
	return calls, errors.Join(err, closeAll())
}

// on returns the same opening on another file system.
func (o *opening) on(fsys *vfs.MemFS) *opening {
	return &opening{world: o.world, cut: o.cut, want: o.want, fs: fsys, doubt: o.doubt}
}

// fail opens the logs while fault f is armed, then checks their content after the aftermath.
func (o *opening) fail(f vfs.Fault, crash Crash, seed uint64, aftermath int) error {
	p := o.on(o.fs.Kill())
	var lost doubts
	stop := p.fs.Observe(vfs.Observer{After: func(e vfs.Event, err error) {
		if e.Op == vfs.OpSync && err != nil && strings.HasSuffix(e.Name, ".log") {
			lost.add(filepath.Dir(e.Name))
		}
	}})
	heal := p.fs.Inject(f)
	logs, closeAll, err := p.open()
	heal()
	stop()
	if err = o.world.injected(err); err == nil {
		err = p.shown(logs)
	}
	if closeErr := closeAll(); err == nil {
		err = o.world.injected(closeErr)
	}
	if err != nil {
		return err
	}
	how := aftermaths[aftermath]
	if how == "" {
		return p.check()
	}
	next := crashNamed(how)
	if o.doubt && !next.Killed {
		return nil
	}
	p.want = o.cut.expectAll(crash.Killed && next.Killed)
	p.fs = next.of(p.fs, seed)
	// The disk did not even store the note that a sync had failed, so the next process cannot know
	// it.
	p.doubt = p.doubt || next.Killed && f.Times == vfs.Always && lost.left(p.fs)
	return p.check()
}

// open opens the directory and all logs, even if some fail; those are nil.
func (o *opening) open() (logs []*log.Log, closeAll func() error, err error) {
	var dir *log.Directory
	closeAll = func() error {
		var errs []error
		for _, l := range logs {
			if l != nil {
				errs = append(errs, l.Close())
			}
		}
		if dir != nil {
			errs = append(errs, dir.Close())
		}
		return errors.Join(errs...)
	}
	if o.world.args.Int("shared") > 0 {
		if dir, err = log.OpenDirectory(root, log.DirectoryConfig{FS: o.fs}); err != nil {
			return nil, closeAll, err
		}
	}
	for i, m := range o.world.logs {
		cfg := o.cut.cfgs[i]
		cfg.FS, cfg.Dir, cfg.Owner = o.fs, dir, &owner{}
		l, openErr := log.Open(m.path, cfg)
		if openErr != nil {
			openErr = fmt.Errorf("log %d: open: %w", i, openErr)
		}
		logs, err = append(logs, l), errors.Join(err, openErr)
	}
	return logs, closeAll, err
}

// shown checks the content of the logs that were opened although the disk failed.
func (o *opening) shown(logs []*log.Log) error {
	for i, l := range logs {
		if l == nil {
			continue
		}
		f, err := readLog(l)
		if err == nil {
			err = errors.Join(o.want[i].check(f), o.want[i].checkEpochs(l), checkSnapshots(l, f))
		}
		if err != nil {
			return fmt.Errorf("log %d opened all the same: %w", i, err)
		}
	}
	return nil
}
