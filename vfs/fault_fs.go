package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A FaultFS is a file system that fails on request, counts its operations and calls observers for
// them. Faulty returns one. It is safe for concurrent use.
type FaultFS struct {
	*faults

	fs   FS
	over <-chan struct{} // cuts delays short when it is closed; nil: nothing does
}

// faults is the state that a FaultFS shares with the sessions on it.
type faults struct {
	n     atomic.Int64 // operations so far
	kinds [len(opNames)]atomic.Int64
	hooks atomic.Pointer[hooks] // replaced under mu; nil: none

	mu sync.Mutex // serializes changes of hooks
}

// hooks is immutable, except for the counters in the faults.
type hooks struct {
	faults    []*armedFault
	observers []*Observer
}

type armedFault struct {
	Fault
	seen atomic.Int64 // matching operations so far
}

// due counts a matching operation and reports whether it is hit.
func (a *armedFault) due() bool {
	n := a.seen.Add(1) - int64(a.After)
	return n > 0 && (a.Times == Always || n <= int64(max(a.Times, 1)))
}

// Faulty wraps a file system. Without faults the FaultFS behaves as fsys does.
func Faulty(fsys FS) *FaultFS { return &FaultFS{faults: &faults{}, fs: fsys} }

// Inject arms a fault. The function returned disarms it; calling it again does nothing.
func (f *faults) Inject(fault Fault) (remove func()) {
	armed := &armedFault{Fault: fault}
	f.change(func(h *hooks) { h.faults = append(slices.Clip(h.faults), armed) })
	return func() {
		f.change(func(h *hooks) {
			h.faults = slices.DeleteFunc(slices.Clone(h.faults), func(a *armedFault) bool { return a == armed })
		})
	}
}

// Observe calls o for every operation from now on. The returned function ends that.
func (f *faults) Observe(o Observer) (remove func()) {
	f.change(func(h *hooks) { h.observers = append(slices.Clip(h.observers), &o) })
	return func() {
		f.change(func(h *hooks) {
			h.observers = slices.DeleteFunc(slices.Clone(h.observers), func(p *Observer) bool { return p == &o })
		})
	}
}

// Count returns how many operations of the given kinds there have been, failed ones included.
func (f *faults) Count(ops Op) int64 {
	var total int64
	for i := range f.kinds {
		if ops&(1<<i) != 0 {
			total += f.kinds[i].Load()
		}
	}
	return total
}

// change replaces the hooks by an edited copy.
func (f *faults) change(edit func(*hooks)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var h hooks
	if old := f.hooks.Load(); old != nil {
		h = *old
	}
	edit(&h)
	f.hooks.Store(&h)
}

// outcome is the planned outcome of one operation.
type outcome struct {
	event Event
	hooks *hooks
	fault *Fault // nil: none
	over  <-chan struct{}
}

// begin counts an operation, calls the observers and picks the fault that is due.
func (f *FaultFS) begin(e Event) outcome {
	e.N = f.n.Add(1)
	for i := range f.kinds {
		if e.Op == 1<<i {
			f.kinds[i].Add(1)
		}
	}
	o := outcome{event: e, hooks: f.hooks.Load(), over: f.over}
	if o.hooks == nil {
		return o
	}
	for _, obs := range o.hooks.observers {
		if obs.Before != nil {
			obs.Before(e)
		}
	}
	for _, a := range o.hooks.faults {
		if a.matches(&e) && a.due() && o.fault == nil {
			o.fault = &a.Fault
		}
	}
	return o
}

// end calls the observers and delays the operation as the fault requires.
func (o *outcome) end(err error) {
	if o.hooks == nil {
		return
	}
	for _, obs := range o.hooks.observers {
		if obs.After != nil {
			obs.After(o.event, err)
		}
	}
	if o.fault != nil && o.fault.Delay > 0 {
		late := time.NewTimer(o.fault.Delay)
		defer late.Stop()
		select {
		case <-late.C:
		case <-o.over:
		}
	}
}

