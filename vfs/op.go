package vfs

import (
	"fmt"
	"strings"
)

// An Op is a kind of file-system operation, or a set of kinds joined with |.
type Op uint32

// The kinds of operations. Kinds without a comment are named after a method of FS.
const (
	OpOpen     Op = 1 << iota // OpenFile that neither creates nor truncates
	OpCreate                  // OpenFile with os.O_CREATE or os.O_TRUNC
	OpRead                    // File.ReadAt
	OpWrite                   // File.WriteAt and File.WritevAt
	OpSync                    // File.Sync
	OpTruncate                // File.Truncate
	OpAllocate                // File.Allocate
	OpClose                   // File.Close
	OpRename                  //
	OpLink                    //
	OpRemove                  // Remove; RemoveAll is one Remove for each removed name
	OpReadDir                 //
	OpMkdir                   // MkdirAll
	OpStat                    // Stat and File.Size
	OpChtimes                 //
	OpSyncDir                 //
	OpLock                    //

	opEnd

	// OpAny is every kind.
	OpAny = opEnd - 1
	// OpChange is every kind that can change the disk, or the data that a power failure would
	// leave.
	OpChange = OpCreate | OpWrite | OpSync | OpTruncate | OpAllocate | OpRename | OpLink | OpRemove | OpMkdir | OpChtimes | OpSyncDir | OpLock
)

var opNames = [...]string{"open", "create", "read", "write", "sync", "truncate", "allocate", "close", "rename", "link", "remove", "readdir",
	"mkdir", "stat", "chtimes", "syncdir", "lock"}

// String returns the kinds of the set as in "write|sync".
func (o Op) String() string {
	var names []string
	for i, name := range opNames {
		if o&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// An Event is one operation on a FaultFS or MemFS.
type Event struct {
	N  int64 // 1 for the first operation since the file system was made, and so on
	Op Op    // exactly one kind
	// Name is the name that the caller passed; for operations on files, the name the file was
	// opened with.
	Name    string
	NewName string // of a Rename or Link
	Off     int64  // of reads, writes and allocations; the new size of a Truncate
	Len     int64  // bytes of reads, writes and allocations
}

// String describes the operation on one line, for traces.
func (e Event) String() string {
	s := fmt.Sprintf("%d %s %s", e.N, e.Op, e.Name)
	switch e.Op {
	case OpRename, OpLink:
		s += " -> " + e.NewName
	case OpRead, OpWrite, OpAllocate:
		s += fmt.Sprintf(" [%d,%d)", e.Off, e.Off+e.Len)
	case OpTruncate:
		s += fmt.Sprintf(" to %d", e.Off)
	}
	return s
}

// An Observer is called for every operation. Both functions may be nil. They are called on the
// goroutine of the caller, without a lock held, so they may use the file system. Their own
// operations count, but are not observed.
type Observer struct {
	Before func(Event)        // called before the operation, even if a fault will prevent it
	After  func(Event, error) // called with the caller's result after the operation, before a Fault's Delay
}
