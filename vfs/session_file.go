package vfs

import "slices"

// sessionFile is an open file of a Session.
type sessionFile struct {
	s       *Session
	f       File
	reserve *reserve // of the session, if it is not for this file; nil: the file is written at any time
}

// Name implements File.
func (f *sessionFile) Name() string { return f.f.Name() }

// ReadAt implements File. Not by way of do: it is called for
// every read, and a closure may allocate.
func (f *sessionFile) ReadAt(p []byte, off int64) (int, error) {
	if !f.s.enter() {
		return 0, hasEnded(OpRead, f.f.Name())
	}
	n, err := f.f.ReadAt(p, off)
	if !f.s.leave() {
		return 0, hasEnded(OpRead, f.f.Name())
	}
	return n, err
}

// WriteAt implements File.
func (f *sessionFile) WriteAt(p []byte, off int64) (int, error) {
	if !f.s.enter() {
		return 0, hasEnded(OpWrite, f.f.Name())
	}
	if f.reserve.isShort() {
		f.s.leave()
		return 0, noSpace(OpWrite, f.f.Name())
	}
	n, err := f.f.WriteAt(p, off)
	for err != nil && f.reserve == nil && f.s.reserve.lend(f.f.Name(), err) {
		n, err = f.f.WriteAt(p, off)
	}
	if !f.s.leave() {
		return 0, hasEnded(OpWrite, f.f.Name())
	}
	return n, err
}

// WritevAt implements File.
func (f *sessionFile) WritevAt(bufs [][]byte, off int64) (int, error) {
	if !f.s.enter() {
		return 0, hasEnded(OpWrite, f.f.Name())
	}
	if f.reserve.isShort() {
		f.s.leave()
		return 0, noSpace(OpWrite, f.f.Name())
	}
	var again [][]byte // the call changes bufs
	if f.reserve == nil && f.s.reserve != nil {
		again = slices.Clone(bufs)
	}
	n, err := f.f.WritevAt(bufs, off)
	for err != nil && f.reserve == nil && f.s.reserve.lend(f.f.Name(), err) {
		n, err = f.f.WritevAt(slices.Clone(again), off)
	}
	if !f.s.leave() {
		return 0, hasEnded(OpWrite, f.f.Name())
	}
	return n, err
}

// Sync implements File.
func (f *sessionFile) Sync() error {
	if !f.s.enter() {
		return hasEnded(OpSync, f.f.Name())
	}
	err := f.f.Sync()
	if !f.s.leave() {
		return hasEnded(OpSync, f.f.Name())
	}
	return err
}

// Size implements File.
func (f *sessionFile) Size() (size int64, err error) {
	err = f.s.do(OpStat, f.f.Name(), func() (err error) {
		size, err = f.f.Size()
		return err
	})
	return size, err
}

// Truncate implements File.
func (f *sessionFile) Truncate(size int64) error {
	return f.s.do(OpTruncate, f.f.Name(), func() error { return f.f.Truncate(size) })
}

// Allocate implements File.
func (f *sessionFile) Allocate(off, n int64) error {
	if f.reserve.isShort() {
		return noSpace(OpAllocate, f.f.Name())
	}
	return f.s.do(OpAllocate, f.f.Name(), func() error { return f.f.Allocate(off, n) })
}

// Close implements File. It always reaches the file, or the descriptor would stay.
func (f *sessionFile) Close() error { return f.f.Close() }
