package explore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// An opening opens and checks the logs that a crash at a cut has left.
type opening struct {
	world *world
	cut   *cut
	want  []*expectation
	fs    *vfs.MemFS
	// doubt is true if a killed process saw a sync fail and had not noted it on disk. The next
	// process may then report an offset as durable that a power cut can still undo.
	doubt bool
}

// seen is the content that the logs had when they were opened.
type seen struct {
	logs    []*found
	durable []int64
	clean   bool
	cut     bool // recovery cut off bytes
}

// look opens the logs, checks their content, calls use for each, and closes them.
func (o *opening) look(use func(i int, l *log.Log, f *found) error) (s seen, err error) {
	var dir *log.Directory
	if o.world.args.Int("shared") > 0 {
		if dir, err = log.OpenDirectory(root, log.DirectoryConfig{FS: o.fs}); err != nil {
			return s, fmt.Errorf("open: %w", err)
		}
		defer func() { err = errors.Join(err, dir.Close()) }()
	}
	s.clean = true
	for i, m := range o.world.logs {
		if err := o.lookAt(&s, i, m, dir, use); err != nil {
			return s, fmt.Errorf("log %d: %w", i, err)
		}
	}
	return s, nil
}

func (o *opening) lookAt(s *seen, i int, m *member, dir *log.Directory, use func(i int, l *log.Log, f *found) error) error {
	cfg := o.cut.cfgs[i]
	cfg.FS, cfg.Dir, cfg.Owner = o.fs, dir, &owner{}
	l, err := log.Open(m.path, cfg)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	durable := l.DurableOffset()
	f, err := readLog(l)
	if err == nil {
		err = errors.Join(o.want[i].check(f), o.want[i].checkEpochs(l), checkSnapshots(l, f))
	}
	if err == nil && use != nil {
		err = use(i, l, f)
	}
	s.logs, s.durable = append(s.logs, f), append(s.durable, durable)
	s.clean = s.clean && l.Recovery().Clean
	s.cut = s.cut || l.Recovery().CutBytes > 0
	return errors.Join(err, l.Close())
}

// check examines the logs after a crash. Every record that must be there is found, at the first
// and at the second open. The logs accept appends, and the offset that they report as durable
// survives a power cut.
func (o *opening) check() error {
	var killed *vfs.MemFS
	shown, err := o.readOnly()
	if err != nil {
		return fmt.Errorf("read-only: %w", err)
	}
	first, err := o.look(func(_ int, l *log.Log, f *found) error {
		killed = o.fs.Kill()
		return checkTimes(l, f)
	})
	if err != nil {
		return err
	}
	for i, f := range first.logs {
		if shown[i] != nil && !shown[i].equal(f) {
			return fmt.Errorf("log %d: read-only it held %v, opened %v", i, shown[i], f)
		}
	}
	lost := o.fs.CrashWith(Crashes[1].CrashOptions)
	second, err := o.look(o.goOn)
	if err != nil {
		return fmt.Errorf("second time: %w", err)
	}
	for i, f := range first.logs {
		if !f.equal(second.logs[i]) {
			return fmt.Errorf("log %d: the first time it held %v, the second time %v", i, f, second.logs[i])
		}
	}
	if !second.clean {
		return errors.New("recovered, closed in order, and recovered once more")
	}
	if err := o.again(killed, &first); err != nil {
		return err
	}
	if o.doubt {
		return nil
	}
	want := o.want
	defer func() { o.want = want }()
	o.want, o.fs = o.cut.expectAll(false), lost
	third, err := o.look(nil)
	if err != nil {
		return fmt.Errorf("power cut after reopening: %w", err)
	}
	for i, f := range third.logs {
		if f.end < first.durable[i] {
			return fmt.Errorf("log %d: called durable up to %d, after a power cut it ends at %d", i, first.durable[i], f.end)
		}
	}
	return nil
}

// readOnly returns what each log holds when a reader opens it before any recovery. A log is nil if
// the directory's journal has data that its files lack.
func (o *opening) readOnly() (shown []*found, err error) {
	for i, m := range o.world.logs {
		guard := &guardFS{FaultFS: vfs.Faulty(o.fs)}
		stop := guard.watch()
		cfg := o.cut.cfgs[i]
		cfg.FS = guard
		f := new(found)
		l, err := log.OpenReadOnly(m.path, cfg)
		if err == nil {
			f, err = readLog(l)
			err = errors.Join(err, l.Close())
		}
		stop()
		switch changed := guard.changed(); {
		case changed != "":
			return nil, fmt.Errorf("log %d: did %s", i, changed)
		case errors.Is(err, log.ErrJournaled):
			f = nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("log %d: %w", i, err)
		}
		shown = append(shown, f)
	}
	return shown, nil
}

// again opens logs whose process was killed right after their recovery. Nothing is left to
// recover.
func (o *opening) again(killed *vfs.MemFS, first *seen) error {
	if killed == nil {
		return nil
	}
	fsys := o.fs
	defer func() { o.fs = fsys }()
	o.fs = killed
	s, err := o.look(nil)
	if err != nil {
		return fmt.Errorf("killed after reopening: %w", err)
	}
	if s.cut {
		return errors.New("killed after reopening: something more was cut off")
	}
	for i, f := range first.logs {
		if !f.equal(s.logs[i]) {
			return fmt.Errorf("killed after reopening: log %d held %v, now %v", i, f, s.logs[i])
		}
	}
	return nil
}

// goOn appends to a log that was reopened after a crash.
func (o *opening) goOn(_ int, l *log.Log, f *found) error {
	offset, err := l.Append(context.Background(), record.String("", "after", "the crash"))
	if err == nil && offset < f.end {
		err = fmt.Errorf("appended at %d, the log ended at %d", offset, f.end)
	}
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return l.Roll()
}

// during crashes a second time, before every every-th file system call of the reopening.
func (o *opening) during(crash Crash, seed uint64, every int) (states int, err error) {
	var mu sync.Mutex // guards at and calls while the logs are open
	var at []*vfs.MemFS
	var events []vfs.Event
	calls := 0
	stop := o.fs.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange == 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%every == 0 {
			at = append(at, o.fs.Kill())
			events = append(events, e)
		}
	}})
	_, err = o.look(nil)
	stop()
	if err != nil {
		return 0, err
	}
	for i, fsys := range at {
		second := Crashes[(uint64(i)+seed)%uint64(len(Crashes))]
		if o.doubt && !second.Killed {
			continue
		}
		killed := crash.Killed && second.Killed
		p := &opening{world: o.world, cut: o.cut, fs: second.of(fsys, seed), want: o.cut.expectAll(killed), doubt: o.doubt}
		if err := p.check(); err != nil {
			return i, fmt.Errorf("crash (%s) before call %d of recovery, %v: %w", second.Name, (i+1)*every, events[i], err)
		}
	}
	return len(at), nil
}