// run performs an operation that has no bytes to shorten.
func (f *FaultFS) run(e Event, do func() error) error {
	o := f.begin(e)
	var err error
	switch {
	case o.fault == nil:
		err = do()
	case o.fault.Err != nil:
		err = o.failure()
	case !o.fault.Lie:
		err = do()
	}
	o.end(err)
	return err
}

// failure returns the error that the caller gets instead of the operation.
func (o *outcome) failure() error {
	return &fs.PathError{Op: o.event.Op.String(), Path: o.event.Name, Err: o.fault.Err}
}

// OpenFile implements FS. A Lie opens the file but does not create or truncate it.
func (f *FaultFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	op := OpOpen
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		op = OpCreate
	}
	o := f.begin(Event{Op: op, Name: name})
	if o.fault != nil && o.fault.Err != nil {
		err := o.failure()
		o.end(err)
		return nil, err
	}
	if o.fault != nil && o.fault.Lie {
		flag &^= os.O_CREATE | os.O_TRUNC | os.O_EXCL
	}
	file, err := f.fs.OpenFile(name, flag, perm)
	o.end(err)
	if err != nil {
		return nil, err
	}
	return &faultFile{fs: f, file: file}, nil
}

// Rename implements FS.
func (f *FaultFS) Rename(oldname, newname string) error {
	return f.run(Event{Op: OpRename, Name: oldname, NewName: newname}, func() error { return f.fs.Rename(oldname, newname) })
}

// Link implements FS.
func (f *FaultFS) Link(oldname, newname string) error {
	return f.run(Event{Op: OpLink, Name: oldname, NewName: newname}, func() error { return f.fs.Link(oldname, newname) })
}

// Remove implements FS.
func (f *FaultFS) Remove(name string) error {
	return f.run(Event{Op: OpRemove, Name: name}, func() error { return f.fs.Remove(name) })
}

// RemoveAll implements FS, with one Remove for each removed name.
func (f *FaultFS) RemoveAll(name string) error { return removeAll(f, name) }

// ReadDir implements FS. With a Lie it returns no entries.
func (f *FaultFS) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = f.run(Event{Op: OpReadDir, Name: name}, func() (err error) {
		entries, err = f.fs.ReadDir(name)
		return err
	})
	return entries, err
}

// MkdirAll implements FS.
func (f *FaultFS) MkdirAll(name string, perm fs.FileMode) error {
	return f.run(Event{Op: OpMkdir, Name: name}, func() error { return f.fs.MkdirAll(name, perm) })
}

// Stat implements FS. A Lie has no effect.
func (f *FaultFS) Stat(name string) (fs.FileInfo, error) {
	o := f.begin(Event{Op: OpStat, Name: name})
	if o.fault != nil && o.fault.Err != nil {
		err := o.failure()
		o.end(err)
		return nil, err
	}
	fi, err := f.fs.Stat(name)
	o.end(err)
	return fi, err
}

// Chtimes implements FS.
func (f *FaultFS) Chtimes(name string, mtime time.Time) error {
	return f.run(Event{Op: OpChtimes, Name: name}, func() error { return f.fs.Chtimes(name, mtime) })
}

// SyncDir implements FS.
func (f *FaultFS) SyncDir(name string) error {
	return f.run(Event{Op: OpSyncDir, Name: name}, func() error { return f.fs.SyncDir(name) })
}

// Lock implements FS. With a Lie it returns a lock that locks nothing.
func (f *FaultFS) Lock(name string) (c io.Closer, err error) {
	c = unlocked{}
	err = f.run(Event{Op: OpLock, Name: name}, func() (err error) {
		c, err = f.fs.Lock(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// RealPath implements FS. It is not counted as an operation, and faults and observers do not apply.
func (f *FaultFS) RealPath(name string) (string, error) { return f.fs.RealPath(name) }

// BootID implements FS.
func (f *FaultFS) BootID() string { return f.fs.BootID() }

type unlocked struct{}

func (unlocked) Close() error { return nil }

// Space implements SpaceFS. It is not counted as an operation.
func (f *FaultFS) Space(path string) (total, free int64, err error) {
	if below, ok := f.fs.(SpaceFS); ok {
		return below.Space(path)
	}
	return 0, 0, errors.ErrUnsupported
}
