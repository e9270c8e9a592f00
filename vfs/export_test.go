package vfs

// PendingChanges returns how many unsynced changes an open file of a MemFS remembers.
func PendingChanges(f File) int {
	return len(f.(*faultFile).file.(*memFile).node.data.pending)
}

// ActLarge has an open file of a MemFS take its memory from where large files have it.
func ActLarge(f File) {
	f.(*faultFile).file.(*memFile).node.data.slabs.allocated = chunksFrom
}

// AllocatedBytes returns how much memory was allocated for the bytes of an open file of a MemFS.
func AllocatedBytes(f File) int64 {
	return int64(f.(*faultFile).file.(*memFile).node.data.slabs.allocated)
}
