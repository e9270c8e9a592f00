package vfs

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
)

// A reserve is disk space that is held in a file for the essential files of a Session: those that
// have to be written before anything can be deleted. A full disk would never heal without it.
//
// An essential write that fails for want of space takes a step of the reserve and is tried again.
// From then on the reserve is short: other files are not written until it is whole again, or they
// would take the space that was given up. They get ENOSPC, as if the reserve had never been there.
type reserve struct {
	fs        FS // below the session
	name      string
	bytes     int64
	essential func(name string) bool

	short atomic.Bool // held < bytes; stored under mu

	mu   sync.Mutex // guards held, and the file
	held int64      // size of the file, all of it allocated
}

// Reserve holds bytes of disk space in the file name, for files whose names are essential. It is
// called once, before several goroutines use the session. If the disk has less space, Reserve holds
// as much as there is, and files that are not essential cannot be written until there is enough. If
// the file system does not report its space (SpaceFS), nothing is reserved. It returns the errors
// of the file, except ENOSPC.
func (s *Session) Reserve(name string, bytes int64, essential func(name string) bool) error {
	below, ok := s.fs.(SpaceFS)
	if !ok {
		return nil
	}
	var r *reserve
	err := s.do(OpCreate, name, func() error {
		total, _, err := below.Space(filepath.Dir(name))
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		r = &reserve{fs: s.fs, name: name, bytes: min(bytes, total/reserveShare), essential: essential}
		return r.fill()
	})
	if err == nil {
		s.reserve = r
	}
	return err
}

const (
	// reserveShare is the part of a file system that is held at most: one of so many.
	reserveShare = 64
	// reserveStep is how much an essential write takes at once, in bytes.
	reserveStep = 64 << 10
	// opReserved are the operations that may take space of the reserve, beside writes. A sync must not
	// be tried again, and preallocation is not essential.
	opReserved = OpCreate | OpRename | OpTruncate
)

// keeps returns r if it keeps its space from the file name, nil if it lends it.
func (r *reserve) keeps(name string) *reserve {
	if r == nil || r.essential(name) {
		return nil
	}
	return r
}

// isShort reports whether files that are not essential have to wait for the reserve, which is
// filled first if that is possible now.
func (r *reserve) isShort() bool {
	return r != nil && r.short.Load() && (r.fill() != nil || r.short.Load())
}

// lend gives up a step of the reserve if err is ENOSPC or EDQUOT, and name is essential. It reports
// whether the caller tries the operation again.
func (r *reserve) lend(name string, err error) bool {
	if err == nil || r == nil || !isFull(err) || !r.essential(name) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == 0 {
		return false
	}
	r.short.Store(true)
	left := max(r.held-reserveStep, 0)
	if r.with(func(f File) error { return f.Truncate(left) }) != nil {
		return false
	}
	r.held = left
	return true
}

// fill makes the reserve whole, or takes all free space if that is less.
func (r *reserve) fill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.with(func(f File) error {
		size, err := f.Size()
		if err == nil && size > r.bytes {
			err = f.Truncate(r.bytes)
		}
		if err != nil {
			return err
		}
		for n := r.bytes - r.held; r.held < r.bytes && n > 0; n = min(n, r.bytes-r.held) {
			switch err := occupy(f, r.held, n); {
			case err == nil:
				r.held += n
			case isFull(err):
				if err := f.Truncate(r.held); err != nil {
					return err
				}
				n = n / 2 / pageSize * pageSize
			default:
				return err
			}
		}
		return nil
	})
	r.short.Store(r.held < r.bytes)
	return err
}

// with calls fn with the file. A descriptor is not kept for it.
func (r *reserve) with(fn func(f File) error) error {
	f, err := r.fs.OpenFile(r.name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(fn(f), f.Close())
}

// occupy takes space on the disk for n bytes from off. Where the file system cannot reserve it,
// they are written, with bytes that cannot be compressed.
func occupy(f File, off, n int64) error {
	if err := f.Allocate(off, n); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	p := make([]byte, min(n, reserveStep))
	for n > 0 {
		_, _ = rand.Read(p) // never fails
		w, err := f.WriteAt(p[:min(n, int64(len(p)))], off)
		if err != nil {
			return err
		}
		off, n = off+int64(w), n-int64(w)
	}
	return nil
}

// isFull reports whether an operation failed for want of space.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func noSpace(op Op, name string) error {
	return &fs.PathError{Op: op.String(), Path: name, Err: syscall.ENOSPC}
}
