package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// memFile is an open file of a memTree. It works on the content whatever becomes of the name.
type memFile struct {
	tree   *memTree
	node   *node
	name   string
	flag   int
	closed atomic.Bool
}

var errBadFlag = errors.New("file not opened for this")

// use checks that the file is open in the right way; with write also that it is open for writing.
func (f *memFile) use(op string, write bool) error {
	var err error
	switch mode := f.flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR); {
	case f.closed.Load():
		err = fs.ErrClosed
	case f.node.data == nil:
		err = errIsDir
	case write && mode == os.O_RDONLY || !write && mode == os.O_WRONLY:
		err = errBadFlag
	default:
		return nil
	}
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

// Name implements File.
func (f *memFile) Name() string { return f.name }

// ReadAt implements File.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.use("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "readat", Path: f.name, Err: errNegativeOffset}
	}
	f.tree.mu.RLock()
	defer f.tree.mu.RUnlock()
	d := f.node.data
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := 0
	if off < d.size {
		n = d.readLocked(p, off)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements File.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) { return f.writevAt([][]byte{p}, off) }

// WritevAt implements File.
func (f *memFile) WritevAt(bufs [][]byte, off int64) (int, error) { return f.writevAt(bufs, off) }

func (f *memFile) writevAt(bufs [][]byte, off int64) (int, error) {
	if err := f.use("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "writeat", Path: f.name, Err: errNegativeOffset}
	}
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	if total == 0 {
		return 0, nil
	}
	f.tree.mu.RLock()
	defer f.tree.mu.RUnlock()
	fits, unlock := f.tree.roomLocked(f.node, off+int64(total))
	defer unlock()
	left := min(int64(total), max(fits-off, 0))
	d, gen := f.node.data, f.tree.gen.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	pos := off
	if left > 0 {
		d.noteWriteLocked(f.tree.seq.Add(1), off, left)
		for _, b := range bufs {
			b = b[:min(int64(len(b)), off+left-pos)]
			d.writeLocked(b, pos, gen)
			pos += int64(len(b))
		}
		d.size, d.mtime = max(d.size, pos), time.Now()
	}
	if left < int64(total) {
		return int(left), noSpace(OpWrite, f.name)
	}
	return total, nil
}

// Size implements File.
func (f *memFile) Size() (int64, error) {
	if f.closed.Load() {
		return 0, &fs.PathError{Op: "stat", Path: f.name, Err: fs.ErrClosed}
	}
	f.tree.mu.RLock()
	defer f.tree.mu.RUnlock()
	return f.node.info("").size, nil
}

// Truncate implements File.
func (f *memFile) Truncate(size int64) error {
	if err := f.use("truncate", true); err != nil {
		return err
	}
	if size < 0 {
		return &fs.PathError{Op: "truncate", Path: f.name, Err: fs.ErrInvalid}
	}
	return f.resize(func(int64) int64 { return size })
}

// Allocate implements File. It reserves nothing, memory is taken by writing.
func (f *memFile) Allocate(off, n int64) error {
	if err := f.use("allocate", true); err != nil {
		return err
	}
	if off < 0 || n <= 0 {
		return &fs.PathError{Op: "allocate", Path: f.name, Err: fs.ErrInvalid}
	}
	return f.resize(func(size int64) int64 { return max(size, off+n) })
}

// resize changes the size to the result of to.
func (f *memFile) resize(to func(size int64) int64) error {
	f.tree.mu.RLock()
	defer f.tree.mu.RUnlock()
	d := f.node.data
	fits, unlock := f.tree.roomLocked(f.node, to(0))
	defer unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	size := to(d.size)
	if size > d.size && size > fits {
		return noSpace(OpAllocate, f.name)
	}
	if size != d.size {
		d.resizeLocked(f.tree.seq.Add(1), size)
		d.mtime = time.Now()
	}
	return nil
}

// Sync implements File.
func (f *memFile) Sync() error {
	if f.closed.Load() {
		return &fs.PathError{Op: "sync", Path: f.name, Err: fs.ErrClosed}
	}
	f.tree.mu.RLock()
	defer f.tree.mu.RUnlock()
	if d := f.node.data; d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.syncLocked()
	}
	return nil
}

// loseUnsynced has the effect of a failed Sync on the data.
func (f *memFile) loseUnsynced() {
	f.tree.mu.RLock()
	defer f.tree.mu.RUnlock()
	if d := f.node.data; d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.loseLocked(f.tree.seq.Add(1))
	}
}

// Close implements File.
func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	return nil
}
