package vfs

import (
	"fmt"
)

// MemFS is a file system in memory that can be left as a killed process or a power cut would leave
// it: it knows which bytes, sizes and directory entries have reached its "disk" and which have not.
// It is also a FaultFS, whose faults and observers it shares with no clone.
//
// A File's bytes and size become stable with its Sync, directory entries with SyncDir of their
// directory; a new file needs both. Memory follows what has been written: holes and preallocated
// space cost none. On Linux files of more than 4 MiB have theirs outside of the collector's heap,
// where no statistic or limit of package runtime counts it; it is given back when the collector has
// found that no file system or copy has it any more. Modes are kept but not enforced. The root
// directory exists; names are cleaned, and relative ones start at the root.
type MemFS struct {
	*FaultFS

	tree *memTree
}

// Mem returns an empty file system in memory.
func Mem() *MemFS { return newMem(newMemTree(1)) }

func newMem(t *memTree) *MemFS { return &MemFS{FaultFS: Faulty(t), tree: t} }

// CrashMode says what a power cut leaves of the changes that had not been synced.
type CrashMode uint8

// The modes of CrashOptions.
const (
	// CrashRandom keeps or loses every 4 KiB block, every size and every entry by itself, with a
	// probability drawn per crash. Of several writes to one block a random number survive, in
	// order. Changes to one name survive in order, others need not.
	CrashRandom CrashMode = iota
	// CrashLost loses everything.
	CrashLost
	// CrashKept keeps everything.
	CrashKept
	// CrashTorn is CrashRandom, but of the last write surviving in a block only part of the 512
	// byte sectors, or a part that ends inside a sector, has got there. None begins later in a
	// sector than the write does: no disk does that. Sizes and entries cannot be torn: for them it
	// is CrashRandom.
	CrashTorn
	// CrashOrdered keeps what happened before a random moment, the same for all that is in this
	// mode, and loses the rest: a file system that never reorders. Of the write at that moment a
	// random number of bytes has got there.
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

// CrashOptions describes a power cut. The zero value keeps and loses at random.
type CrashOptions struct {
	Seed    uint64    // the same file system and options give the same result
	Data    CrashMode // bytes written but not synced
	Sizes   CrashMode // sizes of files changed but not synced; what lies beyond a lost size is lost
	Entries CrashMode // creations, links, renames and removals without SyncDir
}

// Crash returns what a power cut now would leave on the disk, and the machine after the reboot:
// BootID differs, locks are gone. Unsynced blocks are kept, lost or torn, unsynced sizes and
// entries kept or lost, all chosen by seed. m itself goes on undisturbed: it is copied at one
// moment between two operations.
func (m *MemFS) Crash(seed uint64) *MemFS {
	return m.CrashWith(CrashOptions{Seed: seed, Data: CrashTorn, Sizes: CrashRandom, Entries: CrashRandom})
}

// CrashWith is Crash with a choice of what happens to unsynced changes.
func (m *MemFS) CrashWith(o CrashOptions) *MemFS { return newMem(m.tree.crash(o)) }

// Kill returns the file system as a process finds it that starts after this one was killed now:
// everything written is there, what was not synced still is not, locks are gone, BootID is the
// same. m itself goes on undisturbed.
func (m *MemFS) Kill() *MemFS { return newMem(m.tree.kill()) }

// PowerCut takes the power from the directory dir, as if it were a disk, or a machine, of its own:
// in place of dir there is what CrashWith would leave of it, and BootID is another. It happens at
// one moment between two operations. Files of dir that are open go on without a name, where nobody
// sees what is written to them, and locks on them lock nothing any more. What is beside dir stays
// as it is, and so does the name of dir itself.
func (m *MemFS) PowerCut(dir string, o CrashOptions) error { return m.tree.powerCut(dir, o) }
