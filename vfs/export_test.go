package vfs

// PendingChanges returns the number of unsynced changes that an open file of a MemFS keeps.
func PendingChanges(f File) int {
	return len(f.(*faultFile).file.(*memFile).node.data.pending)
}

// ActLarge makes an open file of a MemFS take its memory in the same way as large files.
func ActLarge(f File) {
	f.(*faultFile).file.(*memFile).node.data.slabs.allocated = chunksFrom
}

// AllocatedBytes returns the number of bytes allocated for the content of an open file of a MemFS.
func AllocatedBytes(f File) int64 {
	return int64(f.(*faultFile).file.(*memFile).node.data.slabs.allocated)
}
