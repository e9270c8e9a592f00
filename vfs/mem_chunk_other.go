//go:build !linux

package vfs

// mapChunk returns nil: memory for pages comes from the heap.
func mapChunk() []byte { return nil }

func unmapChunk([]byte) {}
