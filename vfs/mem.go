package vfs

import (
	"fmt"
)

// A MemFS is a file system in memory that can be copied as a killed process or a power failure
// would leave it. It records which bytes, sizes and directory entries have been synced. It is also
// a FaultFS; a clone does not share its faults and observers.
//
// A File's bytes and size become stable with its Sync, directory entries with SyncDir of their
// directory; a new file needs both. Only written data takes memory: holes and preallocated space
// take none. On Linux the data of files of more than 4 MiB is outside the garbage-collected heap,
// and does not count in any statistic or limit of package runtime. It is freed when the collector
// has found that no file system or copy refers to it. Modes are kept but not enforced. The root
// directory exists; names are cleaned, and relative names start at the root.
type MemFS struct {
	*FaultFS

	tree *memTree
}

// Mem returns an empty file system in memory.
func Mem() *MemFS { return newMem(newMemTree(1)) }

func newMem(t *memTree) *MemFS { return &MemFS{FaultFS: Faulty(t), tree: t} }

// SetCapacity sets the capacity of the file system in bytes. Writes and allocations beyond it fail
// with ENOSPC; a write takes place as far as it fits. Each name counts its file's size, in blocks
// of 4 KiB; directories count nothing. 0, the initial value, means no limit. Clones have no limit.
// It may be called at any time.
func (m *MemFS) SetCapacity(bytes int64) { m.tree.capacity.Store(bytes) }

// A CrashMode determines which unsynced changes survive a power failure.
type CrashMode uint8

// The modes of CrashOptions.
const (
	// CrashRandom keeps or loses every 4 KiB block, every size and every entry independently, with
	// a probability that is drawn for each crash. Of several writes to one block a random number
	// survive, in order. Changes of one name survive in order; changes of different names need not.
	CrashRandom CrashMode = iota
	// CrashLost loses everything.
	CrashLost
	// CrashKept keeps everything.
	CrashKept
	// CrashTorn is CrashRandom, but the last surviving write to a block survives only in some of
	// its 512-byte sectors, or in a part that ends inside a sector. No surviving part begins later
	// in a sector than the write does, since no disk does that. Sizes and entries cannot be torn:
	// for them it is CrashRandom.
	CrashTorn
	// CrashOrdered keeps the changes before a random instant, the same for everything in this mode,
	// and loses the rest, as a file system that never reorders. Of the write at that instant a
	// random number of bytes survives.
	CrashOrdered
)

// String returns the mode's name.
func (m CrashMode) String() string {
	names := [...]string{"random", "lost", "kept", "torn", "ordered"}
	if int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("CrashMode(%d)", uint8(m))
}

// CrashOptions describes a power failure. The zero value keeps and loses changes at random.
type CrashOptions struct {
	Seed    uint64    // the same file system and options give the same result
	Data    CrashMode // bytes written but not synced
	Sizes   CrashMode // sizes of files changed but not synced; data beyond a lost size is lost
	Entries CrashMode // creations, links, renames and removals without SyncDir
}

// Crash returns a copy of the file system as a power failure now would leave it, after the reboot:
// BootID differs, and there are no locks. Unsynced blocks are kept, lost or torn, unsynced sizes
// and entries kept or lost, all selected by seed. m itself is not affected: it is copied at one
// instant between two operations.
func (m *MemFS) Crash(seed uint64) *MemFS {
	return m.CrashWith(CrashOptions{Seed: seed, Data: CrashTorn, Sizes: CrashRandom, Entries: CrashRandom})
}

// CrashWith is Crash with options that determine which unsynced changes survive.
func (m *MemFS) CrashWith(o CrashOptions) *MemFS { return newMem(m.tree.crash(o)) }

// Kill returns a copy of the file system as a new process would find it if this process was killed
// now. All written data is there, unsynced data is still unsynced, there are no locks, and BootID
// is the same. m itself is not affected.
func (m *MemFS) Kill() *MemFS { return newMem(m.tree.kill()) }

// PowerCut cuts the power of the directory dir, as if it were on a disk, or a machine, of its own.
// dir gets the content that CrashWith would leave of it, and BootID changes. It happens at one
// instant between two operations. Open files of dir continue without a name, so that data written
// to them is lost, and their locks lock nothing any more. Files outside dir and the name of dir
// itself do not change.
func (m *MemFS) PowerCut(dir string, o CrashOptions) error { return m.tree.powerCut(dir, o) }
