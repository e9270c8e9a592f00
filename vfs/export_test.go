package vfs

// PendingChanges returns how many unsynced changes an open file of a MemFS remembers.
func PendingChanges(f File) int {
	return len(f.(*faultFile).file.(*memFile).node.data.pending)
}
