package vfs

import (
	"path/filepath"
	"time"
)

// Always, as Fault.Times, makes a fault sticky.
const Always = -1

// Fault describes what goes wrong, and when. Of the matching operations the first After pass
// untouched, the next Times are hit.
//
// If several faults match one operation, all of them count it and the first one that is due
// decides.
type Fault struct {
	// Ops are the kinds of operations that match. 0: any.
	Ops Op
	// Pattern is matched against the last element of the name (either name of Rename and Link) as
	// filepath.Match does. "" matches everything, a malformed pattern nothing.
	Pattern string
	// After is how many matching operations pass untouched before the first one is hit.
	After int
	// Times is how many are hit. 0: one. Always: all that follow.
	Times int

	// Err is what the operation fails with, without having had any effect (but see Keep), wrapped
	// in a *fs.PathError. A Sync that fails on a MemFS loses what was not synced yet, as on Linux:
	// it can still be read, but a power cut takes it even if a later Sync succeeds.
	Err error
	// Keep is how many bytes of a read or write take place all the same, clipped to what was asked
	// for; a negative Keep is that many less than all. If Err is nil and Keep is not 0, writes fail
	// with io.ErrShortWrite and reads with io.EOF.
	Keep int
	// Lie reports success without doing anything. Reads leave the buffer as it is.
	Lie bool
	// Flip inverts bit Bit of the file (bit 0 is the lowest of the first byte) in what is read;
	// only reads covering it match.
	Flip bool
	Bit  int64
	// Delay is how long the operation takes: it has its effect at once and returns later. In a
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
