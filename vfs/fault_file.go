package vfs

import "io"

// faultFile is an open file of a FaultFS.
type faultFile struct {
	fs   *FaultFS
	file File
}

// syncLoser is implemented by files that can lose unsynced data as after a failed Sync.
type syncLoser interface{ loseUnsynced() }

// Name implements File.
func (f *faultFile) Name() string { return f.file.Name() }

// ReadAt implements File.
func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	o := f.fs.begin(f.event(OpRead, off, int64(len(p))))
	n, err := f.readAt(&o, p, off)
	o.end(err)
	return n, err
}

func (f *faultFile) readAt(o *outcome, p []byte, off int64) (int, error) {
	if o.fault == nil {
		return f.file.ReadAt(p, off)
	}
	fault := o.fault
	switch {
	case fault.Lie:
		return len(p), nil
	case fault.Err != nil || fault.Keep != 0:
		n, err := f.file.ReadAt(p[:fault.kept(len(p))], off)
		return n, o.shortened(err, io.EOF)
	}
	n, err := f.file.ReadAt(p, off)
	if i := fault.Bit/8 - off; fault.Flip && i < int64(n) {
		p[i] ^= 1 << (fault.Bit % 8)
	}
	return n, err
}

// WriteAt implements File.
func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	o := f.fs.begin(f.event(OpWrite, off, int64(len(p))))
	var n int
	var err error
	if o.fault == nil {
		n, err = f.file.WriteAt(p, off)
	} else {
		n, err = f.writevAt(&o, [][]byte{p}, int64(len(p)), off)
	}
	o.end(err)
	return n, err
}

// WritevAt implements File.
func (f *faultFile) WritevAt(bufs [][]byte, off int64) (int, error) {
	total := int64(0)
	for _, b := range bufs {
		total += int64(len(b))
	}
	o := f.fs.begin(f.event(OpWrite, off, total))
	n, err := f.writevAt(&o, bufs, total, off)
	o.end(err)
	return n, err
}

func (f *faultFile) writevAt(o *outcome, bufs [][]byte, total, off int64) (int, error) {
	if o.fault == nil {
		return f.file.WritevAt(bufs, off)
	}
	fault := o.fault
	switch {
	case fault.Lie:
		return int(total), nil
	case fault.Err != nil || fault.Keep != 0:
		keep := fault.kept(int(total))
		if keep == 0 {
			return 0, o.shortened(nil, io.ErrShortWrite)
		}
		n, err := f.file.WritevAt(prefix(bufs, keep), off)
		return n, o.shortened(err, io.ErrShortWrite)
	}
	return f.file.WritevAt(bufs, off)
}

// kept returns how many of n bytes a failing read or write still moves.
func (f *Fault) kept(n int) int {
	if f.Keep < 0 {
		return max(n+f.Keep, 0)
	}
	return min(f.Keep, n)
}

// shortened returns the error of a shortened read or write: its own, the fault's, or otherwise.
func (o *outcome) shortened(own, otherwise error) error {
	switch {
	case own != nil && own != io.EOF:
		return own
	case o.fault.Err != nil:
		return o.failure()
	}
	return otherwise
}

// prefix returns the first n bytes of bufs in a list of its own.
func prefix(bufs [][]byte, n int) [][]byte {
	var first [][]byte
	for _, b := range bufs {
		b = b[:min(n, len(b))]
		n -= len(b)
		first = append(first, b)
	}
	return first
}

// Size implements File. A Lie does not lie here.
func (f *faultFile) Size() (int64, error) {
	o := f.fs.begin(f.event(OpStat, 0, 0))
	if o.fault != nil && o.fault.Err != nil {
		err := o.failure()
		o.end(err)
		return 0, err
	}
	size, err := f.file.Size()
	o.end(err)
	return size, err
}

// Truncate implements File.
func (f *faultFile) Truncate(size int64) error {
	return f.fs.run(f.event(OpTruncate, size, 0), func() error { return f.file.Truncate(size) })
}

// Allocate implements File.
func (f *faultFile) Allocate(off, n int64) error {
	return f.fs.run(f.event(OpAllocate, off, n), func() error { return f.file.Allocate(off, n) })
}

// Sync implements File.
func (f *faultFile) Sync() error {
	o := f.fs.begin(f.event(OpSync, 0, 0))
	var err error
	switch {
	case o.fault != nil && o.fault.Err != nil:
		if l, ok := f.file.(syncLoser); ok {
			l.loseUnsynced()
		}
		err = o.failure()
	case o.fault == nil || !o.fault.Lie:
		err = f.file.Sync()
	}
	o.end(err)
	return err
}

// Close implements File. The file is closed even if a fault has Close fail, as in the system.
func (f *faultFile) Close() error {
	o := f.fs.begin(f.event(OpClose, 0, 0))
	err := f.file.Close()
	if err == nil && o.fault != nil && o.fault.Err != nil {
		err = o.failure()
	}
	o.end(err)
	return err
}

func (f *faultFile) event(op Op, off, n int64) Event {
	return Event{Op: op, Name: f.file.Name(), Off: off, Len: n}
}
