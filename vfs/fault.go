package vfs

import (
	"path/filepath"
	"time"
)

// Always as Fault.Times makes a fault permanent.
const Always = -1

// A Fault describes an error to inject, and when. The first After matching operations are not
// affected; the fault is applied to the next Times.
//
// If several faults match an operation, all of them count it, and the first due fault is
// applied.
type Fault struct {
	// Ops are the kinds of operations that match. 0 means any.
	Ops Op
	// Pattern is matched against the last element of the name (either name of Rename and Link) as
	// filepath.Match does. "" matches everything, a malformed pattern nothing.
	Pattern string
	// After is the number of matching operations before the first affected one.
	After int
	// Times is the number of affected operations. 0 means one, Always all later ones.
	Times int

	// Err is the error of the operation, wrapped in a *fs.PathError. The operation has no effect
	// (but see Keep). A failed Sync on a MemFS loses the data that was not synced, as on Linux: it
	// can still be read, but a power failure removes it even if a later Sync succeeds.
	Err error
	// Keep is the number of bytes of a read or write that succeed all the same, at most the
	// requested number; a negative Keep is that many less than all. If Err is nil and Keep is not
	// 0, writes fail with io.ErrShortWrite and reads with io.EOF.
	Keep int
	// Lie returns success without doing anything. Reads leave the buffer unchanged.
	Lie bool
	// Flip inverts bit Bit of the file (bit 0 is the lowest of the first byte) in read data; only
	// reads that include the bit match.
	Flip bool
	Bit  int64
	// Delay is the duration of the operation: it takes effect at once and returns later. In a
	// testing/synctest bubble the time is virtual.
	Delay time.Duration
}

// matches reports whether the fault counts this operation.
func (f *Fault) matches(e *Event) bool {
	if f.Ops != 0 && f.Ops&e.Op == 0 {
		return false
	}
	if f.Flip && (e.Op != OpRead || f.Bit/8 < e.Off || f.Bit/8 >= e.Off+e.Len) {
		return false
	}
	return f.Pattern == "" || baseMatches(f.Pattern, e.Name) || e.NewName != "" && baseMatches(f.Pattern, e.NewName)
}

func baseMatches(pattern, name string) bool {
	ok, err := filepath.Match(pattern, filepath.Base(name))
	return ok && err == nil
}
